//! Parser for the EBNF grammars of vLLM (`root ::= "a" rule | [0-9]+`): checks whether a text is a sentence.
//! Independent of the simulator's generator, so that the two cannot share a bug.

use std::collections::{BTreeSet, HashMap};
use std::{cell::RefCell, iter::Peekable, str::Chars};

/// The right side of a rule, or a part of it.
#[derive(Debug, Clone)]
enum Part {
    Text(String),
    /// A set of characters given by ranges, or its complement.
    Class {
        ranges: Vec<(char, char)>,
        other: bool,
    },
    Rule(String),
    Row(Vec<Part>),
    Either(Vec<Part>),
    Repeated {
        part: Box<Part>,
        min: usize,
        max: Option<usize>,
    },
}

#[derive(Debug)]
pub(crate) struct Grammar {
    rules: HashMap<String, Part>,
}

type Memo = RefCell<HashMap<(String, usize), Option<BTreeSet<usize>>>>;

impl Grammar {
    /// Parses rules; `None` if they are invalid or one of them is missing.
    pub(super) fn read(text: &str) -> Option<Self> {
        let mut rules = HashMap::new();
        for rule in rules_of(text) {
            let (name, right) = rule.split_once("::=")?;
            let mut chars = right.chars().peekable();
            let part = either(&mut chars)?;
            chars.next().is_none().then_some(())?;
            rules.insert(name.trim().to_owned(), part);
        }
        let grammar = Grammar { rules };
        let whole = grammar.rules.contains_key("root") && grammar.rules.values().all(|part| grammar.has_all(part));
        whole.then_some(grammar)
    }

    pub(super) fn accepts(&self, text: &str) -> bool {
        let chars: Vec<char> = text.chars().collect();
        let known = Memo::default();
        self.rule("root", &chars, 0, &known).contains(&chars.len())
    }

    fn has_all(&self, part: &Part) -> bool {
        match part {
            Part::Rule(name) => self.rules.contains_key(name),
            Part::Row(parts) | Part::Either(parts) => parts.iter().all(|part| self.has_all(part)),
            Part::Repeated { part, .. } => self.has_all(part),
            Part::Text(_) | Part::Class { .. } => true,
        }
    }

    /// The positions at which a sentence of a rule that starts at `at` can end. Left recursion finds the sentences
    /// without it.
    fn rule(&self, name: &str, text: &[char], at: usize, known: &Memo) -> BTreeSet<usize> {
        let key = (name.to_owned(), at);
        if let Some(found) = known.borrow().get(&key) {
            return found.clone().unwrap_or_default();
        }
        known.borrow_mut().insert(key.clone(), None);
        let ends = self.rules.get(name).map(|part| self.ends(part, text, at, known)).unwrap_or_default();
        known.borrow_mut().insert(key, Some(ends.clone()));
        ends
    }

    fn ends(&self, part: &Part, text: &[char], at: usize, known: &Memo) -> BTreeSet<usize> {
        match part {
            Part::Text(wanted) => {
                let wanted: Vec<char> = wanted.chars().collect();
                text[at..].starts_with(&wanted).then_some(at + wanted.len()).into_iter().collect()
            }
            Part::Class { ranges, other } => {
                let inside = |c: &char| ranges.iter().any(|(first, last)| (first..=last).contains(&c)) != *other;
                text.get(at).filter(|c| inside(c)).map(|_| at + 1).into_iter().collect()
            }
            Part::Rule(name) => self.rule(name, text, at, known),
            Part::Either(parts) => parts.iter().flat_map(|part| self.ends(part, text, at, known)).collect(),
            Part::Row(parts) => parts.iter().fold(BTreeSet::from([at]), |starts, part| {
                starts.into_iter().flat_map(|start| self.ends(part, text, start, known)).collect()
            }),
            Part::Repeated { part, min, max } => self.repeated(part, (*min, *max), text, at, known),
        }
    }

    fn repeated(
        &self,
        part: &Part,
        (min, max): (usize, Option<usize>),
        text: &[char],
        at: usize,
        known: &Memo,
    ) -> BTreeSet<usize> {
        let mut ends = if min == 0 { BTreeSet::from([at]) } else { BTreeSet::new() };
        let (mut starts, mut round) = (BTreeSet::from([at]), 0);
        while !starts.is_empty() && max.is_none_or(|max| round < max) {
            round += 1;
            let next: BTreeSet<usize> = starts.iter().flat_map(|start| self.ends(part, text, *start, known)).collect();
            // Once there are enough repetitions, positions that were reached before add nothing new.
            starts = if round > min { next.difference(&ends).copied().collect() } else { next };
            if round >= min {
                ends.extend(&starts);
            }
        }
        ends
    }
}

/// The texts of the rules: each starts on a line with `::=` and may continue below.
fn rules_of(text: &str) -> Vec<String> {
    let mut rules: Vec<String> = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match rules.last_mut() {
            Some(rule) if !line.contains("::=") => *rule += &format!(" {line}"),
            _ => rules.push(line.to_owned()),
        }
    }
    rules
}

fn either(chars: &mut Peekable<Chars<'_>>) -> Option<Part> {
    let mut parts = vec![row(chars)?];
    while chars.next_if_eq(&'|').is_some() {
        parts.push(row(chars)?);
    }
    Some(if parts.len() == 1 { parts.remove(0) } else { Part::Either(parts) })
}

