//! `--config FILE.yaml`: a YAML mapping of flags. The command line takes precedence.

use std::path::{Path, PathBuf};

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span};
use tacho_core::json::{Dict, Value, dumps, float_repr};

use super::entry::Entry;
use super::flag::Table;
use super::number::{python_float, python_int};
use crate::error::ConfigError;

/// Maximum nesting depth: a malicious file must not overflow the stack.
const MAX_DEPTH: usize = 64;

/// Removes `--config FILE` from the words and returns the path.
pub fn take_path(args: &mut Vec<String>) -> Result<Option<PathBuf>, ConfigError> {
    let mut found = None;
    let mut kept = Vec::with_capacity(args.len());
    let mut rest = std::mem::take(args).into_iter();
    while let Some(arg) = rest.next() {
        let path = if arg == "--config" {
            rest.next().ok_or(ConfigError::NoFile)?
        } else if let Some(path) = arg.strip_prefix("--config=") {
            path.to_owned()
        } else {
            kept.push(arg);
            continue;
        };
        if found.replace(PathBuf::from(path)).is_some() {
            return Err(ConfigError::Several);
        }
    }
    *args = kept;
    Ok(found)
}

/// Reads the entries of a configuration file.
pub fn read(path: &Path, table: &Table) -> Result<Vec<Entry>, ConfigError> {
    if !path.extension().is_some_and(|ending| ending == "yaml" || ending == "yml") {
        return Err(ConfigError::NotYaml { path: path.to_owned() });
    }
    let text =
        std::fs::read_to_string(path).map_err(|source| ConfigError::Unreadable { path: path.to_owned(), source })?;
    let place = |line: usize| format!("--config {}: line {line}", path.display());
    match entries(&text, table) {
        Ok(entries) => Ok(entries.into_iter().map(|(line, words)| Entry { place: place(line), words }).collect()),
        Err(Problem { line, problem }) => Err(ConfigError::Malformed { path: path.to_owned(), line, problem }),
    }
}

/// A syntax error and its position.
#[derive(Debug)]
pub struct Problem {
    line: usize,
    problem: String,
}

impl From<ScanError> for Problem {
    fn from(error: ScanError) -> Self {
        Problem { line: error.marker().line(), problem: error.info().to_owned() }
    }
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}: {}", self.line, self.problem)
    }
}

/// The value of a YAML or JSON document; null if it is empty.
pub fn value(text: &str) -> Result<Value, Problem> {
    let mut reader = Reader { events: Parser::new_from_str(text), line: 1, lines: Vec::new() };
    loop {
        match reader.next()? {
            Event::StreamEnd => return Ok(Value::Null),
            Event::StreamStart | Event::DocumentStart(_) | Event::DocumentEnd | Event::Nothing => {}
            event => return reader.node(event, 1).map(Node::value),
        }
    }
}

/// The words and the line number of each entry.
pub fn entries(text: &str, table: &Table) -> Result<Vec<(usize, Vec<String>)>, Problem> {
    let mut reader = Reader { events: Parser::new_from_str(text), line: 1, lines: Vec::new() };
    let entries = reader.document()?;
    let words = |(key, node): (String, Node)| {
        let mut words = Vec::new();
        flag_words(&key, node, table, &mut words);
        words
    };
    Ok(reader.lines.into_iter().zip(entries.into_iter().map(words)).collect())
}

/// One entry as words. A value follows `=`, since it may start with a dash.
fn flag_words(key: &str, node: Node, table: &Table, out: &mut Vec<String>) {
    match node {
        Node::Scalar { text, plain } => match (plain, plain.then(|| truth(&text)).flatten()) {
            (true, _) if is_null(&text) => {}
            (_, Some(true)) => out.push(format!("--{key}")),
            (_, Some(false)) => {
                let off = format!("--no-{}", key.replace('_', "-"));
                let has_off = table.find(&off).is_some_and(|flag| flag.names.len() == 2);
                out.extend(has_off.then_some(off));
            }
            _ => {
                // YAML's `.inf` is `inf` on the command line.
                let number = plain.then(|| non_finite(&text)).flatten();
                out.push(format!("--{key}={}", number.map_or(text, float_repr)));
            }
        },
        Node::List(items) if items.is_empty() => {}
        Node::List(items) => {
            out.push(format!("--{key}"));
            out.extend(items.into_iter().map(|item| match item {
                Node::Scalar { text, .. } => text,
                other => dumps(&other.value()),
            }));
        }
        node @ Node::Dict(_) => out.push(format!("--{key}={}", dumps(&node.value()))),
    }
}

