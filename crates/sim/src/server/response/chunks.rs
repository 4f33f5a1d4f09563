//! Stream events of completions and chat completions, byte for byte as in vLLM. The constant parts of an ordinary token
//! are built once per stream: such a token costs one allocation and the escaping of its text.

use hyper::body::Bytes;
use serde_json::{Value, json};

use super::choice::{Choice, Echo, Piece, TokenLogprobs};
use super::generation::{Generation, Usage};
use super::json::{chat_logprobs, completion_logprobs, finish_reason, metrics};
use super::stream::{Events, Script, done};
use crate::server::request::ask::Endpoint;

const COMPLETIONS_REST: &[u8] =
    br#","logprobs":null,"finish_reason":null,"stop_reason":null,"prompt_token_ids":null,"token_ids":null}]"#;
const CHAT_REST: &[u8] = br#"},"logprobs":null,"finish_reason":null,"token_ids":null}]"#;

/// The fixed parts of one stream's events.
#[derive(Debug)]
pub(crate) struct Chunks {
    is_chat: bool,
    /// Up to and including the start of `choices`.
    head: String,
    /// Per choice: up to the text.
    opens: Vec<Vec<u8>>,
    /// Per choice: up to the reasoning.
    thoughts: Vec<Vec<u8>>,
    /// Reasoning tokens at the start of a choice.
    reasoning: usize,
    fingerprint: String,
    include_usage: bool,
    continuous_usage: bool,
    return_token_ids: bool,
}

