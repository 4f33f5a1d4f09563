//! Converts ShareGPT's raw dump to the conversation list of multi-turn benchmarks, like vLLM's converter but with the
//! parts of a conversation in order, a language test only on request, and no unanswered questions.

use std::path::Path;

use serde::Serialize;
use serde_json::ser::{PrettyFormatter, Serializer};
use tacho_core::json::{self, Dict};
use tacho_pyrand::Random;

use super::error::{Location, TraceError};
use super::{generate::Conversation, row::Row};
use crate::sources::read_text;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DumpSpec {
    /// Seed of order and sample.
    pub seed: u64,
    pub max_items: Option<usize>,
    pub min_turns: Option<usize>,
    /// Maximum number of messages; conversations are truncated.
    pub max_turns: Option<usize>,
    /// Minimum characters of a message; 0 means no limit.
    pub min_content_len: Option<usize>,
    /// Maximum characters of a message; 0 means no limit.
    pub max_content_len: Option<usize>,
    pub language: Language,
    /// Whether to match vLLM's script: parts in any order, an inverted language test, unanswered questions at the end.
    pub as_upstream: bool,
}

tacho_core::named! {
    #[derive(Default)]
    pub enum Language {
        #[default]
        Any = "any",
        Ascii = "ascii",
        /// Only messages with non-ASCII characters.
        NonAscii = "non-ascii",
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Converted {
    pub items: usize,
    pub unique: usize,
    /// Conversations that pass all tests, before sampling.
    pub passed: Vec<Conversation>,
    /// The sample, if there were too many.
    pub sampled: Option<Vec<Conversation>>,
}

impl Converted {
    pub fn conversations(&self) -> &[Conversation] {
        self.sampled.as_ref().unwrap_or(&self.passed)
    }
}

struct Part<'d> {
    conversation: String,
    number: String,
    messages: Vec<(&'d str, &'d str)>,
}

/// Converts a dump. Errors name the item and the invalid field; an empty result is an error too.
pub fn convert_dump(path: &Path, spec: &DumpSpec) -> Result<Converted, TraceError> {
    let location = || Location::file(path);
    let text = read_text(path).map_err(Box::new)?;
    let value = json::parse(&text).map_err(|source| TraceError::NotJson { location: location(), source })?;
    let not_a_list = || TraceError::Graph { location: location(), problem: "must be a list of objects".into() };
    let items = value.as_list().ok_or_else(not_a_list)?;
    let mut parts = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        let dict: &Dict = item.as_dict().ok_or_else(not_a_list)?;
        parts.push(part(&Row { path, line: None, prefix: format!("[{index}]."), dict })?);
    }
    let mut random = Random::new(spec.seed);
    random.shuffle(&mut parts);
    let mut groups: Vec<(String, Vec<Part<'_>>)> = Vec::new();
    let mut positions = std::collections::HashMap::new();
    for part in parts {
        let at = *positions.entry(part.conversation.clone()).or_insert_with(|| {
            groups.push((part.conversation.clone(), Vec::new()));
            groups.len() - 1
        });
        groups[at].1.push(part);
    }
    let unique = groups.len();
    let mut passed = Vec::new();
    for (id, mut parts) in groups {
        if !spec.as_upstream {
            parts.sort_by_key(|part| part.number.parse::<u64>().unwrap_or(u64::MAX));
        }
        let messages = spec.messages(&merged(&parts)).map_err(|problem| TraceError::Graph {
            location: location(),
            problem: format!("conversation {id:?}: {problem}"),
        })?;
        passed.extend(messages.map(|messages| Conversation { id, messages }));
    }
    let sampled = spec.max_items.filter(|&wanted| wanted > 0 && passed.len() > wanted).map(|wanted| {
        random.sample_indices(passed.len(), wanted).into_iter().map(|at| passed[at].clone()).collect::<Vec<_>>()
    });
    if passed.is_empty() {
        return Err(TraceError::Graph {
            location: location(),
            problem: "no conversation is left after the tests".into(),
        });
    }
    Ok(Converted { items: items.len(), unique, passed, sampled })
}

fn part<'d>(row: &Row<'d>) -> Result<Part<'d>, TraceError> {
    let id = row.need("id", Row::text)?;
    let pieces: Vec<&str> = id.split('_').collect();
    let [conversation, number] = pieces[..] else {
        return Err(row.wrong("id", format!("{id:?} must be a conversation and a part with one _ between")));
    };
    let mut messages = Vec::new();
    for message in row.need("conversations", Row::rows)? {
        let from = message.need("from", Row::text)?;
        messages.push((from, message.need("value", Row::text)?));
    }
    Ok(Part { conversation: conversation.to_owned(), number: number.to_owned(), messages })
}

