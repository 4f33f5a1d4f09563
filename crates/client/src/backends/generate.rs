//! `/generate` of vLLM's demonstration server: the body, and lines that each contain the prompt and the output so far.

use std::sync::Arc;

use tacho_core::json::Dict;
use tacho_core::{Content, Failure, FailureKind, Observation, Outcome, Request, Timestamp};

use super::event::TextField;
use super::row::{NO_TOKEN, error_in_stream, malformed, note_token};
use super::scan::{Cursor, Kind, NotJson, unescape, whole};
use super::unstreamed::first_text;
use super::{Expected, PayloadSpec, Rules};

/// The body, before the fields that all backends share. All fields but two are sampling parameters; unknown ones are
/// refused, so it has no `model`.
pub(super) fn body(_: &PayloadSpec, request: &Request) -> Result<Dict, &'static str> {
    let mut body = Dict::new();
    body.set("prompt", prompt(request)?);
    body.set("max_tokens", request.output_len);
    body.set("stream", true);
    Ok(body)
}

/// The prompt, which must be text because responses echo it.
pub(super) fn prompt(request: &Request) -> Result<&str, &'static str> {
    match &request.content {
        Content::Text(prompt) => Ok(prompt),
        _ => Err("its prompt is not a text"),
    }
}

/// Decodes the lines of one response; a non-streamed response is one line.
#[derive(Debug)]
pub(super) struct GenerateDecoder {
    rules: Rules,
    prompt: Arc<str>,
    /// The text of the current line.
    text: Vec<u8>,
}

impl GenerateDecoder {
    pub(super) fn new(rules: Rules, expected: &Expected) -> Self {
        GenerateDecoder { rules, prompt: expected.prompt.clone().unwrap_or_default(), text: Vec::new() }
    }

    pub(super) fn event(&mut self, data: &[u8], timestamp: Timestamp, row: &mut Observation) -> Result<(), Failure> {
        let line = Line::read(data).map_err(|_| malformed("a line is not a JSON object", data))?;
        if self.rules == Rules::Standard {
            error_in_stream(line.error, data)?;
        }
        let TextField::Text(text) = line.text else { return Err(malformed("a line has no text", data)) };
        self.text.clear();
        if text.escaped {
            unescape(&data[text.span], &mut self.text);
        } else {
            self.text.extend_from_slice(&data[text.span]);
        }
        let output = self.text.strip_prefix(self.prompt.as_bytes()).unwrap_or(&self.text);
        if output.len() > row.text.len() {
            note_token(row, timestamp, true);
        }
        row.text.clear();
        row.text.extend_from_slice(output);
        Ok(())
    }

    pub(super) fn finish(&mut self, row: &Observation) -> Outcome {
        if row.chunks.is_empty() { Outcome::failed(FailureKind::Empty, NO_TOKEN) } else { Outcome::Complete }
    }
}

#[derive(Debug, Default)]
struct Line {
    text: TextField,
    error: Option<std::ops::Range<usize>>,
}

impl Line {
    fn read(data: &[u8]) -> Result<Line, NotJson> {
        whole(data, |cursor| {
            let mut line = Line::default();
            if cursor.kind()? != Kind::Object {
                return Err(NotJson);
            }
            cursor.members(|cursor, key| line.member(cursor, key))?;
            Ok(line)
        })
    }

    fn member(&mut self, cursor: &mut Cursor<'_>, key: &[u8]) -> Result<(), NotJson> {
        match key {
            b"text" => self.text = first_text(cursor)?,
            b"error" => self.error = cursor.truthy_span()?,
            _ => drop(cursor.skip()?),
        }
        Ok(())
    }
}
