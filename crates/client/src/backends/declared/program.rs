//! All selectors of a file as one tree of steps, so that an event is read once whatever their number. Reading builds
//! no JSON; it collects where the selected values are.

use std::ops::Range;

use super::path::Step;
use crate::backends::scan::{Cursor, Kind, NotJson, unescape, whole};

/// Selectors and conditions are bits of one number.
pub(super) const MAX: usize = 64;

#[derive(Debug, Clone)]
pub(super) struct Hit {
    pub(super) selector: u8,
    pub(super) kind: Kind,
    /// Position in the event; without the quotes for a string.
    pub(super) span: Range<usize>,
    /// Whether it is a string with escapes.
    pub(super) escaped: bool,
}

impl Hit {
    pub(super) fn is_truthy(&self, data: &[u8]) -> bool {
        let bytes = &data[self.span.clone()];
        match self.kind {
            Kind::Null | Kind::False => false,
            Kind::True => true,
            Kind::Text => !bytes.is_empty(),
            Kind::Number => Cursor::new(bytes).number().is_ok_and(|number| number != 0.0),
            Kind::List | Kind::Object => bytes.len() > 2 && !bytes[1..bytes.len() - 1].trim_ascii().is_empty(),
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) hits: Vec<Hit>,
    /// The conditions that are met, as bits.
    pub(super) met: u64,
    /// Whether the path of a text leads through a value of another kind.
    pub(super) mismatch: bool,
    scratch: Vec<u8>,
}

/// Values that a condition accepts: strings, or other values as they are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Accepted(pub(super) Vec<(bool, Vec<u8>)>);

#[derive(Debug, Default)]
pub(super) struct Program {
    nodes: Vec<Node>,
    conditions: Vec<(Vec<Step>, Accepted)>,
}

#[derive(Debug, Default)]
struct Node {
    keys: Vec<(Vec<u8>, usize)>,
    items: Vec<(usize, usize)>,
    each: Option<usize>,
    selectors: Vec<u8>,
    conditions: Vec<u8>,
    /// Whether it must be an object or a list, because an unconditional text is below.
    leads_to_text: bool,
}

impl Node {
    fn is_leaf(&self) -> bool {
        self.keys.is_empty() && self.items.is_empty() && self.each.is_none()
    }
}

impl Program {
    pub(super) fn new() -> Self {
        Program { nodes: vec![Node { leads_to_text: true, ..Node::default() }], conditions: Vec::new() }
    }

    /// Adds the path of a selector. The path of an unconditional text must exist as written.
    pub(super) fn add(&mut self, path: &[Step], selector: u8, strict: bool) {
        for node in self.positions(path, strict) {
            self.nodes[node].selectors.push(selector);
        }
    }

    /// Adds a condition; returns its bit, or `None` if there are too many.
    pub(super) fn condition(&mut self, path: &[Step], accepted: Accepted) -> Option<u64> {
        let same = |(known, values): &(Vec<Step>, Accepted)| known == path && *values == accepted;
        if let Some(at) = self.conditions.iter().position(same) {
            return Some(1 << at);
        }
        let number = self.conditions.len();
        if number >= MAX {
            return None;
        }
        for node in self.positions(path, false) {
            self.nodes[node].conditions.push(number as u8);
        }
        self.conditions.push((path.to_vec(), accepted));
        Some(1 << number)
    }

    /// The nodes at the end of a path; a number in a JSON Pointer leads to one for lists and one for objects.
    fn positions(&mut self, path: &[Step], strict: bool) -> Vec<usize> {
        let mut ends = vec![0];
        for step in path {
            let starts = std::mem::take(&mut ends);
            for start in starts {
                self.nodes[start].leads_to_text |= strict;
                match step {
                    Step::Key(name) => ends.push(self.member(start, name)),
                    Step::Index(index) => ends.push(self.item(start, *index)),
                    Step::Each => ends.push(self.every(start)),
                    Step::Either(index) => {
                        ends.push(self.item(start, *index));
                        ends.push(self.member(start, index.to_string().as_bytes()));
                    }
                }
            }
        }
        ends
    }

    fn member(&mut self, at: usize, name: &[u8]) -> usize {
        if let Some((_, next)) = self.nodes[at].keys.iter().find(|(known, _)| known == name) {
            return *next;
        }
        let next = self.push();
        self.nodes[at].keys.push((name.to_vec(), next));
        next
    }

    fn item(&mut self, at: usize, index: usize) -> usize {
        if let Some((_, next)) = self.nodes[at].items.iter().find(|(known, _)| *known == index) {
            return *next;
        }
        let next = self.push();
        self.nodes[at].items.push((index, next));
        next
    }

    fn every(&mut self, at: usize) -> usize {
        if let Some(next) = self.nodes[at].each {
            return next;
        }
        let next = self.push();
        self.nodes[at].each = Some(next);
        next
    }

    fn push(&mut self) -> usize {
        self.nodes.push(Node::default());
        self.nodes.len() - 1
    }

    /// Reads an event and validates all of it.
    pub(super) fn read(&self, data: &[u8], found: &mut Found) -> Result<(), NotJson> {
        found.hits.clear();
        (found.met, found.mismatch) = (0, false);
        whole(data, |cursor| self.walk(0, cursor, found))
    }

