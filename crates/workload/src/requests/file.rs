//! A workload as a file: a line of settings, then one request per line with its scheduled time.

use std::io::{self, BufRead, BufReader, Cursor, Read, Write};
use std::{fs::File, path::Path};
use tacho_core::bounded::{ScheduledTime, TokenCount};

use tacho_core::json::{self, Dict, Value};
use tacho_core::{Content, Labels, Request, secret::without_secrets};

use crate::limits::{LENGTH, MAX_LINE_BYTES};
use crate::{Error, sources::read_text};

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
    let mut dict = tacho_core::dict! {
        "index": index,
        "prompt": request.content.to_json(),
        "prompt_len": request.prompt_len,
        "expected_output_len": request.output_len,
        "request_id": request.id.clone(),
        "multi_modal_data": request.media.clone(),
        "media": Value::Null,
        "lora": request.lora.clone(),
        "timestamp": request.timestamp,
        "chat_messages": request.chat_messages.clone(),
        "request_overrides": request.overrides.as_ref().map(without_secrets),
        "planned_send_time": due_s,
        "session_id"?: request.session.as_deref(),
        "cancel_after_s"?: request.cancel_after,
        "answer"?: request.answer.clone(),
    };
    if !request.labels.is_empty() {
        let labels = request.labels.iter().map(|(key, value)| (key.to_owned(), Value::from(value)));
        dict.set("labels", Value::Dict(labels.collect()));
    }
    dict
}

/// Key of the settings in the first line of a saved workload.
const SETTINGS: &str = "tacho_workload";

/// Writes the line of settings that a saved workload begins with. `more` follows it in the same object.
pub fn write_settings(out: &mut impl Write, settings: Dict, more: bool) -> Result<(), Error> {
    let mut line = Dict::new();
    line.set(SETTINGS, settings);
    let mut line = json::dumps(&line.into());
    if more {
        line.replace_range(line.len() - 1.., ",");
    }
    writeln!(out, "{line}").map_err(|source| Error::Write { source })
}

/// The settings that a saved workload begins with; `None` if it has none.
pub fn read_settings(path: &Path) -> Result<Option<Dict>, Error> {
    let first = first_line(path)?;
    let text = first.strip_suffix(',').map(|open| format!("{open}}}")).unwrap_or(first);
    Ok(json::parse(&text).ok().and_then(settings_of))
}

/// Whether a saved workload contains sessions: a JSON document instead of JSON lines.
pub fn has_sessions(path: &Path) -> bool {
    first_line(path).is_ok_and(|first| first == "{" || first.ends_with(','))
}

/// The first line of a file; empty for a pipe, which can be read only once.
fn first_line(path: &Path) -> Result<String, Error> {
    let mut first = String::new();
    if std::fs::metadata(path).is_ok_and(|found| found.is_file()) {
        Line { path, number: 1 }.read(&mut *lines(path)?, &mut first)?;
    }
    Ok(first.trim().to_owned())
}

fn settings_of(line: Value) -> Option<Dict> {
    match line {
        Value::Dict(mut line) => match line.remove(SETTINGS) {
            Some(Value::Dict(settings)) => Some(settings),
            _ => None,
        },
        _ => None,
    }
}

/// The lines of a file. One that is packed or in another encoding is read as a whole.
fn lines(path: &Path) -> Result<Box<dyn BufRead>, Error> {
    let failed = |source| Error::Read { path: path.to_path_buf(), source };
    let mut file = BufReader::with_capacity(1 << 16, File::open(path).map_err(failed)?);
    Ok(match *file.fill_buf().map_err(failed)? {
        [0x1f, 0x8b, ..] | [0x28, 0xb5, 0x2f, 0xfd, ..] | [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => {
            Box::new(Cursor::new(read_text(path)?))
        }
        _ => Box::new(file),
    })
}

/// Passes each request of a saved workload and its scheduled time to `take`, and returns the settings. A line without
/// `planned_send_time` is scheduled at its `timestamp`, and without that at once.
pub fn each_saved(path: &Path, mut take: impl FnMut(Request, f64)) -> Result<Option<Dict>, Error> {
    let mut lines = lines(path)?;
    let mut settings = None;
    let mut text = String::new();
    for number in 1.. {
        let line = Line { path, number };
        text.clear();
        if line.read(&mut lines, &mut text)? == 0 {
            break;
        }
        let text = text.trim_start_matches('\u{feff}');
        if text.trim().is_empty() {
            continue;
        }
        let value = json::parse(text).map_err(|source| line.not_json(source))?;
        let Value::Dict(mut dict) = value else {
            return Err(line.wrong("prompt", "a member of an object"));
        };
        if number == 1 && dict.get(SETTINGS).is_some() {
            settings = settings_of(dict.into());
            continue;
        }
        let planned = line.number(&mut dict, "planned_send_time")?;
        let request = line.request(dict)?;
        let due = planned.or(request.timestamp).unwrap_or(0.0);
        take(request, due);
    }
    Ok(settings)
}

/// Reads a saved workload as a whole: its requests and their scheduled times.
pub fn read_jsonl(path: &Path) -> Result<(Vec<Request>, Vec<f64>), Error> {
    let (mut requests, mut due_s) = (Vec::new(), Vec::new());
    each_saved(path, |request, due| {
        requests.push(request);
        due_s.push(due);
    })?;
    Ok((requests, due_s))
}

/// The position of an error.
struct Line<'p> {
    path: &'p Path,
    number: usize,
}

impl Line<'_> {
    /// Reads the line's text; returns its length.
    fn read(&self, lines: &mut dyn BufRead, text: &mut String) -> Result<usize, Error> {
        let path = || self.path.to_path_buf();
        let read = lines.take(MAX_LINE_BYTES as u64 + 1).read_line(text);
        match read.map_err(|source| match source.kind() {
            io::ErrorKind::InvalidData => Error::NotUtf8 { path: path(), line: self.number },
            _ => Error::Read { path: path(), source },
        })? {
            long if long > MAX_LINE_BYTES => {
                Err(Error::LongLine { path: path(), line: self.number, limit: MAX_LINE_BYTES })
            }
            length => Ok(length),
        }
    }

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
            answer: present(&mut dict, "answer"),
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