/// Joins the parts; a part that begins with the last speaker loses its first message.
fn merged<'d>(parts: &[Part<'d>]) -> Vec<(&'d str, &'d str)> {
    let mut all: Vec<(&str, &str)> = Vec::new();
    for part in parts {
        let again = match (all.last(), part.messages.first()) {
            (Some(last), Some(first)) => last.0 == first.0,
            _ => false,
        };
        all.extend(part.messages.iter().skip(usize::from(again)));
    }
    all
}

impl DumpSpec {
    /// The kept messages; `None` if the conversation is dropped.
    fn messages(&self, merged: &[(&str, &str)]) -> Result<Option<Vec<String>>, String> {
        if self.min_turns.is_some_and(|min| min > 0 && merged.len() < min) {
            return Ok(None);
        }
        let mut roles = Vec::new();
        let mut texts = Vec::new();
        for (index, (from, text)) in merged.iter().enumerate() {
            if self.max_turns.is_some_and(|max| index >= max) {
                break;
            }
            let role = role(from).ok_or_else(|| format!("{from:?} is not a known role"))?;
            if index == 0 && role != "user" {
                continue;
            }
            roles.push(role);
            texts.push((*text).to_owned());
        }
        let in_turn =
            roles.iter().enumerate().all(|(at, role)| *role == if at % 2 == 0 { "user" } else { "assistant" });
        if !in_turn || texts.is_empty() || !texts.iter().all(|text| self.fits(text)) {
            return Ok(None);
        }
        if !self.as_upstream && texts.len() % 2 == 1 {
            texts.pop();
        }
        Ok(Some(texts).filter(|texts| !texts.is_empty()))
    }

    fn fits(&self, text: &str) -> bool {
        let length = text.chars().count();
        let language = match self.language {
            _ if self.as_upstream => !text.is_ascii(),
            Language::Any => true,
            Language::Ascii => text.is_ascii(),
            Language::NonAscii => !text.is_ascii(),
        };
        let min = self.min_content_len.filter(|min| *min > 0);
        let max = self.max_content_len.filter(|max| *max > 0);
        language && min.is_none_or(|min| length >= min) && max.is_none_or(|max| length <= max)
    }
}

fn role(from: &str) -> Option<&'static str> {
    match from {
        "human" | "user" => Some("user"),
        "gpt" | "bing" | "chatgpt" | "bard" => Some("assistant"),
        "system" => Some("system"),
        _ => None,
    }
}

