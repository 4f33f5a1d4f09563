//! Stream events, byte for byte as in vLLM. Constant parts are built once per stream: a token costs one allocation and
//! the escaping of its text.

use std::collections::VecDeque;

use hyper::body::Bytes;

use super::choice::{Choice, Piece, TokenLogprobs};
use super::escape::{escape, ids, list, number, quote, quoted};
use super::generation::Generation;
use super::repeated::Repeated;
use super::usage::Usage;
use crate::server::request::ask::Endpoint;

const COMPLETIONS_REST: &[u8] =
    br#"","logprobs":null,"finish_reason":null,"stop_reason":null,"prompt_token_ids":null,"token_ids":null}]"#;
const CHAT_REST: &[u8] = br#""},"logprobs":null,"finish_reason":null,"token_ids":null}]"#;
const END: &[u8] = b"}\n\n";

/// The fixed parts of one stream's events.
#[derive(Debug)]
pub(crate) struct Chunks {
    endpoint: Endpoint,
    /// Up to and including the start of `choices`.
    head: Vec<u8>,
    /// Per choice: up to and including the quote that opens the text.
    opens: Vec<Vec<u8>>,
    /// Per choice: the same for reasoning text.
    thoughts: Vec<Vec<u8>>,
    /// Reasoning tokens at the start of a choice.
    reasoning: usize,
    fingerprint: String,
    include_usage: bool,
    continuous_usage: bool,
    return_token_ids: bool,
}

