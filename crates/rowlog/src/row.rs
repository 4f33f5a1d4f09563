//! One row: the request and its observation.

use tacho_core::{Labels, Observation};

/// Properties of a request known before it was sent, as far as results need them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RequestInfo {
    /// Prompt tokens, counted by the client's tokenizer.
    pub prompt_len: u64,
    pub output_len: i64,
    pub input_sequences: u64,
    pub audio_seconds: f64,
    /// The adapter, if not the base model.
    pub lora: Option<String>,
    /// The `x-request-id` header.
    pub request_id: Option<String>,
    /// The groups it is counted in; in a log also those of its response.
    pub labels: Labels,
}

impl RequestInfo {
    /// All labels of a request, with its adapter, after those of its response.
    pub fn labels(&self, seen: &Labels) -> Labels {
        let labels = self.labels.merged(seen);
        self.lora.as_deref().map_or_else(|| labels.clone(), |adapter| labels.with("adapter", adapter))
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    pub request: RequestInfo,
    pub observation: Observation,
}
