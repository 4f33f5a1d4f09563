//! The objects that streamed and complete responses share.

use std::num::NonZeroU32;

use serde_json::{Map, Value, json};
use tacho_core::ServerTimes;

use super::choice::{Choice, Piece, TokenLogprobs};
use super::generation::Usage;

impl Usage {
    /// The counts that every protocol of OpenAI reports.
    pub(crate) fn counts(self) -> Value {
        json!({
            "prompt_tokens": self.prompt,
            "total_tokens": self.prompt + self.completion,
            "completion_tokens": self.completion
        })
    }

    pub(crate) fn completion_details(self) -> Value {
        if self.reasoning == 0 { Value::Null } else { json!({"reasoning_tokens": self.reasoning}) }
    }

    /// Cached tokens of the prompt, if there are any to report.
    pub(crate) fn reported_cache(self) -> Option<usize> {
        Some(self.cached).filter(|cached| self.reports_cached && *cached > 0)
    }
}

/// The `metrics` of a response with that many tokens, as vLLM reports them with `--enable-per-request-metrics`.
pub(crate) fn metrics(times: ServerTimes, tokens: usize) -> Value {
    let ms = |us: Option<NonZeroU32>| us.map(|us| f64::from(us.get()) / 1e3);
    let (prefill, decode, tokens) = (ms(times.prefill), ms(times.decode), tokens as f64);
    let inference = prefill.zip(decode).map(|(prefill, decode)| prefill + decode).filter(|ms| *ms > 0.0);
    json!({
        "time_to_first_token_ms": prefill,
        "generation_time_ms": decode,
        "queue_time_ms": ms(times.queue),
        "mean_itl_ms": decode.filter(|_| tokens > 1.0).map(|ms| ms / (tokens - 1.0)),
        "tokens_per_second": inference.map(|ms| tokens / ms * 1e3),
        "speculative_decoding": null
    })
}

/// The last event has a finish reason, the others have none.
pub(crate) fn finish_reason(choice: &Choice, is_last: bool) -> Option<&'static str> {
    is_last.then(|| choice.finish_name())
}

/// Log-probabilities of a completion; the first token of an echoed prompt has none.
pub(crate) fn completion_logprobs(tokens: &[&TokenLogprobs], echoes_prompt: bool) -> Value {
    let known = |at: usize, value: Value| if echoes_prompt && at == 0 { Value::Null } else { value };
    let each = |value: fn(&TokenLogprobs) -> Value| -> Vec<Value> { tokens.iter().map(|token| value(token)).collect() };
    let scored = |value: fn(&TokenLogprobs) -> Value| -> Vec<Value> {
        tokens.iter().enumerate().map(|(at, token)| known(at, value(token))).collect()
    };
    json!({
        "text_offset": each(|token| token.text_offset.into()),
        "token_logprobs": scored(|token| token.tokens[0].1.into()),
        "tokens": each(|token| token.tokens[0].0.as_str().into()),
        "top_logprobs": scored(alternatives)
    })
}

/// Different tokens may have the same text; an object has one member per name.
fn alternatives(token: &TokenLogprobs) -> Value {
    let mut out = Map::new();
    for (text, logprob) in &token.tokens {
        out.entry(text.as_str()).or_insert_with(|| (*logprob).into());
    }
    Value::Object(out)
}

pub(crate) fn chat_logprobs<'t>(tokens: impl Iterator<Item = &'t TokenLogprobs>, alternatives: usize) -> Value {
    let one = |(text, logprob): &(String, f64)| json!({"token": text, "logprob": logprob, "bytes": text.as_bytes()});
    let content = tokens.map(|token| {
        let mut first = one(&token.tokens[0]);
        first["top_logprobs"] = token.tokens.iter().take(alternatives).map(one).collect();
        first
    });
    json!({"content": content.collect::<Vec<_>>()})
}

impl Piece {
    /// The ids of its tokens, if requested.
    pub(crate) fn ids(&self, is_requested: bool) -> Option<Vec<u32>> {
        is_requested.then(|| self.tokens().collect())
    }
}
