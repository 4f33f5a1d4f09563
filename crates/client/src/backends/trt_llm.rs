//! Triton with TensorRT-LLM: the body, and a stream of texts.

use std::ops::Range;

use tacho_core::{Failure, FailureKind, Observation, Outcome, Request, Timestamp, json::Dict};

use super::event::{TextField, read_text};
use super::members::{Members, members};
use super::row::{NO_TOKEN, error_in_stream, malformed, note_token, push_text};
use super::scan::{Cursor, Kind, NotJson};
use super::{PayloadSpec, Rules};

pub(super) fn body(payload: &PayloadSpec, request: &Request) -> Result<Dict, &'static str> {
    Ok(tacho_core::dict! {
        "accumulate_tokens": true,
        "text_input": request.content.to_json(),
        "temperature": 0.0,
        "top_p": 1.0,
        "max_tokens": request.output_len,
        "stream": true,
        "min_length"?: payload.ignore_eos.then_some(request.output_len),
    })
}

#[derive(Debug)]
pub(super) struct TrtLlmDecoder {
    rules: Rules,
}

impl TrtLlmDecoder {
    pub(super) fn new(rules: Rules) -> Self {
        TrtLlmDecoder { rules }
    }

    pub(super) fn event(&mut self, data: &[u8], timestamp: Timestamp, row: &mut Observation) -> Result<(), Failure> {
        let not_json = |_| malformed("an event is not JSON", data);
        let (event, Kind::Object, _) = Event::read(data).map_err(not_json)? else { return Err(not_json(NotJson)) };
        if self.rules == Rules::Standard {
            error_in_stream(event.error, data)?;
        }
        match &event.text_output {
            TextField::Missing => Err(malformed("an event has no text_output", data)),
            text => {
                note_token(row, timestamp, text.has_characters());
                push_text(text, data, row)
            }
        }
    }

    pub(super) fn finish(&mut self, row: &Observation) -> Outcome {
        match (self.rules, row.first_content) {
            (Rules::Standard, None) => Outcome::failed(FailureKind::Empty, NO_TOKEN),
            _ => Outcome::Complete,
        }
    }
}

members! {
    struct Event {
        text_output: TextField = b"text_output" => read_text,
        error: Option<Range<usize>> = b"error" => Cursor::truthy_span,
    }
}