/// A YAML node; scalars are not yet interpreted.
enum Node {
    Scalar { text: String, plain: bool },
    List(Vec<Node>),
    Dict(Vec<(String, Node)>),
}

impl Node {
    fn value(self) -> Value {
        match self {
            Node::Scalar { text, plain: false } => Value::Str(text),
            Node::Scalar { text, .. } if is_null(&text) => Value::Null,
            Node::Scalar { text, .. } => truth(&text)
                .map(Value::Bool)
                .or_else(|| python_int(&text))
                .or_else(|| number(&text))
                .unwrap_or(Value::Str(text)),
            Node::List(items) => Value::List(items.into_iter().map(Node::value).collect()),
            Node::Dict(entries) => {
                Value::Dict(entries.into_iter().map(|(key, node)| (key, node.value())).collect::<Dict>())
            }
        }
    }
}

fn is_null(text: &str) -> bool {
    matches!(text, "" | "~" | "null" | "Null" | "NULL")
}

/// Parses booleans in PyYAML's spellings, which follow YAML 1.1.
fn truth(text: &str) -> Option<bool> {
    match text {
        "true" | "True" | "TRUE" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" => Some(true),
        "false" | "False" | "FALSE" | "no" | "No" | "NO" | "off" | "Off" | "OFF" => Some(false),
        _ => None,
    }
}

fn number(text: &str) -> Option<Value> {
    // Excludes the words `inf` and `nan`, which are not numbers in YAML.
    let has_digit = text.bytes().any(|byte| byte.is_ascii_digit());
    non_finite(text).or_else(|| has_digit.then(|| python_float(text)).flatten()).map(Value::Float)
}

/// Parses YAML's non-finite numbers, which start with a dot.
fn non_finite(text: &str) -> Option<f64> {
    match text {
        ".inf" | ".Inf" | ".INF" | "+.inf" => Some(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => Some(f64::NEG_INFINITY),
        ".nan" | ".NaN" | ".NAN" => Some(f64::NAN),
        _ => None,
    }
}

struct Reader<'a, E: Iterator<Item = Result<(Event<'a>, Span), ScanError>>> {
    events: E,
    line: usize,
    /// Line numbers of the top-level keys.
    lines: Vec<usize>,
}

impl<'a, E: Iterator<Item = Result<(Event<'a>, Span), ScanError>>> Reader<'a, E> {
    fn fail<T>(&self, problem: &str) -> Result<T, Problem> {
        Err(Problem { line: self.line, problem: problem.to_owned() })
    }

    fn next(&mut self) -> Result<Event<'a>, Problem> {
        let Some(event) = self.events.next() else { return self.fail("the file ends early") };
        let (event, span) = event?;
        self.line = span.start.line();
        Ok(event)
    }

    /// The top-level mapping; an empty file is an empty mapping.
    fn document(&mut self) -> Result<Vec<(String, Node)>, Problem> {
        loop {
            match self.next()? {
                Event::StreamEnd => return Ok(Vec::new()),
                Event::MappingStart(..) => return self.dict(0),
                Event::StreamStart | Event::DocumentStart(_) | Event::DocumentEnd | Event::Nothing => {}
                Event::Scalar(text, ScalarStyle::Plain, ..) if is_null(&text) => return Ok(Vec::new()),
                _ => return self.fail("the file must hold a mapping of flag names to values"),
            }
        }
    }

    fn dict(&mut self, depth: usize) -> Result<Vec<(String, Node)>, Problem> {
        let mut entries = Vec::new();
        loop {
            match self.next()? {
                Event::MappingEnd => return Ok(entries),
                Event::Scalar(key, ..) => {
                    if depth == 0 {
                        self.lines.push(self.line);
                    }
                    let event = self.next()?;
                    entries.push((key.into_owned(), self.node(event, depth + 1)?));
                }
                _ => return self.fail("a key must be a plain word"),
            }
        }
    }

    fn node(&mut self, event: Event<'a>, depth: usize) -> Result<Node, Problem> {
        if depth > MAX_DEPTH {
            return self.fail("too deeply nested");
        }
        match event {
            Event::Scalar(text, style, ..) => {
                Ok(Node::Scalar { text: text.into_owned(), plain: style == ScalarStyle::Plain })
            }
            Event::MappingStart(..) => self.dict(depth).map(Node::Dict),
            Event::SequenceStart(..) => {
                let mut items = Vec::new();
                loop {
                    match self.next()? {
                        Event::SequenceEnd => return Ok(Node::List(items)),
                        event => items.push(self.node(event, depth + 1)?),
                    }
                }
            }
            _ => self.fail("anchors and aliases are not read: write the value out"),
        }
    }
}
