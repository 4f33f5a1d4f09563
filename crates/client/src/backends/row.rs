//! What all decoders share: the fields of a row that events fill in, and the failures of events.

use std::ops::Range;

use tacho_core::{Failure, FailureKind, Observation, Outcome, Timestamp, secret::ServerText};

use super::{event::TextField, scan::unescape};

/// vLLM's message for a stream without tokens; the missing space is upstream's.
pub(super) const NO_TOKEN: &str =
    "Never received a valid chunk to calculate TTFT.This response will be marked as failed!";
/// Maximum length of server text in a message.
const EXCERPT: usize = 300;

/// Reasoning tokens of a response, as far as its events show them.
#[derive(Debug, Default)]
pub(super) struct Reasoning {
    events: u64,
    /// Cumulative tokens at the last reasoning event, if reported.
    tokens: Option<u64>,
}

impl Reasoning {
    /// Records a reasoning event and the cumulative token count with it.
    pub(super) fn note(&mut self, tokens: Option<u64>) {
        self.events += 1;
        self.tokens = tokens;
    }

    /// Fills in the count that the server did not report: the cumulative count, or one token per event if that adds up.
    pub(super) fn settle(&self, row: &mut Observation) {
        if row.reasoning_tokens.is_none() && self.events > 0 {
            let single = row.usage.completion_tokens.is_none_or(|tokens| tokens <= row.chunks.len() as u64);
            row.reasoning_tokens = self.tokens.or(single.then_some(self.events));
        }
    }
}

/// Fails if the server reports that it did not finish the response.
pub(super) fn check_finish(reason: Option<Range<usize>>, data: &[u8]) -> Result<(), Failure> {
    let Some(span) = reason else { return Ok(()) };
    let message = format!("the server aborted the response: finish_reason {:?}", excerpt(&data[span]));
    Err(Failure { kind: FailureKind::ErrorInStream, message })
}

/// Appends a string in `data` to the row's text.
pub(super) fn push_text(field: &TextField, data: &[u8], row: &mut Observation) -> Result<(), Failure> {
    match field {
        TextField::Missing => {}
        TextField::Text(text) if text.escaped => unescape(&data[text.span.clone()], &mut row.text),
        TextField::Text(text) => row.text.extend_from_slice(&data[text.span.clone()]),
        TextField::Falsy | TextField::Other => return Err(malformed("a text is none", data)),
    }
    Ok(())
}

pub(super) fn malformed(what: &str, data: &[u8]) -> Failure {
    Failure { kind: FailureKind::Malformed, message: format!("{what}: {}", excerpt(data)) }
}

/// Fails if a message reports an error.
pub(super) fn error_in_stream(error: Option<Range<usize>>, data: &[u8]) -> Result<(), Failure> {
    match error {
        Some(span) => Err(Failure { kind: FailureKind::ErrorInStream, message: excerpt(&data[span]) }),
        None => Ok(()),
    }
}

/// The outcome of a stream after its body has ended as framed; `cut` says that it lacks its end, given the number of token
/// events.
pub(super) fn outcome(row: &Observation, cut: impl FnOnce(usize) -> Option<String>) -> Outcome {
    if row.chunks.is_empty() {
        return Outcome::failed(FailureKind::Empty, NO_TOKEN);
    }
    match cut(row.chunks.len()) {
        Some(message) => Outcome::failed(FailureKind::Truncated, message),
        None if row.first_content.is_none() && row.usage.completion_tokens.unwrap_or(0) == 0 => {
            Outcome::failed(FailureKind::Empty, "the stream ended without any content")
        }
        None => Outcome::Complete,
    }
}

pub(super) fn note_token(row: &mut Observation, timestamp: Timestamp, content: bool) {
    if content && row.first_content.is_none() {
        row.first_content = Some(timestamp);
    }
    row.chunks.push(timestamp);
}

/// Records the first token after the reasoning.
pub(super) fn note_answer(row: &mut Observation, timestamp: Timestamp, text: bool) {
    if text && row.first_answer.is_none() {
        row.first_answer = Some(timestamp);
    }
}

/// Server text as one line of limited length, without secrets. The text must not be cut at less than 4 KiB.
pub(crate) fn excerpt(bytes: &[u8]) -> String {
    ServerText::line(bytes, EXCERPT).into()
}
