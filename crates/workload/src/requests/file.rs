//! A workload as a file: one request per line, with its scheduled time.

use std::io::Write;
use std::path::Path;
use tacho_core::bounded::{ScheduledTime, TokenCount};

use tacho_core::json::{self, Dict, Value};
use tacho_core::{Content, Labels, Request};

use crate::Error;
use crate::limits::LENGTH;
use crate::sources::read_text;

/// Writes requests and their scheduled times in seconds after the start, if they have one. Numbering starts at `first`.
pub fn write_jsonl(out: &mut impl Write, first: usize, requests: &[Request], due_s: &[f64]) -> Result<(), Error> {
    let mut line = Vec::new();
    for (index, request) in requests.iter().enumerate() {
        line.clear();
        json::write_value(&mut line, &Value::Dict(to_json(first + index, request, due_s.get(index).copied())));
        line.push(b'\n');
        out.write_all(&line).map_err(|source| Error::Write { source })?;
    }
    Ok(())
}

fn to_json(index: usize, request: &Request, due_s: Option<f64>) -> Dict {
    let mut dict = Dict::new();
    dict.set("index", index);
    dict.set("prompt", request.content.to_json());
    dict.set("prompt_len", request.prompt_len);
    dict.set("expected_output_len", request.output_len);
    dict.set("request_id", request.id.clone());
    dict.set("multi_modal_data", request.media.clone());
    dict.set("media", Value::Null);
    dict.set("lora", request.lora.clone());
    dict.set("timestamp", request.timestamp);
    dict.set("chat_messages", request.chat_messages.clone());
    dict.set("request_overrides", request.overrides.clone());
    dict.set("planned_send_time", due_s);
    if let Some(session) = &request.session {
        dict.set("session_id", session.as_str());
    }
    if let Some(seconds) = request.cancel_after {
        dict.set("cancel_after_s", seconds);
    }
    if !request.labels.is_empty() {
        let labels = request.labels.iter().map(|(key, value)| (key.to_owned(), Value::from(value)));
        dict.set("labels", Value::Dict(labels.collect()));
    }
    dict
}

/// Reads a saved workload. A line without `planned_send_time` is scheduled at its `timestamp`, and without that at
/// once.
pub fn read_jsonl(path: &Path) -> Result<(Vec<Request>, Vec<f64>), Error> {
    let text = read_text(path)?;
    let mut requests = Vec::new();
    let mut due_s = Vec::new();
    for (index, text) in text.lines().enumerate().filter(|(_, text)| !text.trim().is_empty()) {
        let line = Line { path, number: index + 1 };
        let value = json::parse(text).map_err(|source| line.not_json(source))?;
        let Value::Dict(mut dict) = value else {
            return Err(line.wrong("prompt", "a member of an object"));
        };
        let planned = line.number(&mut dict, "planned_send_time")?;
        let request = line.request(dict)?;
        due_s.push(planned.or(request.timestamp).unwrap_or(0.0));
        requests.push(request);
    }
    Ok((requests, due_s))
}

/// The position of an error.
struct Line<'p> {
    path: &'p Path,
    number: usize,
}

impl Line<'_> {
    fn request(&self, mut dict: Dict) -> Result<Request, Error> {
        let prompt = dict.remove("prompt").ok_or_else(|| self.wrong("prompt", "given"))?;
        Ok(Request {
            content: content(prompt),
            prompt_len: self.length(&mut dict, "prompt_len")?,
            output_len: self.tokens(&mut dict, "expected_output_len")?,
            id: self.text(&mut dict, "request_id")?,
            media: present(&mut dict, "multi_modal_data"),
            lora: self.text(&mut dict, "lora")?,
            timestamp: self.number(&mut dict, "timestamp")?,
            chat_messages: present(&mut dict, "chat_messages"),
            overrides: present(&mut dict, "request_overrides"),
            session: self.text(&mut dict, "session_id")?,
            cancel_after: self.number(&mut dict, "cancel_after_s")?,
            labels: self.labels(&mut dict)?,
        })
    }

    fn labels(&self, dict: &mut Dict) -> Result<Labels, Error> {
        let Some(value) = present(dict, "labels") else { return Ok(Labels::NONE) };
        let labels =
            value.as_dict().and_then(|all| all.iter().map(|(key, value)| Some((key, value.as_str()?))).collect());
        labels.ok_or_else(|| self.wrong("labels", "an object of strings"))
    }

    fn length(&self, dict: &mut Dict, field: &'static str) -> Result<u64, Error> {
        Ok(self.tokens(dict, field)?.unsigned_abs())
    }

    fn tokens(&self, dict: &mut Dict, field: &'static str) -> Result<i64, Error> {
        let whole = dict.remove(field).and_then(|value| value.as_i64());
        whole.filter(|tokens| TokenCount::holds(*tokens)).ok_or_else(|| self.wrong(field, LENGTH))
    }

    fn number(&self, dict: &mut Dict, field: &'static str) -> Result<Option<f64>, Error> {
        let number = |value: Value| value.as_f64().filter(|number| ScheduledTime::holds(number.abs()));
        present(dict, field).map(|value| number(value).ok_or_else(|| self.wrong(field, "a number or null"))).transpose()
    }

    fn text(&self, dict: &mut Dict, field: &'static str) -> Result<Option<String>, Error> {
        match present(dict, field) {
            None => Ok(None),
            Some(Value::Str(text)) => Ok(Some(text)),
            Some(_) => Err(self.wrong(field, "a text or null")),
        }
    }

    fn wrong(&self, field: &'static str, expected: &'static str) -> Error {
        Error::LineField { path: self.path.to_path_buf(), line: self.number, field: field.to_owned(), expected }
    }

    fn not_json(&self, source: json::ParseError) -> Error {
        Error::LineNotJson { path: self.path.to_path_buf(), line: self.number, source }
    }
}

fn present(dict: &mut Dict, field: &str) -> Option<Value> {
    dict.remove(field).filter(|value| !matches!(value, Value::Null))
}

/// A list of token IDs is a separate kind of content; [`Content::from_json`] parses the other forms.
pub(crate) fn content(value: Value) -> Content {
    let id = |item: &Value| item.as_i64().and_then(|id| u32::try_from(id).ok());
    let ids = value.as_list().filter(|items| !items.is_empty());
    match ids.and_then(|items| items.iter().map(id).collect::<Option<Vec<u32>>>()) {
        Some(ids) => Content::Ids(ids),
        None => Content::from_json(value),
    }
}
