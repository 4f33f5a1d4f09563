//! Properties of the request that its decoder needs.

use std::{sync::Arc, time::Duration};

use tacho_core::{AudioFormat, Request, json::Dict};

use super::{PacedInput, PayloadSpec, speech};

#[derive(Debug, Clone)]
pub struct Encoded {
    pub body: Vec<u8>,
    pub expected: Expected,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Encoding {
    #[default]
    Json,
    /// As bytes, with metadata in a header.
    Bytes,
    /// As bytes without metadata.
    BytesOnly,
}

/// Properties of the request that its decoder needs.
#[derive(Debug, Clone, Default)]
pub struct Expected {
    /// Requested output tokens, to reserve memory.
    pub(crate) output_len: usize,
    /// Prompt tokens, counted by the client's tokenizer.
    pub(super) prompt_len: u64,
    /// Number of output tokens, if the request fixes it and the response does not report it.
    pub(super) fixed_tokens: Option<u64>,
    pub(super) encoding: Encoding,
    pub(crate) unstreamed: bool,
    /// The format of generated audio without a header; `None` if it is unknown.
    pub(super) pcm: Option<AudioFormat>,
    /// The prompt, if responses echo it.
    pub(super) prompt: Option<Arc<str>>,
    /// Delay after which the request is cancelled, if any.
    pub(crate) cancel_after: Option<Duration>,
    /// Whether a stream may end without its end marker if its framing is complete.
    pub(super) end_marker_optional: bool,
    /// Input that is sent while the response is received.
    pub(crate) input: Option<Arc<PacedInput>>,
    /// Whether a later request needs more of the response than its text.
    pub(super) keeps_reply: bool,
    pub(crate) keeps_logprobs: bool,
}

impl Expected {
    pub(super) fn of(request: &Request) -> Self {
        let output_len = usize::try_from(request.output_len).unwrap_or(0);
        let cancel_after = request.cancel_after.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let (prompt_len, keeps_reply) = (request.prompt_len, request.session.is_some());
        Expected { output_len, prompt_len, cancel_after, keeps_reply, ..Expected::default() }
    }

    pub(super) fn encoded_as(mut self, body: &Dict) -> Self {
        self.encoding = match body.text("encoding_format") {
            Some("bytes") => Encoding::Bytes,
            Some("bytes_only") => Encoding::BytesOnly,
            _ => Encoding::Json,
        };
        self
    }

    /// Sets the format of the audio that the body requests.
    pub(super) fn into_speech(mut self, body: &Dict, payload: &PayloadSpec) -> Self {
        let is_pcm = body.text("response_format") == Some("pcm");
        self.pcm = is_pcm.then_some(payload.pcm.unwrap_or(speech::PCM));
        self
    }

    /// Sets the output length of a server that ignores the end-of-sequence token.
    pub(super) fn fixed_by(mut self, payload: &PayloadSpec) -> Self {
        self.fixed_tokens = payload.ignore_eos.then_some(self.output_len as u64);
        self
    }

    pub(super) fn repeating(mut self, prompt: &str) -> Self {
        self.prompt = Some(prompt.into());
        self
    }

    /// The properties of a body written elsewhere, such as by a script, whose streams need no end marker.
    pub(crate) fn plain(output_len: usize, unstreamed: bool) -> Self {
        Expected { output_len, unstreamed, end_marker_optional: true, ..Expected::default() }
    }
}