impl Chunks {
    pub(crate) fn new(generation: &Generation) -> Self {
        let Generation { ask, id, created, model, .. } = generation;
        let (object, text) = match ask.endpoint {
            Endpoint::Chat => ("chat.completion.chunk", r#","delta":{"content":""#),
            _ => ("text_completion", r#","text":""#),
        };
        let head = format!(
            r#"data: {{"id":{},"object":"{object}","created":{created},"model":{},"choices":["#,
            quoted(id),
            quoted(model)
        );
        let opens = |text: &str| {
            let open = |index| format!(r#"{head}{{"index":{index}{text}"#).into_bytes();
            (0..generation.choices.len()).map(open).collect()
        };
        Chunks {
            endpoint: ask.endpoint,
            opens: opens(text),
            thoughts: opens(r#","delta":{"reasoning":""#),
            reasoning: generation.reasoning(),
            fingerprint: format!(r#","system_fingerprint":{}"#, quoted(&generation.app.fingerprint)),
            include_usage: ask.include_usage,
            continuous_usage: ask.continuous_usage,
            return_token_ids: ask.return_token_ids,
            head: head.into_bytes(),
        }
    }

    /// The role event of a chat completion.
    pub(crate) fn role(&self, index: usize, prompt: &[u32]) -> Bytes {
        let mut out = self.head.clone();
        out.extend_from_slice(br#"{"index":"#);
        number(&mut out, index);
        out.extend_from_slice(br#","delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]"#);
        self.push_running_usage(&mut out, Usage { prompt: prompt.len(), ..Usage::default() });
        out.extend_from_slice(br#","prompt_token_ids":"#);
        if self.return_token_ids {
            ids(&mut out, prompt)
        } else {
            out.extend_from_slice(b"null")
        }
        out.extend_from_slice(br#","prompt_text":null"#);
        out.extend_from_slice(END);
        out.into()
    }

    /// The event of one token. `repeated` is the echoed prompt with its log-probabilities, before the first token.
    pub(crate) fn token(&self, index: usize, choice: &Choice, piece: &Piece, repeated: Option<&Repeated>) -> Bytes {
        let thinking = choice.produced <= self.reasoning;
        let open = if thinking { &self.thoughts[index] } else { &self.opens[index] };
        let mut out = Vec::with_capacity(open.len() + piece.text.len() + 160);
        out.extend_from_slice(open);
        if let Some(repeated) = repeated {
            escape(&mut out, &repeated.text);
        }
        escape(&mut out, &piece.text);
        let plain = piece.logprob_tokens.is_none() && !piece.last && !self.return_token_ids && repeated.is_none();
        match self.endpoint {
            Endpoint::Chat if plain => out.extend_from_slice(CHAT_REST),
            Endpoint::Chat => self.push_chat_rest(&mut out, choice, piece),
            _ if plain => out.extend_from_slice(COMPLETIONS_REST),
            _ => self.push_completions_rest(&mut out, choice, piece, repeated),
        }
        self.push_running_usage(&mut out, self.usage_of(choice));
        if piece.last && !self.include_usage {
            out.extend_from_slice(self.fingerprint.as_bytes());
        }
        out.extend_from_slice(END);
        out.into()
    }

    /// The events of a part of a tool call: its name, then its arguments, and nothing for the text around them.
    pub(crate) fn call(&self, index: usize, choice: &Choice, piece: &Piece, out: &mut VecDeque<Bytes>) {
        let Some(call) = &choice.call else { return };
        let from = choice.sent - piece.text.len();
        let delta = call.delta(from, &piece.text);
        if delta.named {
            let (id, name) = (quoted(&choice.call_id), quoted(&call.name));
            let named = format!(r#"{{"id":{id},"type":"function","index":0,"function":{{"name":{name}}}}}"#);
            out.push_back(self.call_event(index, choice, &named));
        }
        if !delta.arguments.is_empty() {
            let more = format!(r#"{{"index":0,"function":{{"arguments":{}}}}}"#, quoted(delta.arguments));
            out.push_back(self.call_event(index, choice, &more));
        }
        if piece.last {
            let mut end = self.head.clone();
            end.extend_from_slice(format!(r#"{{"index":{index},"delta":{{"#).as_bytes());
            end.extend_from_slice(br#"},"logprobs":null"#);
            push_finish(&mut end, choice, true);
            end.extend_from_slice(br#","stop_reason":null,"token_ids":null}]"#);
            self.push_running_usage(&mut end, self.usage_of(choice));
            if !self.include_usage {
                end.extend_from_slice(self.fingerprint.as_bytes());
            }
            end.extend_from_slice(END);
            out.push_back(end.into());
        }
    }

    fn call_event(&self, index: usize, choice: &Choice, call: &str) -> Bytes {
        let mut out = self.head.clone();
        let rest = format!(
            r#"{{"index":{index},"delta":{{"content":null,"tool_calls":[{call}]}},"logprobs":null,"finish_reason":null,"token_ids":null}}]"#
        );
        out.extend_from_slice(rest.as_bytes());
        self.push_running_usage(&mut out, self.usage_of(choice));
        out.extend_from_slice(END);
        out.into()
    }

    fn usage_of(&self, choice: &Choice) -> Usage {
        let (prompt, completion) = (choice.prompt.ids.len(), choice.produced);
        Usage { prompt, completion, reasoning: completion.min(self.reasoning), ..Usage::default() }
    }

    fn push_completions_rest(&self, out: &mut Vec<u8>, choice: &Choice, piece: &Piece, repeated: Option<&Repeated>) {
        out.extend_from_slice(br#"","logprobs":"#);
        let before = repeated.map_or(&[][..], |repeated| repeated.logprob_tokens.as_slice());
        let logprob_tokens: Vec<&TokenLogprobs> = before.iter().chain(piece.logprob_tokens()).collect();
        if piece.logprob_tokens.is_some() {
            push_completion_logprobs(out, &logprob_tokens, !before.is_empty());
        } else {
            out.extend_from_slice(b"null");
        }
        push_finish(out, choice, piece.last);
        out.extend_from_slice(br#","stop_reason":"#);
        push_stop_reason(out, choice, piece.last);
        out.extend_from_slice(br#","prompt_token_ids":"#);
        let first = choice.produced == piece.tokens().count();
        if repeated.is_some() || (self.return_token_ids && first) {
            ids(out, &choice.prompt.ids);
        } else {
            out.extend_from_slice(b"null");
        }
        self.push_token_ids(out, piece);
    }

    fn push_chat_rest(&self, out: &mut Vec<u8>, choice: &Choice, piece: &Piece) {
        out.extend_from_slice(br#""},"logprobs":"#);
        match &piece.logprob_tokens {
            Some(_) => push_chat_logprobs(out, piece.logprob_tokens(), choice.alternatives()),
            None => out.extend_from_slice(b"null"),
        }
        push_finish(out, choice, piece.last);
        if piece.last {
            out.extend_from_slice(br#","stop_reason":"#);
            push_stop_reason(out, choice, true);
        }
        self.push_token_ids(out, piece);
    }

    fn push_token_ids(&self, out: &mut Vec<u8>, piece: &Piece) {
        out.extend_from_slice(br#","token_ids":"#);
        if self.return_token_ids {
            list(out, piece.tokens(), |out, token| number(out, token as usize));
        } else {
            out.extend_from_slice(b"null")
        }
        out.extend_from_slice(b"}]");
    }

    fn push_running_usage(&self, out: &mut Vec<u8>, usage: Usage) {
        if !self.continuous_usage {
            return;
        }
        out.extend_from_slice(br#","usage":"#);
        push_usage(out, usage);
        if self.endpoint == Endpoint::Chat {
            push_details(out, usage);
        }
        out.push(b'}');
    }

    /// The event with the token counts of the whole request.
    pub(crate) fn usage(&self, usage: Usage) -> Bytes {
        let mut out = self.head.clone();
        out.extend_from_slice(br#"],"usage":"#);
        push_usage(&mut out, usage);
        if usage.reports_cached && usage.cached > 0 {
            out.extend_from_slice(
                format!(r#","prompt_tokens_details":{{"cached_tokens":{}}}"#, usage.cached).as_bytes(),
            );
        }
        if self.reasoning > 0 {
            push_details(&mut out, usage);
        }
        out.push(b'}');
        out.extend_from_slice(self.fingerprint.as_bytes());
        out.extend_from_slice(END);
        out.into()
    }
}

/// The event that ends a stream.
pub(crate) fn done() -> Bytes {
    Bytes::from_static(b"data: [DONE]\n\n")
}

/// An event that carries an error.
pub(crate) fn failure(body: &str) -> Bytes {
    format!("data: {body}\n\n").into()
}

/// Appends the counts with the opening brace but not the closing one.
pub(crate) fn push_usage(out: &mut Vec<u8>, usage: Usage) {
    out.extend_from_slice(br#"{"prompt_tokens":"#);
    number(out, usage.prompt);
    out.extend_from_slice(br#","total_tokens":"#);
    number(out, usage.prompt + usage.completion);
    out.extend_from_slice(br#","completion_tokens":"#);
    number(out, usage.completion);
}

/// Appends the details of the generated tokens.
pub(crate) fn push_details(out: &mut Vec<u8>, usage: Usage) {
    out.extend_from_slice(br#","completion_tokens_details":"#);
    if usage.reasoning == 0 {
        return out.extend_from_slice(b"null");
    }
    out.extend_from_slice(br#"{"reasoning_tokens":"#);
    number(out, usage.reasoning);
    out.push(b'}');
}

/// Appends `finish_reason`.
pub(crate) fn push_finish(out: &mut Vec<u8>, choice: &Choice, last: bool) {
    out.extend_from_slice(br#","finish_reason":"#);
    if last { quote(out, choice.finish_name()) } else { out.extend_from_slice(b"null") }
}

/// Appends the details of the prompt's tokens, in a non-streamed response.
pub(crate) fn push_prompt_details(out: &mut Vec<u8>, usage: Usage) {
    out.extend_from_slice(br#","prompt_tokens_details":"#);
    if !(usage.reports_cached && usage.cached > 0) {
        return out.extend_from_slice(b"null");
    }
    let details =
        format!(r#"{{"cached_tokens":{},"created_cache_tokens":null,"multimodal_tokens":null}}"#, usage.cached);
    out.extend_from_slice(details.as_bytes());
}

/// Appends the value of `stop_reason`.
pub(crate) fn push_stop_reason(out: &mut Vec<u8>, choice: &Choice, last: bool) {
    match choice.stop_reason().filter(|_| last) {
        Some(stop) => quote(out, stop),
        None => out.extend_from_slice(b"null"),
    }
}

fn logprob(out: &mut Vec<u8>, value: f64) {
    out.extend_from_slice(format!("{value:?}").as_bytes());
}

/// Appends the log-probabilities of a completion; the first token of an echoed prompt has none.
pub(crate) fn push_completion_logprobs(out: &mut Vec<u8>, logprob_tokens: &[&TokenLogprobs], repeats_prompt: bool) {
    let known = |at: usize| !(repeats_prompt && at == 0);
    out.extend_from_slice(br#"{"text_offset":"#);
    list(out, logprob_tokens, |out, token| number(out, token.text_offset));
    out.extend_from_slice(br#","token_logprobs":"#);
    list(out, logprob_tokens.iter().enumerate(), |out, (at, token)| match known(at) {
        true => logprob(out, token.tokens[0].1),
        false => out.extend_from_slice(b"null"),
    });
    out.extend_from_slice(br#","tokens":"#);
    list(out, logprob_tokens, |out, token| quote(out, &token.tokens[0].0));
    out.extend_from_slice(br#","top_logprobs":"#);
    list(out, logprob_tokens.iter().enumerate(), |out, (at, token)| match known(at) {
        true => push_alternatives(out, &token.tokens),
        false => out.extend_from_slice(b"null"),
    });
    out.push(b'}');
}

fn push_alternatives(out: &mut Vec<u8>, tokens: &[(String, f64)]) {
    out.push(b'{');
    for (at, (text, value)) in tokens.iter().enumerate() {
        // Different tokens may have the same text; an object has one member per name.
        if tokens[..at].iter().any(|(before, _)| before == text) {
            continue;
        }
        if at > 0 {
            out.push(b',');
        }
        quote(out, text);
        out.push(b':');
        logprob(out, *value);
    }
    out.push(b'}');
}

/// Appends the log-probabilities of a chat completion.
pub(crate) fn push_chat_logprobs<'r>(
    out: &mut Vec<u8>,
    logprob_tokens: impl IntoIterator<Item = &'r TokenLogprobs>,
    alternatives: usize,
) {
    out.extend_from_slice(br#"{"content":"#);
    list(out, logprob_tokens, |out, token| {
        push_chat_token(out, &token.tokens[0]);
        out.extend_from_slice(br#","top_logprobs":"#);
        list(out, token.tokens.iter().take(alternatives), |out, other| {
            push_chat_token(out, other);
            out.push(b'}');
        });
        out.push(b'}');
    });
    out.push(b'}');
}

/// Appends a token's members with the opening brace but not the closing one.
fn push_chat_token(out: &mut Vec<u8>, (text, value): &(String, f64)) {
    out.extend_from_slice(br#"{"token":"#);
    quote(out, text);
    out.extend_from_slice(br#","logprob":"#);
    logprob(out, *value);
    out.extend_from_slice(br#","bytes":"#);
    list(out, text.as_bytes(), |out, byte| number(out, usize::from(*byte)));
}
