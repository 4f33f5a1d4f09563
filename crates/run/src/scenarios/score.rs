//! Validity of a response: vLLM's loose score, and a strict check.

use std::collections::HashMap;

use regex::Regex;
use tacho_core::json::{Value, dumps, parse};
use tacho_metrics::structured::Verdict;
use tacho_workload::scenarios::ConstraintKind;

use super::{grammar::Grammar, schema::Schema};

pub(crate) enum Constraint {
    Schema(Schema),
    /// vLLM checks only the beginning of a text; a valid one matches as a whole.
    Pattern {
        start: Regex,
        whole: Regex,
    },
    Grammar(Grammar),
    Choice(Vec<String>),
}

impl Constraint {
    /// `None` if it cannot be evaluated. A schema may be given as text.
    pub(crate) fn read(kind: ConstraintKind, value: &Value) -> Option<Self> {
        let text = value.as_str().unwrap_or_default();
        let pattern = |end: &str| Regex::new(&format!("^(?:{text}){end}")).ok();
        Some(match kind {
            ConstraintKind::Json => Constraint::Schema(Schema::compile(match value {
                Value::Str(text) => parse(text).ok()?,
                other => other.clone(),
            })?),
            ConstraintKind::Regex => Constraint::Pattern { start: pattern("")?, whole: pattern("$")? },
            ConstraintKind::Grammar => Constraint::Grammar(Grammar::read(text)?),
            ConstraintKind::Choice => {
                let choices = value.as_list().unwrap_or_default().iter().filter_map(Value::as_str);
                Constraint::Choice(choices.map(str::to_owned).collect())
            }
        })
    }

    /// Whether a text satisfies it; `None` if that is unknown.
    pub(crate) fn accepts(&self, text: &str) -> Option<bool> {
        match self {
            Constraint::Schema(schema) => strict(text.trim()).map_or(Some(false), |document| schema.accepts(&document)),
            Constraint::Pattern { whole, .. } => Some(whole.is_match(text)),
            Constraint::Grammar(grammar) => Some(grammar.accepts(text)),
            Constraint::Choice(choices) => Some(choices.iter().any(|choice| choice == text)),
        }
    }
}

/// Judges responses; constraints are compiled once.
#[derive(Default)]
pub(super) struct Judge {
    known: HashMap<String, Option<Constraint>>,
}

impl Judge {
    pub(super) fn verdict(&mut self, kind: ConstraintKind, value: &Value, text: &str) -> Verdict {
        let known = self.known.entry(dumps(value)).or_insert_with(|| Constraint::read(kind, value)).as_ref();
        let obeys = known.and_then(|constraint| constraint.accepts(text));
        let parses = (kind == ConstraintKind::Json).then(|| strict(text.trim()).is_some());
        let loose = match (kind, known) {
            (ConstraintKind::Json, _) => Some(loosely_json(text)),
            (_, Some(Constraint::Pattern { start, .. })) => Some(start.is_match(text)),
            // vLLM has no score for grammars.
            (ConstraintKind::Choice, _) => obeys,
            _ => None,
        };
        Verdict { loose, parses, obeys: if parses == Some(false) { Some(false) } else { obeys } }
    }
}

/// A document by RFC 8259, without `NaN` and `Infinity`.
fn strict(text: &str) -> Option<Value> {
    fn is_finite(value: &Value) -> bool {
        match value {
            Value::Float(number) => number.is_finite(),
            Value::List(items) => items.iter().all(is_finite),
            Value::Dict(dict) => dict.iter().all(|(_, value)| is_finite(value)),
            _ => true,
        }
    }
    parse(text).ok().filter(is_finite)
}

/// vLLM's score: without whitespace, is there an object from the first brace to the last?
fn loosely_json(text: &str) -> bool {
    let text: String = text.chars().filter(|c| !matches!(c, '\n' | ' ')).collect();
    let object = text.find('{').and_then(|start| text.rfind('}').and_then(|end| text.get(start..=end)));
    object.is_some_and(|object| parse(object).is_ok())
}

#[cfg(test)]
mod tests {
    use tacho_testkit::golden_json;

    use super::*;

    #[test]
    fn the_loose_score_is_vllms() {
        for case in golden_json("scenarios/structured-output/scoring.json").as_array().unwrap() {
            let (kind, constraint) = match case["kind"].as_str().unwrap() {
                "json" => (ConstraintKind::Json, parse("{}").unwrap()),
                "regex" => (ConstraintKind::Regex, Value::from(r"\w+@\w+\.com\n")),
                "choice" => (ConstraintKind::Choice, parse(r#"["Positive", "Negative"]"#).unwrap()),
                _ => (ConstraintKind::Grammar, Value::Null),
            };
            for text in case["texts"].as_array().unwrap() {
                let generated = text["generated"].as_str().unwrap();
                let verdict = Judge::default().verdict(kind, &constraint, generated);
                assert_eq!(verdict.loose, text["correct"].as_bool(), "{kind:?} {generated:?}");
            }
        }
    }

    #[test]
    fn responses_are_checked_against_their_constraint() {
        let mut judge = Judge::default();
        let schema =
            parse(r#"{"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]}"#).unwrap();
        let mut json = |text: &str| {
            let verdict = judge.verdict(ConstraintKind::Json, &schema, text);
            (verdict.loose, verdict.parses, verdict.obeys)
        };
        assert_eq!(json(r#"{"age": 3}"#), (Some(true), Some(true), Some(true)));
        assert_eq!(json(r#"{"age": "3"}"#), (Some(true), Some(true), Some(false)));
        assert_eq!(json(r#"so: {"age": 3}"#), (Some(true), Some(false), Some(false)));
        assert_eq!(json(r#"{"age": NaN}"#), (Some(true), Some(false), Some(false)));
        assert_eq!(json("no"), (Some(false), Some(false), Some(false)));
        let pattern = Value::from(r"\w+@\w+\.com\n");
        let matched = Judge::default().verdict(ConstraintKind::Regex, &pattern, "a@b.com\nand more");
        assert_eq!((matched.loose, matched.obeys), (Some(true), Some(false)));
    }
}
