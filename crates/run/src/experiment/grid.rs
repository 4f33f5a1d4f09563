//! Parameter files and the combinations of a sweep: the product of server and client sets, without those that links
//! exclude. Parses texts; reads no files and starts nothing.

use std::path::Path;

use tacho_core::json::{Dict, Value, parse, python_str};
use tacho_core::secret::{redact_args, redact_json};

use super::Error;

/// The key that names a set and is not passed to commands.
const NAME: &str = "_benchmark_name";

/// One parameter set: keys and values for a command.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ParamSet {
    values: Dict,
}

impl ParamSet {
    pub fn new(values: Dict) -> Self {
        ParamSet { values }
    }

    /// All values, including the name.
    pub fn values(&self) -> &Dict {
        &self.values
    }

    /// All values without secrets, for display and storage.
    pub fn shown(&self) -> Dict {
        self.values.iter().map(|(key, value)| (key.to_owned(), shown(key, value))).collect()
    }

    pub fn params(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.values.iter().filter(|(key, _)| *key != NAME)
    }

    /// Returns whether it is empty, without even a name.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    pub fn is_named(&self) -> bool {
        self.values.get(NAME).is_some()
    }

    pub fn name(&self) -> String {
        self.values.get(NAME).map_or_else(|| self.as_text("-"), python_str)
    }

    pub fn as_text(&self, separator: &str) -> String {
        let part = |(key, value): (&str, &Value)| format!("{key}={}", python_str(&shown(key, value)));
        let parts: Vec<String> = self.params().map(part).collect();
        parts.join(separator)
    }

    /// The set with a value added or replaced.
    pub fn with(&self, key: &str, value: impl Into<Value>) -> Self {
        let mut values = self.values.clone();
        values.set(key, value);
        ParamSet { values }
    }

    /// The value of a key, with dashes or underscores.
    pub fn get_tolerant(&self, key: &str) -> Option<&Value> {
        let plain = |key: &str| key.replace('-', "_");
        let wanted = plain(key);
        self.values.get(key).or_else(|| self.params().find(|(known, _)| plain(known) == wanted).map(|(_, value)| value))
    }
}

/// A parameter's value without secrets, judged by the flag that it becomes.
fn shown(key: &str, value: &Value) -> Value {
    match value {
        Value::Str(text) => {
            let args = redact_args(&[format!("--{key}"), text.clone()]);
            args.into_iter().next_back().map_or(Value::Null, Value::Str)
        }
        other => {
            let one: Dict = [(key.to_owned(), other.clone())].into_iter().collect();
            redact_json(&Value::Dict(one)).get(key).cloned().unwrap_or(Value::Null)
        }
    }
}

/// The sets of a parameter file; `path` is for error messages.
pub fn parse_params(path: &Path, text: &str) -> Result<Vec<ParamSet>, Error> {
    let wrong = |problem: String| Error::file(path, problem);
    let set = |key_path: String, item: &Value| match item {
        Value::Dict(values) => Ok(values.clone()),
        other => Err(wrong(format!(
            "{key_path} must be an object of parameters, as in [{{\"NAME\": VALUE}}], not {}",
            type_name(other)
        ))),
    };
    let sets: Vec<ParamSet> = match parse(text).map_err(|fault| wrong(format!("not JSON: {fault}")))? {
        Value::List(items) => {
            let items = items.iter().enumerate();
            items.map(|(at, item)| set(format!("item {at}"), item).map(ParamSet::new)).collect::<Result<_, Error>>()?
        }
        Value::Dict(named) => {
            let with_name = |(name, item): (&str, &Value)| -> Result<ParamSet, Error> {
                let mut all = Dict::new();
                all.set(NAME, name);
                all.update(&set(format!("{name:?}"), item)?);
                Ok(ParamSet::new(all))
            };
            named.iter().map(with_name).collect::<Result<_, Error>>()?
        }
        other => {
            let found = type_name(&other);
            return Err(wrong(format!("must be a list of objects or an object of named objects, not {found}")));
        }
    };
    if sets.is_empty() {
        let problem = "there are no parameter sets in it, so that nothing would be run: write [{}] to change nothing";
        return Err(wrong(problem.to_owned()));
    }
    let names: Vec<String> = sets.iter().filter(|set| set.is_named()).map(ParamSet::name).collect();
    let again = names.iter().enumerate().find(|(at, name)| names[..*at].contains(name)).map(|(_, name)| name.clone());
    match repeated_key(text).or(again) {
        Some(name) => {
            Err(wrong(format!("the name {name:?} is given to more than one parameter set: make the names unique")))
        }
        None => Ok(sets),
    }
}

