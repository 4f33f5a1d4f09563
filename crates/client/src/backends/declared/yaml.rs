//! Reads YAML (and so JSON) into nodes that know their line.

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span};
use tacho_core::json::{Dict, Value, parse};

use super::Problem;

/// Maximum nesting depth.
const MAX_DEPTH: usize = 64;

/// A value of the file, with its line.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) line: usize,
    pub(super) tree: Tree,
}

#[derive(Debug, Clone)]
pub(super) enum Tree {
    Scalar { text: String, plain: bool },
    List(Vec<Node>),
    Dict(Vec<(Key, Node)>),
}

/// A key of a mapping.
#[derive(Debug, Clone)]
pub(super) struct Key {
    pub(super) line: usize,
    pub(super) name: String,
}

/// The document of a file.
pub(super) fn document(text: &str) -> Result<Node, Problem> {
    let mut reader = Reader { events: Parser::new_from_str(text), line: 1 };
    loop {
        match reader.next()? {
            Event::StreamEnd => {
                return reader.fail("the file is empty: see `tacho backend init openai` for an example");
            }
            Event::StreamStart | Event::DocumentStart(_) | Event::Nothing => {}
            event => {
                let node = reader.node(event, 0)?;
                return reader.end().map(|()| node);
            }
        }
    }
}

impl Node {
    /// The value, with scalars of YAML's core schema.
    pub(super) fn value(&self) -> Value {
        match &self.tree {
            Tree::Scalar { text, plain } => scalar(text, *plain),
            Tree::List(items) => Value::List(items.iter().map(Node::value).collect()),
            Tree::Dict(entries) => {
                Value::Dict(entries.iter().map(|(key, node)| (key.name.clone(), node.value())).collect::<Dict>())
            }
        }
    }

    /// The kind of the value, for messages.
    pub(super) fn kind(&self) -> &'static str {
        match (&self.tree, self.value()) {
            (Tree::List(_), _) => "a list",
            (Tree::Dict(_), _) => "a mapping",
            (_, Value::Null) => "empty",
            (_, Value::Str(_)) => "a text",
            (_, Value::Bool(_)) => "a truth value",
            _ => "a number",
        }
    }
}

fn scalar(text: &str, plain: bool) -> Value {
    match text {
        _ if !plain => Value::from(text),
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        // YAML's numbers are JSON's, apart from a leading plus and rare notations.
        _ => match parse(text.strip_prefix('+').unwrap_or(text)) {
            Ok(number @ (Value::Int(_) | Value::BigInt(_) | Value::Float(_)))
                if !text.ends_with(char::is_alphabetic) =>
            {
                number
            }
            _ => Value::from(text),
        },
    }
}

struct Reader<'a, E: Iterator<Item = Result<(Event<'a>, Span), ScanError>>> {
    events: E,
    line: usize,
}

impl<'a, E: Iterator<Item = Result<(Event<'a>, Span), ScanError>>> Reader<'a, E> {
    fn fail<T>(&self, problem: &str) -> Result<T, Problem> {
        Err(Problem::at(self.line, problem))
    }

    fn next(&mut self) -> Result<Event<'a>, Problem> {
        match self.events.next() {
            None => self.fail("the file ends early"),
            Some(Err(error)) => Err(Problem::at(error.marker().line(), format!("not YAML: {}", error.info()))),
            Some(Ok((event, span))) => {
                self.line = span.start.line();
                Ok(event)
            }
        }
    }

    /// Only one document is allowed.
    fn end(&mut self) -> Result<(), Problem> {
        loop {
            match self.next()? {
                Event::StreamEnd => return Ok(()),
                Event::DocumentEnd | Event::Nothing => {}
                _ => return self.fail("the file has several documents: keep one"),
            }
        }
    }

    fn node(&mut self, event: Event<'a>, depth: usize) -> Result<Node, Problem> {
        if depth > MAX_DEPTH {
            return self.fail("too deeply nested");
        }
        let line = self.line;
        let tree = match event {
            Event::Scalar(text, style, ..) => {
                Tree::Scalar { text: text.into_owned(), plain: style == ScalarStyle::Plain }
            }
            Event::MappingStart(..) => Tree::Dict(self.entries(depth)?),
            Event::SequenceStart(..) => {
                let mut items = Vec::new();
                loop {
                    match self.next()? {
                        Event::SequenceEnd => break Tree::List(items),
                        event => items.push(self.node(event, depth + 1)?),
                    }
                }
            }
            _ => return self.fail("anchors and aliases are not read: write the value out"),
        };
        Ok(Node { line, tree })
    }

    fn entries(&mut self, depth: usize) -> Result<Vec<(Key, Node)>, Problem> {
        let mut entries: Vec<(Key, Node)> = Vec::new();
        loop {
            match self.next()? {
                Event::MappingEnd => return Ok(entries),
                Event::Scalar(name, ..) => {
                    let key = Key { line: self.line, name: name.into_owned() };
                    if entries.iter().any(|(other, _)| other.name == key.name) {
                        return self.fail(&format!("{:?} is there twice: keep one", key.name));
                    }
                    let event = self.next()?;
                    let node = self.node(event, depth + 1)?;
                    entries.push((key, node));
                }
                _ => return self.fail("a key must be a word; put {{ … }} in quotes"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalars_are_those_of_the_core_schema() {
        let text = "a: 1\nb: 1.0\nc: '1'\nd: on\ne: ~\nf: true\ng: {h: [-2e3, NaN]}\n";
        let value = document(text).unwrap().value();
        assert_eq!(
            tacho_core::json::dumps(&value),
            r#"{"a": 1, "b": 1.0, "c": "1", "d": "on", "e": null, "f": true, "g": {"h": [-2000.0, "NaN"]}}"#
        );
    }
}
