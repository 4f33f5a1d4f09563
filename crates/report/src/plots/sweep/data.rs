//! The records of a sweep, with filters and binning.

use std::path::{Path, PathBuf};

pub use tacho_core::json::python_str as python_text;
use tacho_core::json::{Dict, Value};

use crate::{Error, results};

/// All runs of one combination of parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct Combination {
    pub path: PathBuf,
    pub runs: Vec<Dict>,
}

pub fn read_sweep(directory: &Path) -> Result<Vec<Combination>, Error> {
    if !directory.is_dir() {
        return Err(Error::NoSweep { path: directory.to_owned() });
    }
    let mut combinations = Vec::new();
    for path in results::files_below(directory, "summary.json")? {
        let mut runs = results::read(&path)?;
        runs.iter_mut().for_each(numbers_for_words);
        combinations.push(Combination { path, runs });
    }
    combinations.sort_by_key(|combination| natural(&combination.path.to_string_lossy()));
    if combinations.is_empty() {
        return Err(Error::NoSweep { path: directory.to_owned() });
    }
    Ok(combinations)
}

/// Strings that stand for numbers which JSON cannot represent.
fn numbers_for_words(run: &mut Dict) {
    let words: Vec<(String, f64)> = run
        .iter()
        .filter_map(|(key, value)| {
            let number = match value.as_str()? {
                "inf" => f64::INFINITY,
                "-inf" => f64::NEG_INFINITY,
                "nan" => f64::NAN,
                _ => return None,
            };
            Some((key.to_owned(), number))
        })
        .collect();
    words.into_iter().for_each(|(key, number)| run.set(key, number));
}

/// A text as a natural sort key: numbers by value.
pub(super) fn natural(text: &str) -> Vec<(u64, String)> {
    let mut parts = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let words = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let digits = rest[words..].find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len() - words);
        // Words before numbers, and words in alphabetical order.
        parts.push((0, rest[..words].to_owned()));
        if digits > 0 {
            parts.push((rest[words..words + digits].parse().unwrap_or(u64::MAX), String::new()));
        }
        rest = &rest[words + digits..];
    }
    parts
}

/// A comparison, and its name in vLLM.
type Operator = (&'static str, fn(f64, f64) -> bool, &'static str);

/// In the order of matching: the longer ones first.
const OPERATORS: [Operator; 6] = [
    ("==", |value, target| value == target, "PlotEqualTo"),
    ("!=", |value, target| value != target, "PlotNotEqualTo"),
    ("<=", |value, target| value <= target, "PlotLessThanOrEqualTo"),
    (">=", |value, target| value >= target, "PlotGreaterThanOrEqualTo"),
    ("<", |value, target| value < target, "PlotLessThan"),
    (">", |value, target| value > target, "PlotGreaterThan"),
];

#[derive(Debug, Clone, PartialEq)]
pub struct Filter {
    variable: String,
    /// Index into the operators.
    operator: usize,
    target: String,
}

impl Filter {
    pub fn parse(text: &str) -> Result<Self, Error> {
        let wrong = |problem: String| Error::PlotRule { problem };
        let Some(operator) = OPERATORS.iter().position(|(sign, ..)| text.contains(sign)) else {
            return Err(wrong(format!(
                "Invalid operator for plot filter '{text}'. Valid operators are: ['!=', '<', '<=', '==', '>', '>=']"
            )));
        };
        let sign = OPERATORS[operator].0;
        let parts: Vec<&str> = text.split(sign).collect();
        let [variable, target] = parts[..] else {
            return Err(wrong(format!("the plot filter '{text}' has more than one {sign}: write KEY{sign}VALUE")));
        };
        let target = target.trim_matches('\'').trim_matches('"').to_owned();
        let filter = Filter { variable: variable.to_owned(), operator, target };
        if !["==", "!="].contains(&sign) && filter.number().is_none() {
            return Err(wrong(format!("the plot filter '{text}' needs a number after {sign}")));
        }
        Ok(filter)
    }

    fn number(&self) -> Option<f64> {
        self.target.trim().parse().ok()
    }