/// A name that occurs twice in an object of sets: the JSON parser would silently keep only the last.
fn repeated_key(text: &str) -> Option<String> {
    if !text.trim_start().starts_with('{') {
        return None;
    }
    let mut seen: Vec<String> = Vec::new();
    let (mut depth, mut rest) = (0_usize, text);
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        match c {
            '{' | '[' => depth += 1,
            '}' | ']' => depth = depth.saturating_sub(1),
            '"' => {
                let (key, after) = string_at(rest)?;
                rest = after;
                if depth == 1 && after.trim_start().starts_with(':') {
                    if seen.contains(&key) {
                        return Some(key);
                    }
                    seen.push(key);
                }
            }
            _ => {}
        }
    }
    None
}

/// The text up to its closing quote, and the rest; `rest` starts after the opening quote.
fn string_at(rest: &str) -> Option<(String, &str)> {
    let mut escaped = false;
    let end = rest.bytes().position(|b| {
        let closes = b == b'"' && !escaped;
        escaped = b == b'\\' && !escaped;
        closes
    })?;
    let text = parse(&format!("\"{}\"", &rest[..end])).ok()?;
    Some((python_str(&text), &rest[end + 1..]))
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Int(_) | Value::BigInt(_) | Value::Float(_) => "a number",
        Value::Str(_) => "a text",
        Value::List(_) => "a list",
        Value::Dict(_) => "an object",
    }
}

/// Pairs of keys whose values must be equal.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Links {
    pairs: Vec<(String, String)>,
}

impl Links {
    /// Parses `serveKey=benchKey,…`.
    pub fn parse(text: &str) -> Result<Self, Error> {
        if text.trim().is_empty() {
            return Ok(Links::default());
        }
        let pairs = text
            .split(',')
            .map(|item| match item.split('=').collect::<Vec<_>>()[..] {
                [serve, bench] => Ok((serve.trim().to_owned(), bench.trim().to_owned())),
                _ => Err(Error::Link { item: item.trim().to_owned() }),
            })
            .collect::<Result<_, _>>()?;
        Ok(Links { pairs })
    }

    /// The first pair of keys that excludes this combination.
    pub fn broken(&self, serve: &ParamSet, bench: &ParamSet) -> Option<String> {
        let differs = |(a, b): &&(String, String)| match (serve.get_tolerant(a), bench.get_tolerant(b)) {
            (Some(a), Some(b)) => !same(a, b),
            _ => true,
        };
        self.pairs.iter().find(differs).map(|(a, b)| format!("{a}={b}"))
    }
}

/// Python's equality: numbers and booleans compare by value, objects without regard to order.
pub(crate) fn same(a: &Value, b: &Value) -> bool {
    same_by(a, b, |value| match value {
        Value::Bool(on) => Some(f64::from(u8::from(*on))),
        other => other.as_f64(),
    })
}

