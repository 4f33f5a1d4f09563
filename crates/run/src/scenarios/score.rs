//! Validity of a response: vLLM's loose score, and a strict check.

use std::collections::HashMap;

use regex::Regex;
use tacho_core::json::{Value, dumps, parse};
use tacho_metrics::structured::Verdict;
use tacho_workload::scenarios::ConstraintKind;

use super::grammar::Grammar;
use super::schema::Schema;

/// Judges responses; constraints are compiled once.
#[derive(Default)]
pub(super) struct Judge {
    schemas: HashMap<String, Option<Schema>>,
    patterns: HashMap<String, Option<(Regex, Regex)>>,
    grammars: HashMap<String, Option<Grammar>>,
}

impl Judge {
    pub(super) fn verdict(&mut self, kind: ConstraintKind, constraint: &Value, text: &str) -> Verdict {
        match kind {
            ConstraintKind::Grammar => self.sentence(constraint.as_str().unwrap_or_default(), text),
            ConstraintKind::Choice => {
                let chosen = constraint.as_list().unwrap_or_default().iter().any(|item| item.as_str() == Some(text));
                Verdict { loose: Some(chosen), parses: None, obeys: Some(chosen) }
            }
            ConstraintKind::Regex => self.matched(constraint.as_str().unwrap_or_default(), text),
            ConstraintKind::Json => self.json(constraint, text),
        }
    }

    /// vLLM has no score for grammars. An invalid one is not judged.
    fn sentence(&mut self, rules: &str, text: &str) -> Verdict {
        let grammar = self.grammars.entry(rules.to_owned()).or_insert_with(|| Grammar::read(rules));
        Verdict { obeys: grammar.as_ref().map(|grammar| grammar.accepts(text)), ..Verdict::default() }
    }

    /// vLLM checks only the beginning; here the whole text must match.
    fn matched(&mut self, pattern: &str, text: &str) -> Verdict {
        let compile =
            || Some((Regex::new(&format!("^(?:{pattern})")).ok()?, Regex::new(&format!("^(?:{pattern})$")).ok()?));
        let compiled = self.patterns.entry(pattern.to_owned()).or_insert_with(compile);
        let Some((start, whole)) = compiled else { return Verdict::default() };
        Verdict { loose: Some(start.is_match(text)), parses: None, obeys: Some(whole.is_match(text)) }
    }

    fn json(&mut self, schema: &Value, text: &str) -> Verdict {
        let document = strict(text.trim());
        let obeys = match (&document, self.schema(schema)) {
            (None, _) => Some(false),
            (Some(document), Some(schema)) => schema.accepts(document),
            (Some(_), None) => None,
        };
        Verdict { loose: Some(loosely_json(text)), parses: Some(document.is_some()), obeys }
    }

    /// The compiled schema, which may be given as text; `None` if it cannot be evaluated.
    fn schema(&mut self, schema: &Value) -> Option<&Schema> {
        let text = schema.as_str().map_or_else(|| dumps(schema), str::to_owned);
        let compile = |text: &str| Schema::compile(parse(text).ok()?);
        self.schemas.entry(text.clone()).or_insert_with(|| compile(&text)).as_ref()
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
