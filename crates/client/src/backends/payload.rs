//! Body settings of a run.

use tacho_core::json::{Dict, Value};
use tacho_core::{AudioFormat, Request};

#[derive(Debug, Clone, Default)]
pub struct PayloadSpec {
    /// The model; a request's adapter overrides it.
    pub model: String,
    /// Number of log-probabilities (completions only).
    pub logprobs: Option<i64>,
    /// Whether those of the responses are kept, of streamed completions and chats.
    pub keeps_logprobs: bool,
    pub ignore_eos: bool,
    /// A temperature placed right after the chat messages, as in vLLM's scenario script.
    pub chat_temperature: Option<f64>,
    /// The format of generated audio without a header; `None` for OpenAI's.
    pub pcm: Option<AudioFormat>,
    /// Speed of audio that is sent as it is recorded; `None` for real time.
    pub audio_speed: Option<f64>,
    /// Fields that override all others: sampling flags, then `--extra-body`.
    pub extra_body: Dict,
    /// Whether a null there is sent, as in vLLM, even if it stands for one of our own fields.
    pub keeps_nulls: bool,
}

impl PayloadSpec {
    pub(super) fn model_for<'a>(&'a self, request: &'a Request) -> &'a str {
        request.lora.as_deref().unwrap_or(&self.model)
    }

    /// Adds the fields of the user and of the request to a body. A null removes a field of ours: strict servers refuse
    /// unknown ones.
    pub(super) fn merge(&self, fields: &mut Dict, request: &Request) {
        let overrides = request.overrides.as_ref().and_then(Value::as_dict);
        for (key, value) in [Some(&self.extra_body), overrides].into_iter().flatten().flat_map(Dict::iter) {
            let removes = *value == Value::Null && !self.keeps_nulls;
            if !(removes && fields.remove(key).is_some()) {
                fields.set(key, value.clone());
            }
        }
    }

    /// Whether a body asks for a response that is not streamed; the default without the field.
    pub(super) fn unstreams(&self, body: &Dict, request: &Request) -> bool {
        let overrides = request.overrides.as_ref().and_then(Value::as_dict);
        let removed =
            || [Some(&self.extra_body), overrides].iter().flatten().any(|fields| fields.get("stream").is_some());
        body.get("stream").map_or_else(removed, |stream| *stream == Value::Bool(false))
    }
}
