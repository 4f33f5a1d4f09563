//! Reads YAML (and so JSON) into nodes that know their line. Plain scalars mean what they mean to PyYAML.

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span};

use crate::json::{Dict, Value, python_float, python_int};

/// Maximum nesting depth: a malicious file must not overflow the stack.
const MAX_DEPTH: usize = 64;

/// A value of the document, with its line.
#[derive(Debug, Clone)]
pub struct Node {
    /// Counted from 1.
    pub line: usize,
    /// The value.
    pub tree: Tree,
}

/// A value whose scalars are not yet interpreted.
#[derive(Debug, Clone)]
pub enum Tree {
    /// A scalar; it is plain if it has no quotes.
    Scalar {
        /// Without its quotes.
        text: String,
        /// Whether it may be a number, a truth value or null.
        plain: bool,
    },
    /// A sequence.
    List(Vec<Node>),
    /// A mapping in the order of the file. A key may occur twice.
    Dict(Vec<(Key, Node)>),
}

/// A key of a mapping.
#[derive(Debug, Clone)]
pub struct Key {
    /// Counted from 1.
    pub line: usize,
    /// The key as text.
    pub name: String,
}

/// A syntax error and its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyntaxError {
    /// Counted from 1.
    pub line: usize,
    /// What is wrong there.
    pub problem: String,
}

impl std::fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}: {}", self.line, self.problem)
    }
}

/// The only document of a text; nothing if the text is empty.
pub fn document(text: &str) -> Result<Option<Node>, SyntaxError> {
    let mut reader = Reader { events: Parser::new_from_str(text), line: 1 };
    let mut document = None;
    loop {
        match reader.next()? {
            Event::StreamEnd => return Ok(document),
            Event::StreamStart | Event::DocumentStart(_) | Event::DocumentEnd | Event::Nothing => {}
            _ if document.is_some() => return reader.fail("the file has several documents: keep one"),
            event => document = Some(reader.node(event, 0)?),
        }
    }
}

impl Node {
    /// The value with interpreted scalars. The last of several equal keys counts.
    pub fn value(&self) -> Value {
        match &self.tree {
            Tree::Scalar { text, plain: true } => scalar(text),
            Tree::Scalar { text, .. } => Value::from(text.as_str()),
            Tree::List(items) => Value::List(items.iter().map(Node::value).collect()),
            Tree::Dict(entries) => {
                Value::Dict(entries.iter().map(|(key, node)| (key.name.clone(), node.value())).collect::<Dict>())
            }
        }
    }

    /// The text of a scalar.
    pub fn text(&self) -> Option<&str> {
        match &self.tree {
            Tree::Scalar { text, .. } => Some(text),
            _ => None,
        }
    }

    /// The items of a list.
    pub fn items(&self) -> Option<&[Node]> {
        match &self.tree {
            Tree::List(items) => Some(items),
            _ => None,
        }
    }

    /// A member of a mapping.
    pub fn get(&self, name: &str) -> Option<&Node> {
        match &self.tree {
            Tree::Dict(entries) => entries.iter().find(|(key, _)| key.name == name).map(|(_, node)| node),
            _ => None,
        }
    }

    /// The first key that a mapping, here or below, has twice.
    pub fn repeated_key(&self) -> Option<&Key> {
        match &self.tree {
            Tree::Scalar { .. } => None,
            Tree::List(items) => items.iter().find_map(Node::repeated_key),
            Tree::Dict(entries) => entries.iter().enumerate().find_map(|(at, (key, node))| {
                let again = entries[..at].iter().any(|(earlier, _)| earlier.name == key.name);
                if again { Some(key) } else { node.repeated_key() }
            }),
        }
    }

    /// The kind of the value, for messages.
    pub fn kind(&self) -> &'static str {
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

/// A plain scalar.
fn scalar(text: &str) -> Value {
    // Excludes the words `inf` and `nan`, which are not numbers in YAML.
    let has_digit = text.bytes().any(|byte| byte.is_ascii_digit());
    let finite = || has_digit.then(|| python_float(text)).flatten();
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" => Value::Bool(true),
        "false" | "False" | "FALSE" | "no" | "No" | "NO" | "off" | "Off" | "OFF" => Value::Bool(false),
        ".inf" | ".Inf" | ".INF" | "+.inf" => Value::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => Value::Float(f64::NEG_INFINITY),
        ".nan" | ".NaN" | ".NAN" => Value::Float(f64::NAN),
        _ => python_int(text).or_else(|| finite().map(Value::Float)).unwrap_or_else(|| Value::from(text)),
    }
}

struct Reader<'a, E: Iterator<Item = Result<(Event<'a>, Span), ScanError>>> {
    events: E,
    line: usize,
}

impl<'a, E: Iterator<Item = Result<(Event<'a>, Span), ScanError>>> Reader<'a, E> {
    fn fail<T>(&self, problem: &str) -> Result<T, SyntaxError> {
        Err(SyntaxError { line: self.line, problem: problem.to_owned() })
    }

    fn next(&mut self) -> Result<Event<'a>, SyntaxError> {
        match self.events.next() {
            None => self.fail("the file ends early"),
            Some(Err(error)) => {
                Err(SyntaxError { line: error.marker().line(), problem: format!("not YAML: {}", error.info()) })
            }
            Some(Ok((event, span))) => {
                self.line = span.start.line();
                Ok(event)
            }
        }
    }

    fn node(&mut self, event: Event<'a>, depth: usize) -> Result<Node, SyntaxError> {
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

    fn entries(&mut self, depth: usize) -> Result<Vec<(Key, Node)>, SyntaxError> {
        let mut entries = Vec::new();
        loop {
            match self.next()? {
                Event::MappingEnd => return Ok(entries),
                Event::Scalar(name, ..) => {
                    let key = Key { line: self.line, name: name.into_owned() };
                    let event = self.next()?;
                    entries.push((key, self.node(event, depth + 1)?));
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
    fn plain_scalars_mean_what_they_mean_to_pyyaml() {
        let text = "a: 1\nb: 1.0\nc: '1'\nd: on\ne: ~\nf: 'on'\ng: {h: [-2e3, NaN, inf]}\n";
        let value = document(text).unwrap().unwrap().value();
        assert_eq!(
            crate::json::dumps(&value),
            r#"{"a": 1, "b": 1.0, "c": "1", "d": true, "e": null, "f": "on", "g": {"h": [-2000.0, "NaN", "inf"]}}"#
        );
    }

    #[test]
    fn a_repeated_key_is_found_below() {
        let node = document("a: 1\nb:\n- c: 1\n  d: 2\n  c: 3\n").unwrap().unwrap();
        let key = node.repeated_key().unwrap();
        assert_eq!((key.line, key.name.as_str()), (5, "c"));
        assert_eq!(node.value().get("b").unwrap().as_list().unwrap()[0].get("c").unwrap().as_i64(), Some(3));
    }

    #[test]
    fn one_document_without_aliases_is_read() {
        assert!(document("# nothing\n").unwrap().is_none());
        assert_eq!(document("a: 1\n---\nb: 2\n").unwrap_err().line, 3);
        assert_eq!(document("a: &x 1\nb: *x\n").unwrap_err().line, 2);
        assert!(document(&"[".repeat(1000)).is_err());
    }
}
