//! One row: what was asked, and what happened.

use tacho_core::Observation;

/// What the client knew of a request before it was sent, as far as a result needs it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Asked {
    /// Tokens of the prompt by the client's tokenizer.
    pub prompt_len: u64,
    /// Tokens to generate.
    pub output_len: i64,
    /// Texts in the request.
    pub input_sequences: u64,
    /// Seconds of audio in the request.
    pub audio_seconds: f64,
    /// The adapter that was asked for instead of the base model.
    pub lora: Option<String>,
    /// What was sent as `x-request-id`.
    pub request_id: Option<String>,
}

/// A request that is over.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// What was asked.
    pub asked: Asked,
    /// What happened.
    pub observation: Observation,
}
