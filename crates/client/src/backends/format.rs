//! Response formats.

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
    /// Lines that each contain the prompt and the output so far.
    Generate,
    Whole,
    /// As a file describes.
    Declared,
    /// Audio, as bytes or in events.
    Speech,
    /// Events over a WebSocket, while audio is sent.
    Realtime,
}