impl Chunks {
    pub(crate) fn script(generation: &Generation) -> Box<dyn Script> {
        let Generation { ask, id, created, model, .. } = generation;
        let is_chat = ask.endpoint == Endpoint::Chat;
        let (object, text) = match is_chat {
            true => ("chat.completion.chunk", r#","delta":{"content":"#),
            false => ("text_completion", r#","text":"#),
        };
        let (id, model) = (json!(id), json!(model));
        let head = format!(r#"data: {{"id":{id},"object":"{object}","created":{created},"model":{model},"choices":["#);
        let opens = |text: &str| {
            let open = |index| format!(r#"{head}{{"index":{index}{text}"#).into_bytes();
            (0..generation.choices.len()).map(open).collect()
        };
        Box::new(Chunks {
            is_chat,
            opens: opens(text),
            thoughts: opens(r#","delta":{"reasoning":"#),
            reasoning: generation.reasoning(),
            fingerprint: format!(r#","system_fingerprint":{}"#, json!(generation.app.fingerprint)),
            include_usage: ask.include_usage,
            continuous_usage: ask.continuous_usage,
            return_token_ids: ask.return_token_ids,
            head,
        })
    }

    /// An event; `rest` are fields after the usage.
    fn event(&self, choice: &str, usage: Option<Value>, rest: &str) -> Bytes {
        let usage = usage.map_or_else(String::new, |usage| format!(r#","usage":{usage}"#));
        format!("{}{choice}]{usage}{rest}}}\n\n", self.head).into()
    }

    fn running_usage(&self, choice: Option<&Choice>, prompt: usize) -> Option<Value> {
        let completion = choice.map_or(0, |choice| choice.produced);
        let usage = Usage { prompt, completion, reasoning: completion.min(self.reasoning), ..Usage::default() };
        self.continuous_usage.then(|| {
            let mut counts = usage.counts();
            if self.is_chat {
                counts["completion_tokens_details"] = usage.completion_details();
            }
            counts
        })
    }

    fn role(&self, index: usize, prompt: &[u32]) -> Bytes {
        let choice = json!({"index": index, "delta": {"role": "assistant", "content": ""}, "logprobs": null,
            "finish_reason": null});
        let ids = json!(self.return_token_ids.then_some(prompt));
        let rest = format!(r#","prompt_token_ids":{ids},"prompt_text":null"#);
        self.event(&choice.to_string(), self.running_usage(None, prompt.len()), &rest)
    }

    /// An event of a choice with its running usage; the last one has the fingerprint.
    fn choice_event(&self, choice: &Choice, body: &Value, is_last: bool) -> Bytes {
        let rest = if is_last && !self.include_usage { self.fingerprint.as_str() } else { "" };
        self.event(&body.to_string(), self.running_usage(Some(choice), choice.prompt.ids.len()), rest)
    }

    /// The event of a token without log-probabilities or ids that is not the last.
    fn plain(&self, index: usize, choice: &Choice, piece: &Piece) -> Bytes {
        let thinking = choice.produced <= self.reasoning;
        let open = if thinking { &self.thoughts[index] } else { &self.opens[index] };
        let mut out = Vec::with_capacity(open.len() + piece.text.len() + 160);
        out.extend_from_slice(open);
        push_text(&mut out, &piece.text);
        out.extend_from_slice(if self.is_chat { CHAT_REST } else { COMPLETIONS_REST });
        if let Some(usage) = self.running_usage(Some(choice), choice.prompt.ids.len()) {
            out.extend_from_slice(format!(r#","usage":{usage}"#).as_bytes());
        }
        out.extend_from_slice(b"}\n\n");
        out.into()
    }

    fn completion(&self, index: usize, choice: &Choice, piece: &Piece, echo: Option<&Echo>) -> Value {
        let before = echo.map_or(&[][..], |echo| echo.logprob_tokens.as_slice());
        let tokens: Vec<&TokenLogprobs> = before.iter().chain(piece.logprob_tokens()).collect();
        let is_first = choice.produced == piece.tokens().count();
        let shows_prompt = echo.is_some() || (self.return_token_ids && is_first);
        json!({
            "index": index,
            "text": echo.map_or("", |echo| echo.text.as_str()).to_owned() + &piece.text,
            "logprobs": piece.logprob_tokens.as_ref().map(|_| completion_logprobs(&tokens, !before.is_empty())),
            "finish_reason": finish_reason(choice, piece.last),
            "stop_reason": choice.stop_reason().filter(|_| piece.last),
            "prompt_token_ids": shows_prompt.then(|| choice.prompt.ids.to_vec()),
            "token_ids": piece.ids(self.return_token_ids)
        })
    }

    fn message(&self, index: usize, choice: &Choice, piece: &Piece) -> Value {
        let member = if choice.produced <= self.reasoning { "reasoning" } else { "content" };
        let tokens = || chat_logprobs(piece.logprob_tokens(), choice.alternatives());
        let mut body = json!({
            "index": index,
            "delta": {(member): piece.text},
            "logprobs": piece.logprob_tokens.as_ref().map(|_| tokens()),
            "finish_reason": finish_reason(choice, piece.last)
        });
        if piece.last {
            body["stop_reason"] = json!(choice.stop_reason());
        }
        body["token_ids"] = json!(piece.ids(self.return_token_ids));
        body
    }

    /// The events of a part of a tool call: its name, then its arguments, and nothing for the text around them.
    fn call(&self, index: usize, choice: &Choice, piece: &Piece, out: &mut Events) {
        let Some(call) = &choice.call else { return };
        let delta = call.delta(choice.sent - piece.text.len(), &piece.text);
        let mut push = |call: Value| {
            let body = json!({"index": index, "delta": {"content": null, "tool_calls": [call]}, "logprobs": null,
                "finish_reason": null, "token_ids": null});
            out.push_back(self.choice_event(choice, &body, false));
        };
        if delta.named {
            push(json!({"id": choice.call_id, "type": "function", "index": 0, "function": {"name": call.name}}));
        }
        if !delta.arguments.is_empty() {
            push(json!({"index": 0, "function": {"arguments": delta.arguments}}));
        }
        if piece.last {
            let body = json!({"index": index, "delta": {}, "logprobs": null, "finish_reason": choice.finish_name(),
                "stop_reason": null, "token_ids": null});
            out.push_back(self.choice_event(choice, &body, true));
        }
    }
}

fn push_text(out: &mut Vec<u8>, text: &str) {
    serde_json::to_writer(out, text).expect("a text can be written to memory");
}

impl Script for Chunks {
    fn open(&mut self, generation: &Generation, out: &mut Events) {
        if self.is_chat {
            let choices = generation.choices.iter().enumerate();
            out.extend(choices.map(|(index, choice)| self.role(index, &choice.prompt.ids)));
        }
    }

    fn token(&mut self, generation: &Generation, index: usize, piece: &Piece, echo: Option<&Echo>, out: &mut Events) {
        let choice = &generation.choices[index];
        if choice.call.is_some() && choice.produced > self.reasoning {
            return self.call(index, choice, piece, out);
        }
        let is_plain = piece.logprob_tokens.is_none() && !piece.last && !self.return_token_ids && echo.is_none();
        out.push_back(match is_plain {
            true => self.plain(index, choice, piece),
            false if self.is_chat => self.choice_event(choice, &self.message(index, choice, piece), piece.last),
            false => self.choice_event(choice, &self.completion(index, choice, piece, echo), piece.last),
        });
    }

    fn close(&mut self, generation: &Generation, out: &mut Events) {
        if self.include_usage {
            let usage = generation.usage();
            let mut counts = usage.counts();
            if let Some(cached) = usage.reported_cache() {
                counts["prompt_tokens_details"] = json!({"cached_tokens": cached});
            }
            if self.reasoning > 0 {
                counts["completion_tokens_details"] = usage.completion_details();
            }
            let mut rest = self.fingerprint.clone();
            if let Some(Value::Object(mut metrics)) = generation.times().map(|times| metrics(times, usage.completion)) {
                metrics.retain(|_, value| !value.is_null());
                rest += &format!(r#","metrics":{}"#, Value::Object(metrics));
            }
            out.push_back(self.event("", Some(counts), &rest));
        }
        out.push_back(done());
    }
}
