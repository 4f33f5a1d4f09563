//! The server's own tokenizer.

use std::time::Duration;

use tacho_core::dict;
use tacho_core::json::{Dict, Value, dumps};

use super::{Caller, call::Limits};
use crate::endpoint::Headers;

/// A prompt may have a million tokens; longer calls are not worth the wait.
const LIMITS: Limits = Limits { time: Duration::from_secs(30), body: 64 << 20 };

#[derive(Debug)]
pub struct TokenizeServer<'a> {
    pub caller: &'a Caller,
    pub model: &'a str,
    /// Whether to send the user's headers, which a server behind a gateway needs, and to ask as llama.cpp does where
    /// that is necessary; upstream does neither.
    pub signed: bool,
}

impl TokenizeServer<'_> {
    fn post(&self, path: &str, body: Dict) -> Option<Value> {
        let body = dumps(&Value::Dict(body));
        let mut headers = if self.signed { self.caller.user_headers() } else { Headers::default() };
        headers.set_default("Content-Type", "application/json");
        let response = self.caller.optional(path, LIMITS).post(path, headers, body.as_bytes()).ok()?;
        (response.status == 200).then(|| response.json().ok()).flatten()
    }

    /// The server's token IDs of a text, without special tokens; `None` if the call fails.
    pub fn tokenize(&self, prompt: &str) -> Option<Vec<u32>> {
        let tokens = self.tokens(dict! { "model": self.model, "prompt": prompt, "add_special_tokens": false })?;
        if !tokens.is_empty() || prompt.is_empty() || !self.signed {
            return Some(tokens);
        }
        // llama.cpp ignores the prompt and reads the content.
        self.tokens(dict! { "content": prompt, "add_special": false }).filter(|tokens| !tokens.is_empty())
    }

    fn tokens(&self, body: Dict) -> Option<Vec<u32>> {
        let response = self.post("/tokenize", body)?;
        let tokens = response.get("tokens")?.as_list()?;
        tokens.iter().map(|token| u32::try_from(token.as_i64()?).ok()).collect()
    }

    /// The text of token IDs; `None` if the call fails.
    pub fn detokenize(&self, tokens: &[u32]) -> Option<String> {
        let body = dict! {
            "model": self.model,
            "tokens": tokens.iter().map(|&token| Value::Int(i64::from(token))).collect::<Vec<_>>(),
        };
        let response = self.post("/detokenize", body)?;
        Some(response.get("prompt").or_else(|| response.get("content"))?.as_str()?.to_owned())
    }
}
