//! `custom`: user-supplied prompts, one JSON object per line. `spec_bench` and `speed_bench` sample the same way.

use std::path::{Path, PathBuf};
use tacho_core::bounded::TokenCount;

use tacho_core::json::{Dict, Value, python_float};
use tacho_core::{Content, Labels, Request};
use tacho_text::Tokenizer;

use crate::sources::jsonl::{Line, Lines};
use crate::{
    Error, limits::LENGTH, sampling::chat::Chat, sampling::context::SampleContext, sampling::sampled::Sampled,
    sampling::selection::Selection, sampling::timing, scenarios::with_priority, sources::layout::unpacked,
};

#[derive(Debug, Clone, PartialEq)]
pub struct CustomSpec {
    pub path: PathBuf,
    pub selection: Selection,
    /// Output tokens; `None` or -1 uses each row's `output_tokens`.
    pub output_len: Option<i64>,
    pub chat_template: bool,
    pub template_variables: Option<Dict>,
}

/// Settings of a replay: the first rows in file order, at the times in their `timestamp` field.
#[derive(Debug, Clone, PartialEq)]
pub struct CustomReplaySpec {
    pub custom: CustomSpec,
    pub time_scale: f64,
}

pub(crate) fn replay(spec: &CustomReplaySpec, context: &mut SampleContext<'_>) -> Result<Sampled, Error> {
    let selection = Selection { shuffle: false, oversample: false, ..spec.custom.selection.clone() };
    let custom = CustomSpec { selection, ..spec.custom.clone() };
    let mut sampled = sample(&custom, context)?;
    let lines = load(&custom.path)?;
    for (request, row) in sampled.requests.iter_mut().zip(lines.rows()) {
        let seconds = row.object.get("timestamp").and_then(Value::as_f64);
        request.timestamp = Some(seconds.ok_or_else(|| lines.wrong(row, "timestamp", "a number of seconds"))?);
    }
    timing::from_the_first(&mut sampled.requests, spec.time_scale)?;
    Ok(sampled)
}

/// Generates the requests; the shuffle or the repetition advances Python's global generator.
pub(crate) fn sample(spec: &CustomSpec, context: &mut SampleContext<'_>) -> Result<Sampled, Error> {
    let mut lines = load(&spec.path)?;
    let mut prompts = lines.rows().iter().filter_map(|row| row.object.get("prompt")).peekable();
    if prompts.peek().is_some_and(|first| **first != Value::Null) && prompts.all(is_numeric) {
        let problem = "every prompt is a number, which vLLM reads as a number without a text: add a prompt with words";
        return Err(data!("{}: {problem}", spec.path.display()));
    }
    let lengths = OutputLengths::new(spec.output_len, &lines);
    spec.selection.arrange(lines.rows_mut(), context.globals);
    let prompt = |row: &Line| match row.object.get("prompt") {
        None | Some(Value::Null) => Err(lines.wrong(row, "prompt", "given")),
        Some(prompt) => Ok(prompt.clone()),
    };
    let rows: Vec<Row<'_>> = lines.rows().iter().map(|line| Row { line, prompt: prompt(line) }).collect();
    let sampler = Sampler {
        lines: &lines,
        selection: &spec.selection,
        lengths,
        chat_template: spec.chat_template,
        template_variables: spec.template_variables.as_ref(),
        label: None,
    };
    sampler.sample(rows, context)
}

/// Whether pandas parses a cell as a number. A column is numeric if all its cells are.
fn is_numeric(cell: &Value) -> bool {
    match cell {
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) => true,
        Value::Str(text) => python_float(text).is_some(),
        _ => false,
    }
}

pub(crate) fn load(path: &Path) -> Result<Lines, Error> {
    if !unpacked(&path.to_string_lossy()).ends_with(".jsonl") {
        return Err(Error::NotJsonl { path: path.to_path_buf() });
    }
    let lines = Lines::read(path)?;
    if lines.has_field("prompt") { Ok(lines) } else { Err(lines.no_column("prompt")) }
}

/// A row and its prompt; a missing prompt matters only if the row is used.
pub(crate) struct Row<'l> {
    pub(crate) line: &'l Line,
    pub(crate) prompt: Result<Value, Error>,
}

/// Sampling shared by `custom` and similar datasets, given their rows.
pub(crate) struct Sampler<'l> {
    pub(crate) lines: &'l Lines,
    pub(crate) selection: &'l Selection,
    pub(crate) lengths: OutputLengths,
    pub(crate) chat_template: bool,
    pub(crate) template_variables: Option<&'l Dict>,
    /// The field whose text is a label of the request: metrics are also computed for each of its values.
    pub(crate) label: Option<&'static str>,
}

