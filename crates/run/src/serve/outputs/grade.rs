//! `--grade`: whether an output has the answer of its dataset row. The rules follow the public harnesses that they are
//! named after.

use std::sync::LazyLock;

use regex::Regex;
use tacho_core::json::{Dict, Value, dumps, parse};
use tacho_workload::scenarios::ConstraintKind;

use crate::scenarios::Constraint;

tacho_core::named! {
    /// How an answer is found in an output and compared.
    pub enum GradeRule {
        /// The whole output, without white space around it.
        Exact = "exact",
        /// The last number.
        Numeric = "numeric",
        /// The letter of a choice, as MMLU-Pro's script finds it.
        Choice = "choice",
        /// The number after `####`, or the last one, as lm-evaluation-harness finds it in GSM8K.
        Gsm8k = "gsm8k",
        /// The last `\boxed{…}`, or the last whole number.
        Aime = "aime",
        /// The answer is a pattern that occurs in the output.
        Regex = "regex",
        /// The output is a JSON object with the fields of the answer.
        Json = "json",
        /// The output is a JSON document that the answer, a JSON Schema, accepts.
        Schema = "schema",
        /// The output is a sentence of the answer, a grammar in vLLM's EBNF.
        Grammar = "grammar",
    }
}

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the pattern is valid")
}

static NUMBER: LazyLock<Regex> = LazyLock::new(|| pattern(r"-?\$?[0-9][0-9,]*(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?"));
static MARKED: LazyLock<Regex> = LazyLock::new(|| pattern(r"#### ?(-?\$?[0-9.,]+)"));
/// In the order in which they are tried; of the last, the last match counts.
static CHOICES: LazyLock<[Regex; 3]> =
    LazyLock::new(|| [r"answer is \(?([A-J])\)?", r"(?s).*[aA]nswer:\s*\(?([A-J])\)?", r"\b([A-J])\b"].map(pattern));

impl GradeRule {
    /// What the rule needs of an answer, if this one does not have it.
    pub(super) fn missing(self, answer: &Value) -> Option<&'static str> {
        let text = text_of(answer);
        let (is_usable, needed) = match self {
            GradeRule::Exact | GradeRule::Aime => (true, ""),
            GradeRule::Numeric | GradeRule::Gsm8k => (last_number(&text).is_some(), "a number"),
            GradeRule::Choice => (letter(&text).is_some(), "a letter or an index from 0 to 9"),
            GradeRule::Regex => (Regex::new(&text).is_ok(), "a valid pattern"),
            GradeRule::Json => (answer_object(answer).is_some(), "a JSON object"),
            GradeRule::Schema => {
                (self.constraint(answer).is_some(), "a JSON Schema without references to other documents")
            }
            GradeRule::Grammar => (self.constraint(answer).is_some(), "a grammar"),
        };
        (!is_usable).then_some(needed)
    }

    /// The answer as a constraint of the output.
    fn constraint(self, answer: &Value) -> Option<Constraint> {
        let kind = if self == GradeRule::Grammar { ConstraintKind::Grammar } else { ConstraintKind::Json };
        Constraint::read(kind, answer)
    }

    /// Whether the output has the answer, which the rule can use.
    pub fn is_correct(self, output: &str, answer: &Value) -> bool {
        let text = text_of(answer);
        let same = |actual: Option<f64>, expected: Option<f64>| {
            actual
                .zip(expected)
                .is_some_and(|(actual, expected)| (actual - expected).abs() <= 1e-6 * expected.abs().max(1.0))
        };
        match self {
            GradeRule::Exact => output.trim() == text.trim(),
            GradeRule::Numeric => same(last_number(output), last_number(&text)),
            GradeRule::Gsm8k => {
                same(marked(output).or_else(|| last_number(output)), marked(&text).or(last_number(&text)))
            }
            GradeRule::Aime => match boxed(output) {
                Some(actual) => actual == text.trim() || same(last_number(actual), last_number(&text)),
                None => same(last_number(output), last_number(&text)),
            },
            GradeRule::Choice => choice(output).is_some_and(|actual| Some(actual) == letter(&text)),
            GradeRule::Regex => Regex::new(&text).is_ok_and(|pattern| pattern.is_match(output)),
            GradeRule::Schema | GradeRule::Grammar => {
                self.constraint(answer).is_some_and(|constraint| constraint.accepts(output) == Some(true))
            }
            GradeRule::Json => object(output).zip(answer_object(answer)).is_some_and(|(actual, expected)| {
                expected.iter().all(|(key, value)| actual.get(key).is_some_and(|actual| is_same(actual, value)))
            }),
        }
    }
}

fn text_of(answer: &Value) -> String {
    answer.as_str().map_or_else(|| dumps(answer), str::to_owned)
}

fn number(text: &str) -> Option<f64> {
    text.replace([',', '$'], "").trim_end_matches('.').parse().ok()
}

fn last_number(text: &str) -> Option<f64> {
    NUMBER.find_iter(text).last().and_then(|found| number(found.as_str()))
}

fn marked(text: &str) -> Option<f64> {
    MARKED.captures_iter(text).last().and_then(|found| number(&found[1]))
}

fn boxed(text: &str) -> Option<&str> {
    let rest = &text[text.rfind("\\boxed{")? + "\\boxed{".len()..];
    let mut depth = 1;
    let end = rest.char_indices().find(|(_, c)| {
        depth += i32::from(*c == '{') - i32::from(*c == '}');
        depth == 0
    });
    Some(rest[..end?.0].trim())
}

