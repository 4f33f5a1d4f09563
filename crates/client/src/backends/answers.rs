//! Decoders of responses.

/// The decoder of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answers {
    /// Events with choices that have a text.
    Completions,
    /// Events with choices that have a delta.
    Chat,
    /// The same for sounds, whose prompts upstream counts itself.
    Audio,
    /// Events that name their kind, of `/v1/responses`.
    Responses,
    /// The same, of `/v1/messages`.
    Messages,
    Tgi,
    TensorRtLlm,
    /// Lines that hold prompt and output so far.
    Generate,
    Whole,
}
