//! A validated generation request, common to all endpoints.

use std::sync::Arc;

use hyper::StatusCode;
use tacho_core::json::{Dict, Value};

use super::{problem::Problem, prompt::Prompt, tools::Calls};
use crate::{server::guide::Guide, spec::SimSpec};
use tacho_engine::{EngineSpec, Limits};

/// The endpoint, which determines the format of the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Endpoint {
    #[default]
    Completions,
    Chat,
    Responses,
    Transcription,
    Translation,
    Tgi,
    Triton,
    /// `/v1/messages`, Anthropic's protocol.
    Messages,
    Sglang,
    Demo,
}

#[derive(Debug, Clone, Default)]
pub(crate) enum Form {
    #[default]
    Free,
    /// A text under a constraint.
    Guided(Arc<Guide>),
    Called(Arc<Calls>),
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Ask {
    pub(crate) endpoint: Endpoint,
    pub(crate) model: Option<String>,
    pub(crate) n: usize,
    pub(crate) max_tokens: Option<i64>,
    /// The field that set the limit.
    pub(crate) limit_name: &'static str,
    pub(crate) min_tokens: usize,
    pub(crate) ignore_eos: bool,
    pub(crate) stop: Vec<String>,
    pub(crate) keep_stop: bool,
    pub(crate) stream: bool,
    /// Tokens per event, if more than the server's setting.
    pub(crate) interval: usize,
    pub(crate) include_usage: bool,
    pub(crate) continuous_usage: bool,
    pub(crate) echo: bool,
    /// Alternatives per token, if log-probabilities are requested.
    pub(crate) logprobs: Option<usize>,
    /// Alternatives per prompt token, if requested.
    pub(crate) prompt_logprobs: Option<usize>,
    pub(crate) return_token_ids: bool,
    /// Whether log-probabilities identify tokens by id.
    pub(crate) name_by_id: bool,
    pub(crate) seed: Option<u64>,
    pub(crate) form: Form,
    pub(crate) priority: i64,
    pub(crate) cache_salt: Option<String>,
    /// Whether the KV is for another engine, or comes from one.
    pub(crate) transfer: Transfer,
    /// Tokens to truncate the prompt to, and whether its end is kept.
    pub(crate) truncate: Option<(usize, bool)>,
    /// Reasoning tokens that the request allows.
    pub(crate) budget: Option<usize>,
    /// Echoed in responses of `/v1/responses`.
    pub(crate) temperature: Option<f64>,
    pub(crate) top_p: Option<f64>,
    /// Fields of the request that `/v1/responses` echoes.
    pub(crate) echoed: Dict,
    /// The conversation, if the response is to be stored.
    pub(crate) history: Option<Vec<Value>>,
    pub(crate) audio_seconds: f64,
}

/// Role of a request in disaggregated prefill.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Transfer {
    #[default]
    None,
    Offered,
    /// Its KV comes from another engine.
    Fetched,
}

impl Ask {
    /// One choice of at most `max_tokens`, streamed, with defaults otherwise.
    pub(crate) fn plain(endpoint: Endpoint, max_tokens: Option<i64>) -> Ask {
        Ask { endpoint, n: 1, max_tokens, limit_name: "max_tokens", stream: true, interval: 1, ..Ask::default() }
    }

    /// Reasoning tokens at the start of a choice.
    pub(crate) fn thoughts(&self, spec: &SimSpec) -> usize {
        match self.endpoint {
            Endpoint::Chat | Endpoint::Responses | Endpoint::Messages => {
                spec.reasoning_tokens.min(self.budget.unwrap_or(usize::MAX))
            }
            _ => 0,
        }
    }

    /// Returns whether only the prompt is echoed: one token is computed nevertheless, and not shown.
    pub(crate) fn only_repeats(&self) -> bool {
        self.echo && self.max_tokens == Some(0)
    }

    /// Refuses more output than the context length, before tokenization.
    pub(crate) fn check_limits(&self, spec: &SimSpec) -> Result<(), Problem> {
        let limit = spec.engine.max_model_len;
        let max = |name: &str, asked: i64| match asked > limit as i64 {
            true => Err(Problem::parameter(name, &format!("expected at most max_model_len={limit}, got {asked}"))),
            false => Ok(()),
        };
        if self.budget.is_some() && spec.reasoning_tokens == 0 {
            return Err(Problem::parameter("thinking_token_budget", "expected only of a model that reasons"));
        }
        max(self.limit_name, self.max_tokens.unwrap_or(0))?;
        match self.truncate {
            Some((0, _)) => Err(Problem::parameter("truncate_prompt_tokens", "expected a prompt that is not empty")),
            Some((tokens, _)) if tokens != usize::MAX => max("truncate_prompt_tokens", tokens as i64),
            _ => Ok(()),
        }
    }

    pub(crate) fn limits(&self, prompt: &Prompt, engine: &EngineSpec) -> Result<Limits, Problem> {
        let limit = engine.max_model_len;
        let mut tokens = prompt.ids.len();
        if tokens > limit {
            // vLLM stops tokenizing one token beyond the limit.
            tokens = if prompt.was_text() { limit + 1 } else { tokens };
            return Err(too_long(tokens, limit));
        }
        let available = (limit - tokens) as i64;
        let asked = if self.only_repeats() { 1 } else { self.max_tokens.unwrap_or(available) };
        let max_tokens = asked.min(available);
        if max_tokens < 1 {
            return Err(Problem::parameter("max_tokens", &format!("expected at least 1, got {max_tokens}")));
        }
        let (max_tokens, min_tokens) = (max_tokens as usize, self.min_tokens);
        if min_tokens > max_tokens {
            let message = format!("expected at most max_tokens={max_tokens}, got {min_tokens}");
            return Err(Problem::parameter("min_tokens", &message));
        }
        let mean_output_len = engine.mean_output_len;
        Ok(Limits { max_tokens, min_tokens, ignore_eos: self.ignore_eos, mean_output_len })
    }
}

pub(crate) fn too_long(tokens: usize, limit: usize) -> Problem {
    let min = if tokens == limit + 1 { "at least " } else { "" };
    let message = format!(
        "This model's maximum context length is {limit} tokens. However, your prompt contains {min}{tokens} input \
         tokens, which exceeds this limit even without any output tokens. Please reduce the length of the input prompt."
    );
    let message = format!("{message} (parameter=input_tokens, value={tokens})");
    Problem::new(StatusCode::BAD_REQUEST, "BadRequestError", &message, Some("input_tokens"))
}