/// Equality without regard to the order of members; values with a `number` compare by it, integers exactly.
pub(crate) fn same_by(a: &Value, b: &Value, number: fn(&Value) -> Option<f64>) -> bool {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => a == b,
        (Value::BigInt(a), Value::BigInt(b)) => a == b,
        (Value::List(a), Value::List(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_by(a, b, number)),
        (Value::Dict(a), Value::Dict(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same_by(a, b, number)))
        }
        _ => match (number(a), number(b)) {
            (Some(a), Some(b)) => a == b,
            _ => a == b,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sets(text: &str) -> Result<Vec<ParamSet>, Error> {
        parse_params(Path::new("p.json"), text)
    }

    #[test]
    fn both_forms_of_a_file_mean_the_same() {
        let listed = sets(r#"[{"_benchmark_name": "a", "x": 1}, {"_benchmark_name": "b"}]"#).unwrap();
        assert_eq!(listed, sets(r#"{"a": {"x": 1}, "b": {}}"#).unwrap());
        assert_eq!(listed[0].name(), "a");
        assert_eq!(listed[0].as_text("-"), "x=1");
    }

    #[test]
    fn faults_name_the_file_and_the_place() {
        let cases = [
            ("5", "p.json"),
            ("[1]", "item 0"),
            (r#"{"a": 1}"#, "\"a\""),
            ("{x", "p.json"),
            (r#"[{"_benchmark_name": "a"}, {"_benchmark_name": "a"}]"#, "a"),
            (r#"{"a": {"a": 1}, "b": {}, "a": {}}"#, "a"),
            ("[]", "no parameter sets"),
            ("{}", "no parameter sets"),
        ];
        for (text, part) in cases {
            let message = sets(text).unwrap_err().to_string();
            assert!(message.contains("p.json") && message.contains(part), "{message}");
            assert!(!message.contains('\n'));
        }
        assert!(sets(r#"{"a": {"b": {}}, "b": {"a": 1, "c": "\"a\": {"}}"#).is_ok());
    }

    #[test]
    fn links_are_pairs() {
        assert!(Links::parse("").unwrap().broken(&ParamSet::default(), &ParamSet::default()).is_none());
        for bad in ["a", "a=b=c", "a=b,", ","] {
            assert!(matches!(Links::parse(bad), Err(Error::Link { .. })), "{bad}");
        }
    }

    fn value() -> impl Strategy<Value = Value> {
        prop_oneof![(0_i64..3).prop_map(Value::Int), any::<bool>().prop_map(Value::Bool), "[ab]".prop_map(Value::Str)]
    }

    fn param_sets() -> impl Strategy<Value = Vec<ParamSet>> {
        let set = proptest::collection::vec(("[a-c](_x)?", value()), 0..3);
        proptest::collection::vec(set.prop_map(|entries| ParamSet::new(entries.into_iter().collect())), 0..4)
    }

    proptest! {
        #[test]
        fn a_link_keeps_exactly_the_pairs_with_equal_values(serve in param_sets(), bench in param_sets()) {
            let links = Links::parse("a = b").unwrap();
            for (serve, bench) in serve.iter().flat_map(|serve| bench.iter().map(move |bench| (serve, bench))) {
                let both = serve.values().get("a").zip(bench.values().get("b"));
                let agree = both.is_some_and(|(a, b)| same(a, b) && same(b, a));
                prop_assert_eq!(links.broken(serve, bench).is_none(), agree);
            }
        }

        #[test]
        fn spelling_does_not_matter_to_links(value in value()) {
            let serve = ParamSet::default().with("max-num_seqs", value.clone());
            let bench = ParamSet::default().with("max_concurrency", value);
            prop_assert!(Links::parse("max_num_seqs=max-concurrency").unwrap().broken(&serve, &bench).is_none());
        }

        #[test]
        fn an_applied_set_is_found_in_the_command(sets in param_sets()) {
            let command = vec!["s".to_owned(), "--a".to_owned(), "0".to_owned(), "--z".to_owned()];
            for set in sets {
                let args = crate::experiment::apply("--serve-cmd", &command, &set).unwrap();
                prop_assert!(args.contains(&"--z".to_owned()) && args[0] == "s");
                for (key, value) in set.params() {
                    let name = key.replace('_', "-");
                    let expected = match value {
                        Value::Bool(true) => vec![format!("--{name}")],
                        Value::Bool(false) => vec![format!("--no-{name}")],
                        other => vec![format!("--{name}"), python_str(other)],
                    };
                    prop_assert!(args.windows(expected.len()).any(|part| part == expected), "{:?} {:?}", args, key);
                }
            }
        }
    }
}
