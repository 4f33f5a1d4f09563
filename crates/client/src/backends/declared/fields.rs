//! The members of a mapping in the file: each is read once by name, and unknown ones are refused.

use tacho_core::json::Value;
use tacho_core::yaml::{Key, Node, SyntaxError, Tree};

#[derive(Debug)]
pub(super) struct Problem {
    pub(super) line: usize,
    pub(super) problem: String,
}

impl Problem {
    pub(super) fn at(line: usize, problem: impl Into<String>) -> Self {
        Problem { line, problem: problem.into() }
    }

    pub(super) fn in_field(line: usize, field: &str, problem: impl Into<String>) -> Self {
        let problem = problem.into();
        Problem { line, problem: if field.is_empty() { problem } else { format!("{field}: {problem}") } }
    }
}

impl From<SyntaxError> for Problem {
    fn from(SyntaxError { line, problem }: SyntaxError) -> Self {
        Problem { line, problem }
    }
}

pub(super) struct Fields<'n> {
    /// Its name in messages, with a dot at the end; empty for the file itself.
    prefix: String,
    line: usize,
    entries: &'n [(Key, Node)],
}

impl<'n> Fields<'n> {
    /// The members of a mapping, which may have these keys only.
    pub(super) fn of(node: &'n Node, name: &str, known: &[&str]) -> Result<Self, Problem> {
        let Tree::Dict(entries) = &node.tree else {
            return Err(Problem::in_field(node.line, name, format!("must be a mapping, not {}", node.kind())));
        };
        let prefix = if name.is_empty() { String::new() } else { format!("{name}.") };
        if let Some((key, _)) = entries.iter().find(|(key, _)| !known.contains(&key.name.as_str())) {
            let field = format!("{prefix}{}", key.name);
            return Err(Problem::in_field(key.line, &field, format!("unknown key; known are {}", known.join(", "))));
        }
        Ok(Fields { prefix, line: node.line, entries })
    }

    pub(super) fn name(&self, key: &str) -> String {
        format!("{}{key}", self.prefix)
    }

    pub(super) fn problem(&self, key: &str, problem: impl Into<String>) -> Problem {
        let line = self.get(key).map_or(self.line, |node| node.line);
        Problem::in_field(line, &self.name(key), problem)
    }

    /// A member, unless it is missing or empty.
    pub(super) fn get(&self, key: &str) -> Option<&'n Node> {
        let found = self.entries.iter().find(|(known, _)| known.name == key).map(|(_, node)| node);
        found.filter(|node| !matches!(&node.tree, Tree::Scalar { text, plain: true } if text.is_empty()))
    }

    pub(super) fn required(&self, key: &str, example: &str) -> Result<&'n Node, Problem> {
        let missing = || Problem::in_field(self.line, &self.name(key), format!("is missing; for example {example}"));
        self.get(key).ok_or_else(missing)
    }

    pub(super) fn text(&self, key: &str) -> Result<Option<&'n str>, Problem> {
        let Some(node) = self.get(key) else { return Ok(None) };
        match &node.tree {
            Tree::Scalar { text, .. } => Ok(Some(text)),
            _ => Err(self.problem(key, format!("must be a text, not {}", node.kind()))),
        }
    }

    pub(super) fn truth(&self, key: &str, default: bool) -> Result<bool, Problem> {
        let Some(node) = self.get(key) else { return Ok(default) };
        match node.value() {
            Value::Bool(flag) => Ok(flag),
            _ => Err(self.problem(key, format!("must be true or false, not {}", node.kind()))),
        }
    }

    pub(super) fn integer(&self, key: &str, default: i64) -> Result<i64, Problem> {
        let Some(node) = self.get(key) else { return Ok(default) };
        node.value().as_i64().ok_or_else(|| self.problem(key, format!("must be a whole number, not {}", node.kind())))
    }

    pub(super) fn word<T: Copy>(&self, key: &str, words: &[(&str, T)]) -> Result<T, Problem> {
        let Some(text) = self.text(key)? else { return Ok(words[0].1) };
        let names = || words.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        let found = words.iter().find(|(name, _)| *name == text);
        found.map(|(_, value)| *value).ok_or_else(|| self.problem(key, format!("is {text:?}, not one of {}", names())))
    }

    /// A member that is one value or a list of them.
    pub(super) fn each(&self, key: &str) -> &'n [Node] {
        match self.get(key) {
            None => &[],
            Some(Node { tree: Tree::List(items), .. }) => items,
            Some(node) => std::slice::from_ref(node),
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&'n Key, &'n Node)> {
        self.entries.iter().map(|(key, node)| (key, node))
    }
}

impl<'n> Fields<'n> {
    /// The members of a mapping with any keys.
    pub(super) fn open(node: &'n Node, name: &str) -> Result<Self, Problem> {
        match &node.tree {
            Tree::Dict(entries) => Ok(Fields { prefix: format!("{name}."), line: node.line, entries }),
            _ => Err(Problem::in_field(node.line, name, format!("must be a mapping, not {}", node.kind()))),
        }
    }
}
