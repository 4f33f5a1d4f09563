//! Text Generation Inference: the body, and a token stream whose last event has the complete text.

use std::ops::Range;

use tacho_core::{Failure, FailureKind, Observation, Outcome, Request, Timestamp, dict, json::Dict};

use super::event::{TextField, member_count, read_text};
use super::members::{members, object};
use super::row::{NO_TOKEN, error_in_stream, note_token, push_text};
use super::scan::Cursor;
use super::{Expected, PayloadSpec, Rules};

pub(super) fn body(payload: &PayloadSpec, request: &Request) -> Result<Dict, &'static str> {
    let parameters = dict! {
        "max_new_tokens": request.output_len,
        "do_sample": true,
        "temperature": 0.01,
        "top_p": 0.99,
        "truncate": request.prompt_len,
        "ignore_eos_token": payload.ignore_eos,
    };
    Ok(dict! { "inputs": request.content.to_json(), "parameters": parameters })
}

#[derive(Debug)]
pub(super) struct TgiDecoder {
    rules: Rules,
    fixed_tokens: Option<u64>,
    /// The complete text in the last event.
    whole_text: WholeText,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WholeText {
    Unmentioned,
    Null,
    Given,
}

impl TgiDecoder {
    pub(super) fn new(rules: Rules, expected: &Expected) -> Self {
        TgiDecoder { rules, fixed_tokens: expected.fixed_tokens, whole_text: WholeText::Unmentioned }
    }

    pub(super) fn event(&mut self, data: &[u8], timestamp: Timestamp, row: &mut Observation) -> Result<(), Failure> {
        let (event, impossible): (Event, _) = object("an event", data)?;
        if self.rules == Rules::Standard {
            error_in_stream(event.error, data)?;
        }
        note_token(row, timestamp, event.token_has_text);
        row.text.clear();
        self.whole_text = match (&event.generated_text, event.mentions_text) {
            (TextField::Missing, false) => WholeText::Unmentioned,
            (TextField::Missing, true) => WholeText::Null,
            (given, _) => {
                push_text(given, data, row)?;
                WholeText::Given
            }
        };
        row.usage.completion_tokens =
            event.generated_tokens.filter(|_| self.rules == Rules::Standard).or(self.fixed_tokens);
        row.impossible_usage |= impossible;
        Ok(())
    }

    /// Whether the event with the complete text has arrived.
    pub(super) fn is_closed(&self) -> bool {
        self.whole_text == WholeText::Given
    }

    pub(super) fn finish(&mut self, row: &Observation) -> Outcome {
        match (row.chunks.is_empty(), self.whole_text, self.rules) {
            (true, ..) => Outcome::failed(FailureKind::Empty, NO_TOKEN),
            (_, WholeText::Given, _) | (_, WholeText::Null, Rules::Vllm) => Outcome::Complete,
            _ => Outcome::failed(FailureKind::Truncated, "the stream ended without the whole text"),
        }
    }
}

members! {
    struct Event {
        generated_text: TextField,
        mentions_text: bool,
        token_has_text: bool,
        generated_tokens: Option<u64>,
        error: Option<Range<usize>> = b"error" => Cursor::truthy_span,
    } else |event, cursor| {
        b"generated_text" => {
            event.mentions_text = true;
            event.generated_text = read_text(cursor)?;
        },
        b"token" => cursor.member_if_object(b"text", |cursor| {
            event.token_has_text = read_text(cursor)?.has_characters();
            Ok(())
        })?,
        b"details" => event.generated_tokens = member_count(cursor, b"generated_tokens")?,
    }
}