    /// Returns whether the record passes; an error if it lacks the variable.
    pub(super) fn holds(&self, record: &Dict) -> Result<bool, Error> {
        let value = variable(record, &self.variable, "filter")?;
        let (sign, holds, _) = OPERATORS[self.operator];
        let Some(target) = self.number() else {
            return Ok((python_text(value) == self.target) == (sign == "=="));
        };
        Ok(value.as_f64().map_or(sign == "!=", |value| holds(value, target)))
    }

    /// As vLLM prints it.
    pub fn describe(&self) -> String {
        format!("{}(var='{}', target='{}')", OPERATORS[self.operator].2, self.variable, self.target)
    }
}

/// Rounds a variable down to a multiple.
#[derive(Debug, Clone, PartialEq)]
pub struct Binner {
    variable: String,
    size: f64,
}

impl Binner {
    pub fn parse(text: &str) -> Result<Self, Error> {
        let wrong = |problem: String| Error::PlotRule { problem };
        let (variable, size) = text
            .split_once('%')
            .ok_or_else(|| wrong(format!("Invalid operator for plot binner '{text}'. Valid operators are: ['%']")))?;
        let size: f64 = size
            .trim()
            .parse()
            .ok()
            .filter(|size: &f64| size.is_finite() && *size > 0.0)
            .ok_or_else(|| wrong(format!("the plot binner '{text}' needs a number above 0 after %")))?;
        Ok(Binner { variable: variable.to_owned(), size })
    }

    pub(super) fn apply(&self, record: &mut Dict) -> Result<(), Error> {
        let value = variable(record, &self.variable, "binner")?.as_f64();
        if let Some(value) = value.filter(|value| value.is_finite()) {
            record.set(self.variable.as_str(), (value / self.size).floor() * self.size);
        }
        Ok(())
    }
}

fn variable<'a>(record: &'a Dict, name: &str, rule: &str) -> Result<&'a Value, Error> {
    record.get(name).ok_or_else(|| Error::PlotRule {
        problem: format!("a {rule} names {name}, which a result does not have; it has {}", keys(record)),
    })
}

/// The keys of a record, as Python prints a list.
pub(super) fn keys(record: &Dict) -> String {
    let keys: Vec<String> = record.iter().map(|(key, _)| format!("'{key}'")).collect();
    format!("[{}]", keys.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Dict {
        [("n", Value::Int(8)), ("r", Value::Float(f64::INFINITY)), ("s", Value::from("x"))]
            .map(|(key, value)| (key.to_owned(), value))
            .into_iter()
            .collect()
    }

    #[test]
    fn filters_compare_numbers_or_texts() {
        let holds = |text: &str| Filter::parse(text).unwrap().holds(&record()).unwrap();
        for text in ["n==8", "n<=8", "n>7.5", "n!=9", "r==inf", "r>5", "s=='x'", "s!=y", "s!=3"] {
            assert!(holds(text), "{text}");
        }
        for text in ["n<8", "n==8.5", "r<inf", "s==y", "s==3"] {
            assert!(!holds(text), "{text}");
        }
        assert!(Filter::parse("zzz==1").unwrap().holds(&record()).is_err());
        for text in ["a~1", "a<b<c", "a<b"] {
            assert!(Filter::parse(text).is_err(), "{text}");
        }
        assert_eq!(Filter::parse("n>=5").unwrap().describe(), "PlotGreaterThanOrEqualTo(var='n', target='5')");
    }

    #[test]
    fn binners_round_down() {
        let mut record = record();
        Binner::parse("n%5").unwrap().apply(&mut record).unwrap();
        Binner::parse("r%5").unwrap().apply(&mut record).unwrap();
        assert_eq!((record.get("n"), record.get("r")), (Some(&Value::Float(5.0)), Some(&Value::Float(f64::INFINITY))));
        for text in ["a1", "a%x", "a%0"] {
            assert!(Binner::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn numbers_sort_by_size() {
        let mut names = ["c=10", "c=9", "b=1", "c=9-a"];
        names.sort_by_key(|name| natural(name));
        assert_eq!(names, ["b=1", "c=9", "c=9-a", "c=10"]);
    }
}