    fn walk(&self, at: usize, cursor: &mut Cursor<'_>, found: &mut Found) -> Result<(), NotJson> {
        let node = &self.nodes[at];
        let (start, kind) = (cursor.at, cursor.kind()?);
        let (span, escaped) = match kind {
            Kind::Text => {
                let text = cursor.text()?;
                (text.span, text.escaped)
            }
            Kind::Object if !node.keys.is_empty() => {
                cursor.members(|cursor, key| match node.keys.iter().find(|(known, _)| known == key) {
                    Some((_, next)) => self.walk(*next, cursor, found),
                    None => cursor.skip().map(drop),
                })?;
                (start..cursor.at, false)
            }
            Kind::List if !node.items.is_empty() || node.each.is_some() => {
                cursor.items(|cursor, index| self.item_at(node, index, cursor, found))?;
                (start..cursor.at, false)
            }
            _ => {
                cursor.skip()?;
                (start..cursor.at, false)
            }
        };
        let is_entered = matches!(kind, Kind::Object if !node.keys.is_empty())
            || matches!(kind, Kind::List if !node.items.is_empty() || node.each.is_some());
        found.mismatch |= node.leads_to_text && !node.is_leaf() && !is_entered && (kind != Kind::Null || at == 0);
        for &number in &node.conditions {
            let value = cursor.slice(span.clone());
            if self.conditions[usize::from(number)].1.has(value, kind, escaped, &mut found.scratch) {
                found.met |= 1 << number;
            }
        }
        let hit = |&selector| Hit { selector, kind, span: span.clone(), escaped };
        found.hits.extend(node.selectors.iter().map(hit));
        Ok(())
    }

    /// Reads an item, twice if it is selected both by its index and as one of all.
    fn item_at(&self, node: &Node, index: usize, cursor: &mut Cursor<'_>, found: &mut Found) -> Result<(), NotJson> {
        let own = node.items.iter().find(|(known, _)| *known == index).map(|(_, next)| *next);
        match (own, node.each) {
            (Some(own), Some(each)) => {
                let start = cursor.at;
                self.walk(own, cursor, found)?;
                cursor.at = start;
                self.walk(each, cursor, found)
            }
            (Some(next), None) | (None, Some(next)) => self.walk(next, cursor, found),
            (None, None) => cursor.skip().map(drop),
        }
    }
}

impl Accepted {
    fn has(&self, value: &[u8], kind: Kind, escaped: bool, scratch: &mut Vec<u8>) -> bool {
        let is_text = kind == Kind::Text;
        let value = if escaped {
            scratch.clear();
            unescape(value, scratch);
            &scratch[..]
        } else {
            value
        };
        self.0.iter().any(|(text, accepted)| *text == is_text && accepted == value)
    }
}

#[cfg(test)]
mod tests {
    use super::super::path;
    use super::*;

    fn found(paths: &[&str], data: &str) -> Vec<(u8, String)> {
        let mut program = Program::new();
        for (at, text) in paths.iter().enumerate() {
            program.add(&path::parse(text).unwrap(), at as u8, false);
        }
        let mut found = Found::default();
        program.read(data.as_bytes(), &mut found).unwrap();
        let text = |hit: &Hit| (hit.selector, data[hit.span.clone()].to_owned());
        let mut all: Vec<_> = found.hits.iter().map(text).collect();
        all.sort_by_key(|(selector, _)| *selector);
        all
    }

    #[test]
    fn one_pass_finds_all_selectors() {
        let data = r#"{"c": [{"d": {"t": "a"}}, {"d": {"t": "b"}}], "u": {"n": 3}, "x": {"0": true}}"#;
        let paths = ["c[0].d.t", "c[*].d.t", "u", "u.n", "/x/0", "/c/1/d/t", "missing.x"];
        let expected = [(0, "a"), (1, "a"), (1, "b"), (2, r#"{"n": 3}"#), (3, "3"), (4, "true"), (5, "b")];
        assert_eq!(found(&paths, data), expected.map(|(at, text)| (at, text.to_owned())));
        assert_eq!(found(&["$"], "[1]"), [(0, "[1]".to_owned())]);
    }

    #[test]
    fn conditions_compare_strings_and_other_values() {
        let mut program = Program::new();
        let path = path::parse("type").unwrap();
        let bit = program.condition(&path, Accepted(vec![(true, b"a/b".to_vec())])).unwrap();
        let other = program.condition(&path, Accepted(vec![(false, b"true".to_vec())])).unwrap();
        assert_eq!(program.condition(&path, Accepted(vec![(true, b"a/b".to_vec())])), Some(bit));
        let met = |data: &str| {
            let mut found = Found::default();
            program.read(data.as_bytes(), &mut found).unwrap();
            found.met
        };
        assert_eq!(met(r#"{"type": "a\/b"}"#), bit);
        assert_eq!((met(r#"{"type": true}"#), met(r#"{"type": "true"}"#), met("{}")), (other, 0, 0));
    }

    proptest::proptest! {
        #[test]
        fn never_panics(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200)) {
            let mut program = Program::new();
            program.add(&path::parse("a[*].b").unwrap(), 0, true);
            program.add(&path::parse("$").unwrap(), 1, true);
            let _ = program.read(&bytes, &mut Found::default());
        }
    }
}