fn row(chars: &mut Peekable<Chars<'_>>) -> Option<Part> {
    let mut parts = Vec::new();
    loop {
        while chars.next_if(|c| c.is_whitespace()).is_some() {}
        match chars.peek() {
            None | Some('|' | ')') => return Some(Part::Row(parts)),
            Some(_) => {
                let part = single(chars)?;
                parts.push(counted(part, chars)?);
            }
        }
    }
}

/// Repetitions of a part, by the operator after it.
fn counted(part: Part, chars: &mut Peekable<Chars<'_>>) -> Option<Part> {
    let (min, max) = match chars.peek() {
        Some('*') => (0, None),
        Some('+') => (1, None),
        Some('?') => (0, Some(1)),
        Some('{') => {
            let inside: String = chars.by_ref().skip(1).take_while(|c| *c != '}').collect();
            let (min, max) = inside.split_once(',').unwrap_or((&inside, &inside));
            let max = max.trim();
            let max = if max.is_empty() { None } else { Some(max.parse().ok()?) };
            return Some(Part::Repeated { part: Box::new(part), min: min.trim().parse().ok()?, max });
        }
        _ => return Some(part),
    };
    chars.next();
    Some(Part::Repeated { part: Box::new(part), min, max })
}

fn single(chars: &mut Peekable<Chars<'_>>) -> Option<Part> {
    match chars.next()? {
        '"' => {
            let mut text = String::new();
            loop {
                match chars.next()? {
                    '"' => return Some(Part::Text(text)),
                    '\\' => text.push(escaped(chars)?),
                    c => text.push(c),
                }
            }
        }
        '[' => class(chars),
        '(' => {
            let inside = either(chars)?;
            chars.next_if_eq(&')').map(|_| inside)
        }
        first if first.is_alphanumeric() || first == '_' => {
            let mut name = String::from(first);
            while let Some(c) = chars.next_if(|c| c.is_alphanumeric() || matches!(c, '_' | '-')) {
                name.push(c);
            }
            Some(Part::Rule(name))
        }
        _ => None,
    }
}

fn class(chars: &mut Peekable<Chars<'_>>) -> Option<Part> {
    let other = chars.next_if_eq(&'^').is_some();
    let mut ranges = Vec::new();
    loop {
        let first = match chars.next()? {
            ']' => return Some(Part::Class { ranges, other }),
            '\\' => escaped(chars)?,
            c => c,
        };
        let mut last = first;
        if chars.peek() == Some(&'-') {
            chars.next();
            last = match chars.next()? {
                // A dash at the end is literal.
                ']' => {
                    ranges.extend([(first, first), ('-', '-')]);
                    return Some(Part::Class { ranges, other });
                }
                '\\' => escaped(chars)?,
                c => c,
            };
        }
        ranges.push((first, last));
    }
}

fn escaped(chars: &mut Peekable<Chars<'_>>) -> Option<char> {
    let digits = |chars: &mut Peekable<Chars<'_>>, count: usize| {
        let text: String = chars.by_ref().take(count).collect();
        u32::from_str_radix(&text, 16).ok().and_then(char::from_u32)
    };
    match chars.next()? {
        'n' => Some('\n'),
        't' => Some('\t'),
        'r' => Some('\r'),
        'x' => digits(chars, 2),
        'u' => digits(chars, 4),
        c => Some(c),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepts(grammar: &str, text: &str) -> Option<bool> {
        Grammar::read(grammar).map(|grammar| grammar.accepts(text))
    }

    #[test]
    fn sentences_are_distinguished_from_other_texts() {
        let sql = "\n  root ::= \"SELECT \" column \" from \" table\n\n  column ::= \"a \" | \"b \"\n  table ::= [a-c_]+ \n | \"x-\" [^0-9]\n";
        for (text, right) in [
            ("SELECT a  from abc", true),
            ("SELECT b  from a_c", true),
            ("SELECT b  from x-y", true),
            ("SELECT b  from x-9", false),
            ("SELECT a from abc", false),
            ("SELECT a  from abc ", false),
            ("select a  from abc", false),
            ("", false),
        ] {
            assert_eq!(accepts(sql, text), Some(right), "{text}");
        }
    }

    #[test]
    fn groups_counts_and_nesting_are_understood() {
        let nested = "root ::= \"(\" root \")\" | \"\"";
        assert_eq!((accepts(nested, "((()))"), accepts(nested, "(()")), (Some(true), Some(false)));
        let counted = "root ::= (\"a\" | \"b\"){2,3} \"\\n\"? [0-9]*";
        for (text, right) in [("ab", true), ("aba\n12", true), ("a", false), ("abab", false), ("ab1\n", false)] {
            assert_eq!(accepts(counted, text), Some(right), "{text:?}");
        }
    }

    #[test]
    fn a_rule_that_may_be_empty_forever_ends() {
        assert_eq!(accepts("root ::= (\"a\"*)* \"b\"", "aaab"), Some(true));
        assert_eq!(accepts("root ::= (\"a\"*)* \"b\"", "aaa"), Some(false));
        assert_eq!(accepts("root ::= \"\"+", ""), Some(true));
    }

    #[test]
    fn invalid_grammars_are_not_judged() {
        for text in
            ["", "root = x", "root ::= missing", "root ::= \"open", "root ::= (\"a\"", "root ::= [a", "other ::= \"a\""]
        {
            assert_eq!(accepts(text, "a"), None, "{text}");
        }
    }
}
