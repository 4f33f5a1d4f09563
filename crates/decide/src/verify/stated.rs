//! Compares what a result states with what its rows give.

use tacho_core::json::{Dict, Value};

use super::{Check, Finding};

/// Differences that are listed.
const SHOWN: usize = 5;

/// Compares a stated result with the recomputed one. With `whole`, keys must be the same; otherwise only those that both
/// have are compared. Numbers may differ by a relative `tolerance`.
pub fn differences(stated: &Dict, again: &Dict, whole: bool, tolerance: f64) -> Vec<Finding> {
    let mut found = Compared { whole, tolerance, all: Vec::new() };
    found.dicts("", stated, again);
    let more = found.all.len().saturating_sub(SHOWN);
    let mut findings: Vec<Finding> =
        found.all.into_iter().take(SHOWN).map(|text| Finding::invalid(Check::MetricsDiffer, text)).collect();
    if more > 0 {
        findings.push(Finding::invalid(Check::MetricsDiffer, format!("{more} more values differ")));
    }
    findings
}

struct Compared {
    whole: bool,
    tolerance: f64,
    all: Vec<String>,
}

impl Compared {
    fn dicts(&mut self, path: &str, stated: &Dict, again: &Dict) {
        let keys = stated.iter().map(|(key, _)| key);
        let added = again.iter().map(|(key, _)| key).filter(|key| stated.get(key).is_none());
        for key in keys.chain(added) {
            let key_path = if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
            match (stated.get(key), again.get(key)) {
                (Some(one), Some(other)) => self.values(&key_path, one, other),
                _ if !self.whole => {}
                (Some(_), None) => self.all.push(format!("{key_path} is stated, and rows and settings do not give it")),
                (None, _) => self.all.push(format!("{key_path} is missing in the result")),
            }
        }
    }

    fn values(&mut self, path: &str, stated: &Value, again: &Value) {
        match (stated, again) {
            (Value::Dict(one), Value::Dict(other)) => self.dicts(path, one, other),
            (Value::List(one), Value::List(other)) if one.len() == other.len() => {
                let pairs = one.iter().zip(other).enumerate();
                pairs.for_each(|(at, (one, other))| self.values(&format!("{path}[{at}]"), one, other));
            }
            (Value::List(one), Value::List(other)) => {
                self.all.push(format!("{path} has {} entries, and the rows give {}", one.len(), other.len()));
            }
            _ if is_equal(stated, again, self.tolerance) => {}
            _ => self.all.push(format!("{path} is stated as {}, and the rows give {}", shown(stated), shown(again))),
        }
    }
}

fn is_equal(one: &Value, other: &Value, tolerance: f64) -> bool {
    match (one.as_f64(), other.as_f64()) {
        (Some(one), Some(other)) => {
            one == other
                || (one.is_nan() && other.is_nan())
                || (one - other).abs() <= tolerance * one.abs().max(other.abs())
        }
        _ => one == other,
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::Str(text) => format!("{:?}", text.chars().take(60).collect::<String>()),
        Value::Dict(_) => "an object".to_owned(),
        Value::List(list) => format!("a list of {}", list.len()),
        other => tacho_core::json::dumps(other),
    }
}

/// The same setting by the places that state it; a finding if two differ.
pub fn settings_differ(what: &str, stated: &[(&str, Option<String>)]) -> Option<Finding> {
    let known: Vec<_> = stated.iter().filter_map(|(key_path, value)| Some((key_path, value.as_ref()?))).collect();
    let (first, one) = known.first()?;
    let (second, other) = known.iter().find(|(_, value)| value != one)?;
    Some(Finding::invalid(Check::SettingsDiffer, format!("{what} is {one} in {first}, and {other} in {second}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tacho_core::json::parse;

    fn compared(stated: &str, again: &str, whole: bool) -> Vec<String> {
        let dict = |text: &str| parse(text).unwrap().as_dict().unwrap().clone();
        let found = differences(&dict(stated), &dict(again), whole, 1e-6);
        found.into_iter().map(|finding| finding.text).collect()
    }

    #[test]
    fn an_edited_value_is_named_with_its_place() {
        let again = r#"{"a": 1.5, "b": {"c": [1, null], "d": "x"}, "e": 2}"#;
        assert!(compared(again, again, true).is_empty());
        let edited = compared(r#"{"a": 1.4, "b": {"c": [1, 2], "d": "y"}, "f": 1}"#, again, true);
        let expected = [
            "a is stated as 1.4, and the rows give 1.5",
            "b.c[1] is stated as 2, and the rows give null",
            "b.d is stated as \"y\", and the rows give \"x\"",
            "f is stated, and rows and settings do not give it",
            "e is missing in the result",
        ];
        assert_eq!(edited, expected);
        assert_eq!(compared(r#"{"a": 1.5000001, "f": 1}"#, again, false), Vec::<String>::new());
        assert_eq!(compared(r#"{"b": {"c": [1]}}"#, again, false), ["b.c has 1 entries, and the rows give 2"]);
        let many = format!("{{{}}}", (0..9).map(|at| format!("\"k{at}\": 1")).collect::<Vec<_>>().join(", "));
        assert_eq!(compared(&many, "{}", true).last().unwrap(), "4 more values differ");
    }

    #[test]
    fn places_that_disagree_are_named() {
        let of = |values: &[(&str, Option<&str>)]| {
            let values: Vec<_> = values.iter().map(|(key_path, value)| (*key_path, value.map(str::to_owned))).collect();
            settings_differ("the seed", &values).map(|finding| finding.text)
        };
        assert_eq!(of(&[("the log", Some("7")), ("the result", None), ("the plan", Some("7"))]), None);
        assert_eq!(
            of(&[("the log", Some("7")), ("the result", Some("8"))]).unwrap(),
            "the seed is 7 in the log, and 8 in the result"
        );
    }
}