/// Serializes the list with this indent; non-ASCII characters are kept, as with Python's `ensure_ascii=False`.
pub fn conversations_text(conversations: &[Conversation], indent: usize) -> String {
    let reread = |one: &Conversation| serde_json::from_str(&json::dumps(&one.to_json())).expect("JSON can be read");
    let list: Vec<serde_json::Value> = conversations.iter().map(reread).collect();
    let (mut out, indent) = (Vec::new(), " ".repeat(indent));
    let formatter = PrettyFormatter::with_indent(indent.as_bytes());
    list.serialize(&mut Serializer::with_formatter(&mut out, formatter)).expect("a list of bytes takes all");
    String::from_utf8(out).expect("JSON is text")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Converts a dump of items: an ID, and speakers with their texts.
    fn convert(items: &[(&str, &[(&str, &str)])], spec: &DumpSpec) -> Result<Converted, TraceError> {
        let item = |(id, messages): &(&str, &[(&str, &str)])| {
            let message = |(from, value): &(&str, &str)| format!(r#"{{"from": "{from}", "value": "{value}"}}"#);
            let messages: Vec<String> = messages.iter().map(message).collect();
            format!(r#"{{"id": "{id}", "conversations": [{}]}}"#, messages.join(", "))
        };
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("dump.json");
        let items: Vec<String> = items.iter().map(item).collect();
        std::fs::write(&path, format!("[{}]", items.join(", "))).unwrap();
        convert_dump(&path, spec)
    }

    fn texts(converted: &Converted) -> Vec<Vec<String>> {
        let mut all: Vec<&Conversation> = converted.conversations().iter().collect();
        all.sort_by(|left, right| left.id.cmp(&right.id));
        all.into_iter().map(|one| one.messages.clone()).collect()
    }

    const ONE: &[(&str, &str)] = &[("human", "a"), ("gpt", "b")];
    const TWO: &[(&str, &str)] = &[("gpt", "again"), ("human", "c"), ("gpt", "d"), ("human", "unanswered")];

    #[test]
    fn parts_are_joined_in_their_order_without_the_repeated_message() {
        for seed in 0..4 {
            let spec = DumpSpec { seed, ..DumpSpec::default() };
            let converted = convert(&[("x_10", TWO), ("x_9", ONE)], &spec).unwrap();
            assert_eq!((converted.items, converted.unique), (2, 1));
            assert_eq!(texts(&converted), [["a", "b", "c", "d"]], "seed {seed}");
        }
    }

    #[test]
    fn conversations_are_cut_and_dropped_by_the_limits() {
        let dump: &[(&str, &[(&str, &str)])] = &[("x_0", ONE), ("y_0", &[("user", "\u{e9}"), ("bing", "longer")])];
        let kept = |spec: DumpSpec| convert(dump, &spec).map(|converted| texts(&converted));
        assert_eq!(kept(DumpSpec::default()).unwrap().len(), 2);
        let ascii = DumpSpec { language: Language::Ascii, ..DumpSpec::default() };
        assert_eq!(kept(ascii).unwrap(), [["a", "b"]]);
        let short = DumpSpec { max_content_len: Some(1), ..DumpSpec::default() };
        assert_eq!(kept(short).unwrap(), [["a", "b"]]);
        // A limit of 0 means unlimited.
        let unlimited = DumpSpec { min_turns: Some(0), min_content_len: Some(0), ..DumpSpec::default() };
        assert_eq!(kept(unlimited).unwrap().len(), 2);
        assert_eq!(kept(DumpSpec { max_items: Some(1), ..DumpSpec::default() }).unwrap().len(), 1);
        assert!(matches!(kept(DumpSpec { min_turns: Some(3), ..DumpSpec::default() }), Err(TraceError::Graph { .. })));
        // One message is an unanswered question; vLLM's script keeps it.
        let one = DumpSpec { max_turns: Some(1), ..DumpSpec::default() };
        assert!(kept(one.clone()).is_err());
        assert_eq!(kept(DumpSpec { as_upstream: true, ..one }).unwrap(), [["\u{e9}"]]);
    }

    #[test]
    fn speakers_that_do_not_alternate_are_dropped_and_unknown_ones_refused() {
        let twice: &[(&str, &str)] = &[("human", "a"), ("human", "b"), ("gpt", "c")];
        assert_eq!(convert(&[("x_0", twice), ("y_0", ONE)], &DumpSpec::default()).unwrap().passed.len(), 1);
        assert!(convert(&[("x_0", &[("parrot", "a")])], &DumpSpec::default()).is_err());
        assert!(convert(&[("without-a-part", ONE)], &DumpSpec::default()).is_err());
    }

    #[test]
    fn the_list_is_written_with_its_characters() {
        let one = Conversation { id: "x".into(), messages: vec!["\u{e9}\n".into(), "b".into()] };
        let text = conversations_text(std::slice::from_ref(&one), 2);
        assert!(text.starts_with("[\n  {\n    \"id\": \"x\"") && text.contains("\u{e9}\\n"), "{text}");
        assert_eq!(json::parse(&text).unwrap(), json::Value::List(vec![one.to_json()]));
    }
}