fn choice(output: &str) -> Option<char> {
    let found = CHOICES.iter().find_map(|pattern| pattern.captures_iter(output).last());
    found.and_then(|found| found[1].chars().next())
}

/// The letter of an answer: itself, or that of an index from 0.
fn letter(answer: &str) -> Option<char> {
    let answer = answer.trim().trim_matches(['(', ')', '.']);
    let by_index = answer.parse::<u8>().ok().filter(|index| *index < 10).map(|index| char::from(b'A' + index));
    by_index.or_else(|| answer.chars().next().filter(|_| answer.chars().count() == 1).map(|c| c.to_ascii_uppercase()))
}

/// The JSON object of an output, which may be inside other text.
fn object(output: &str) -> Option<Dict> {
    let inner = &output[output.find('{')?..=output.rfind('}')?];
    match parse(inner) {
        Ok(Value::Dict(dict)) => Some(dict),
        _ => None,
    }
}

fn answer_object(answer: &Value) -> Option<Dict> {
    answer.as_dict().cloned().or_else(|| object(answer.as_str()?))
}

/// Numbers are equal by value: 3 and 3.0.
fn is_same(actual: &Value, expected: &Value) -> bool {
    actual == expected || actual.as_f64().zip(expected.as_f64()).is_some_and(|(actual, expected)| actual == expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_a_rule_cannot_use_is_noticed() {
        let usable = [r#""Paris""#, "12", r#""C""#, r#""a+""#, r#"{"a": 1}"#, r#""x #### 3""#, r#""\\frac{1}{2}""#];
        let unusable = [
            (GradeRule::Numeric, r#""none""#),
            (GradeRule::Gsm8k, r#""He has some.""#),
            (GradeRule::Choice, r#""Paris""#),
            (GradeRule::Choice, "12"),
            (GradeRule::Regex, r#""(""#),
            (GradeRule::Json, r#""a""#),
            (GradeRule::Schema, r#"{"$ref": "http://example.com/s"}"#),
            (GradeRule::Grammar, r#""root ::= other""#),
        ];
        let missing = |rule: GradeRule, text: &str| rule.missing(&parse(text).unwrap());
        let fits = [
            GradeRule::Exact,
            GradeRule::Numeric,
            GradeRule::Choice,
            GradeRule::Regex,
            GradeRule::Json,
            GradeRule::Gsm8k,
            GradeRule::Aime,
        ];
        for (rule, answer) in fits.into_iter().zip(usable) {
            assert_eq!(missing(rule, answer), None, "{rule:?} {answer}");
        }
        for (rule, answer) in unusable {
            assert!(missing(rule, answer).is_some(), "{rule:?} {answer}");
        }
    }

    #[test]
    fn answers_are_found_as_the_harnesses_find_them() {
        let cases: [(GradeRule, &str, &str, bool); 25] = [
            (GradeRule::Exact, " Paris\n", r#""Paris""#, true),
            (GradeRule::Exact, "Paris.", r#""Paris""#, false),
            (GradeRule::Numeric, "It costs $1,234.50 in all.", "1234.5", true),
            (GradeRule::Numeric, "3 + 4 = 7", "8", false),
            (GradeRule::Numeric, "none", "8", false),
            (GradeRule::Gsm8k, "5 * 3 = 15\n#### 15", r#""He has 5 bags. #### 15""#, true),
            (GradeRule::Gsm8k, "so the total is 1,015.", r#""... #### 1015""#, true),
            (GradeRule::Gsm8k, "#### 15 and then 16", "\"#### 16\"", false),
            (GradeRule::Choice, "The answer is (C).", r#""C""#, true),
            (GradeRule::Choice, "A and B are wrong. Answer: D", r#""D""#, true),
            (GradeRule::Choice, "I would take B", "1", true),
            (GradeRule::Choice, "I would take B", r#""A""#, false),
            (GradeRule::Choice, "no idea", r#""A""#, false),
            (GradeRule::Aime, r"hence \boxed{204}.", "204", true),
            (GradeRule::Aime, r"\boxed{1} no, \boxed{\frac{1}{2}}", r#""\\frac{1}{2}""#, true),
            (GradeRule::Aime, "the answer is 204", r#""204""#, true),
            (GradeRule::Aime, r"\boxed{20} 204", "204", false),
            (GradeRule::Regex, "in 1969, on July 20", r#""July\\s+20""#, true),
            (GradeRule::Json, "```json\n{\"a\": 3.0, \"b\": [1], \"c\": 0}\n```", r#"{"a": 3, "b": [1]}"#, true),
            (GradeRule::Json, "{\"a\": 3}", r#"{"a": 3, "b": 1}"#, false),
            (GradeRule::Json, "not JSON", r#"{"a": 3}"#, false),
            (GradeRule::Schema, " {\"a\": 3}\n", r#"{"required": ["a"], "type": "object"}"#, true),
            (GradeRule::Schema, "{\"b\": 3}", r#"{"required": ["a"], "type": "object"}"#, false),
            (GradeRule::Grammar, "aab", r#""root ::= \"a\"+ \"b\"""#, true),
            (GradeRule::Grammar, "ab?", r#""root ::= \"a\"+ \"b\"""#, false),
        ];
        for (rule, output, answer, correct) in cases {
            assert_eq!(rule.is_correct(output, &parse(answer).unwrap()), correct, "{rule:?} {output} {answer}");
        }
    }
}