impl Sampler<'_> {
    /// The first rows as requests, repeated if there are too few.
    pub(crate) fn sample(&self, rows: Vec<Row<'_>>, context: &mut SampleContext<'_>) -> Result<Sampled, Error> {
        let tokenizer = context.tokenizer;
        let chat = match tokenizer {
            Some(tokenizer) if self.chat_template && !rows.is_empty() => {
                Some(Chat::new(tokenizer, self.template_variables)?)
            }
            _ => None,
        };
        let request = |row: Row<'_>| {
            let (priority, labels) = (self.priority(row.line)?, self.labels(row.line));
            let answer = row.line.object.get("answer").cloned();
            let request = match tokenizer {
                Some(tokenizer) => self.request(row, tokenizer, chat.as_ref())?,
                None => Request { content: Content::from_json(row.prompt?), ..Request::text("", 1, 1) },
            };
            let request = match priority {
                Some(priority) => with_priority(request, priority),
                None => request,
            };
            Ok(Request { labels, answer, ..request })
        };
        Ok(Sampled::of(self.selection.requests(rows.into_iter(), None, context, request)?))
    }

    fn labels(&self, line: &Line) -> Labels {
        let value = |key: &'static str| Some((key, line.object.text(key)?));
        self.label.and_then(value).into_iter().collect()
    }

    /// The row's scheduling priority, if it has one.
    fn priority(&self, line: &Line) -> Result<Option<i64>, Error> {
        match line.object.get("priority") {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Int(priority)) => Ok(Some(*priority)),
            Some(_) => Err(self.lines.wrong(line, "priority", "a whole number, lower ones served first")),
        }
    }

    fn request(&self, row: Row<'_>, tokenizer: &Tokenizer, chat: Option<&Chat<'_>>) -> Result<Request, Error> {
        let output_len = self.lengths.of(self.lines, row.line)?;
        match (Content::from_json(row.prompt?), chat) {
            (Content::Text(prompt), chat) => {
                let prompt = chat.map_or(Ok(prompt.clone()), |chat| chat.user(&prompt))?;
                let len = tokenizer.count(&prompt, true) as u64;
                Ok(Request::text(prompt, len, output_len))
            }
            // The tokenizer treats a list as a batch, whose length is its number of texts.
            (Content::Texts(texts), None) => {
                let len = texts.len() as u64;
                Ok(Request { content: Content::Texts(texts), ..Request::text("", len, output_len) })
            }
            _ => Err(self.lines.wrong(row.line, "prompt", "a text")),
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum OutputLengths {
    Fixed(i64),
    /// The `output_tokens` column. pandas reads a column as numbers if every cell parses as one, so that `"6.2"` is
    /// valid; in any other column strings stay strings, and only whole numbers count.
    Column {
        numeric: bool,
    },
    Missing,
}

impl OutputLengths {
    /// Chosen from the flag and the file.
    pub(crate) fn new(flag: Option<i64>, lines: &Lines) -> Self {
        match flag {
            Some(len) if len != -1 => OutputLengths::Fixed(len),
            _ if !lines.has_field("output_tokens") => OutputLengths::Missing,
            _ => {
                let values = lines.rows().iter().filter_map(|row| row.object.get("output_tokens"));
                let numeric = |value: &Value| match value {
                    Value::Str(text) => python_float(text).is_some(),
                    Value::List(_) | Value::Dict(_) => false,
                    _ => true,
                };
                OutputLengths::Column { numeric: values.into_iter().all(numeric) }
            }
        }
    }

    pub(crate) fn of(self, lines: &Lines, row: &Line) -> Result<i64, Error> {
        let numeric = match self {
            OutputLengths::Fixed(len) => return Ok(len),
            OutputLengths::Missing => return Err(lines.no_column("output_tokens")),
            OutputLengths::Column { numeric } => numeric,
        };
        let whole = match row.object.get("output_tokens") {
            Some(Value::Int(number)) => Some(*number),
            Some(Value::Bool(flag)) => Some(i64::from(*flag)),
            Some(Value::Float(number)) => truncated(*number),
            Some(Value::Str(text)) if numeric => python_float(text).and_then(truncated),
            Some(Value::Str(text)) => text.trim().parse().ok(),
            _ => None,
        };
        whole.filter(|tokens| TokenCount::holds(*tokens)).ok_or_else(|| lines.wrong(row, "output_tokens", LENGTH))
    }
}

fn truncated(number: f64) -> Option<i64> {
    number.is_finite().then_some(number as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{sampling::context::with_builtin, scenarios::priority_of};

    #[test]
    fn a_replay_keeps_the_rows_times() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("c.jsonl");
        let replayed = |lines: &str| {
            std::fs::write(&path, lines).unwrap();
            let selection = Selection { num_prompts: 5, shuffle: true, oversample: true, ..Selection::default() };
            let custom = CustomSpec {
                path: path.clone(),
                selection,
                output_len: Some(3),
                chat_template: false,
                template_variables: None,
            };
            let spec = CustomReplaySpec { custom, time_scale: 1.0 };
            with_builtin(|context| replay(&spec, context))
        };
        let made =
            replayed("{\"prompt\": \"b\", \"timestamp\": 7.5}\n{\"prompt\": \"a\", \"timestamp\": 7}\n").unwrap();
        let seen: Vec<_> =
            made.requests.iter().map(|request| (request.content.to_json(), request.timestamp.unwrap())).collect();
        assert_eq!(seen, [(Value::from("a"), 0.0), (Value::from("b"), 0.5)]);
        let urgent = replayed("{\"prompt\": \"b\", \"timestamp\": 1, \"priority\": -2}\n").unwrap();
        assert_eq!(priority_of(&urgent.requests[0]), Some(-2));
        let error =
            replayed("{\"prompt\": \"b\", \"timestamp\": 1, \"priority\": \"high\"}\n").unwrap_err().to_string();
        assert!(error.contains("line 1") && error.contains("priority"), "{error}");
        let numbers = "{\"prompt\": \"12\", \"timestamp\": 1}\n{\"prompt\": \"3.5\", \"timestamp\": 2}\n";
        assert!(replayed(numbers).unwrap_err().to_string().contains("every prompt is a number"));
        assert!(replayed(&format!("{numbers}{{\"prompt\": \"a\", \"timestamp\": 3}}\n")).is_ok());
        let error = replayed("{\"prompt\": \"b\"}\n").unwrap_err().to_string();
        assert!(error.contains("line 1") && error.contains("timestamp"), "{error}");
    }
}
