//! The kinds of tasks, requests and responses, and the rules of their outcomes.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// In the registry of `vllm bench` 0.32.0.
    Registry,
    Legacy,
    Tacho,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sequences {
    One,
    Prompt,
    /// One per document after the query.
    Documents,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ResponseFormat {
    /// Events with choices that have a `text`.
    Completions,
    /// Events with choices that have a `delta`.
    Chat,
    /// Like [`ResponseFormat::Chat`], for audio, whose prompt tokens upstream counts itself.
    Audio,
    /// Typed events of `/v1/responses`.
    Responses,
    /// Typed events of `/v1/messages`.
    Messages,
    Tgi,
    TensorRtLlm,
    Whole,
    Declared,
    /// Audio, as bytes or in events.
    Speech,
    /// Events over a WebSocket, while audio is sent.
    Realtime,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Rules {
    /// Server-sent events as in the standard; only complete responses succeed.
    #[default]
    Standard,
    /// Same outcome as in `vllm bench` 0.32.0.
    Vllm,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    Continue,
    /// The outcome is known; the rest of the stream does not matter.
    Stop,
}
