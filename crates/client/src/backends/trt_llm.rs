//! Triton with TensorRT-LLM: the body, and a stream of texts.

use tacho_core::{Failure, FailureKind, Observation, Outcome, Request, Timestamp, json::Dict};

use super::event::{TextField, read_text};
use super::row::{NO_TOKEN, error_in_stream, malformed, note_token, push_text};
use super::scan::{Kind, NotJson, whole};
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
        let event = Event::read(data).map_err(|_| malformed("an event is not JSON", data))?;
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

#[derive(Debug, Default)]
struct Event {
    text_output: TextField,
    error: Option<std::ops::Range<usize>>,
}

impl Event {
    fn read(data: &[u8]) -> Result<Event, NotJson> {
        whole(data, |cursor| {
            let mut event = Event::default();
            if cursor.kind()? != Kind::Object {
                return Err(NotJson);
            }
            cursor.members(|cursor, key| {
                match key {
                    b"text_output" => event.text_output = read_text(cursor)?,
                    b"error" => event.error = cursor.truthy_span()?,
                    _ => drop(cursor.skip()?),
                }
                Ok(())
            })?;
            Ok(event)
        })
    }
}
