//! Preprocessing of vLLM's parser before argparse: underscores in option names become dashes, and dotted options
//! (`--extra-body.a.b 1`) are folded into one JSON option at the end.

use tacho_core::json::{Dict, Value, dumps, parse};

use super::number::{Sized, sized_integer};
use crate::error::UsageError;

#[derive(Debug, Default, PartialEq)]
pub(crate) struct Folded {
    pub(crate) args: Vec<String>,
    /// Dotted options given twice, in order of occurrence.
    pub(crate) duplicates: Vec<String>,
}

pub(crate) fn fold(args: &[String]) -> Result<Folded, UsageError> {
    let mut folded: Vec<(String, Dict)> = Vec::new();
    let mut out = Folded::default();
    let mut rest = args.iter().peekable();
    while let Some(arg) = rest.next() {
        let Some((name, value)) = split_option(arg) else {
            out.args.push(arg.clone());
            continue;
        };
        if !name.contains('.') {
            out.args.push(value.map_or_else(|| name.clone(), |value| format!("{name}={value}")));
            continue;
        }
        let value = match value {
            Some(value) => value.to_owned(),
            None => rest
                .next_if(|next| !next.starts_with("--"))
                .cloned()
                .ok_or_else(|| UsageError::NoValue { flag: name.clone() })?,
        };
        fold_one(&name, &value, &mut folded, &mut out.duplicates)?;
    }
    for (root, dict) in folded {
        out.args.push(root);
        out.args.push(dumps(&Value::Dict(dict)));
    }
    Ok(out)
}

/// Splits a word into its option name, with dashes for underscores up to the first dot, and the value after `=`.
fn split_option(word: &str) -> Option<(String, Option<&str>)> {
    // Text with spaces is a value, such as the flags of another command.
    let is_name = |body: &&str| !body.is_empty() && !body.split('=').next().is_some_and(|name| name.contains(' '));
    let body = word.strip_prefix("--").filter(is_name)?;
    let (name, value) = body.split_once('=').map_or((body, None), |(name, value)| (name, Some(value)));
    let root_end = name.find('.').unwrap_or(name.len());
    Some((format!("--{}{}", name[..root_end].replace('_', "-"), &name[root_end..]), value))
}

fn fold_one(
    name: &str,
    value: &str,
    folded: &mut Vec<(String, Dict)>,
    duplicates: &mut Vec<String>,
) -> Result<(), UsageError> {
    let (path, value) = match name.strip_suffix('+') {
        Some(path) => (path, Value::List(value.split(',').map(Value::from).collect())),
        None => (name, leaf(name, value)?),
    };
    let (root, keys) = path.split_once('.').unwrap_or((path, ""));
    let update = keys.rsplit('.').fold(value, |inner, key| {
        let mut dict = Dict::new();
        dict.set(key, inner);
        Value::Dict(dict)
    });
    let Value::Dict(update) = update else { return Ok(()) };
    let at = folded.iter().position(|(name, _)| name == root).unwrap_or_else(|| {
        folded.push((root.to_owned(), Dict::new()));
        folded.len() - 1
    });
    merge(&mut folded[at].1, &update, root, duplicates);
    Ok(())
}

/// The value of a dotted option: JSON, otherwise an integer with optional suffix, otherwise the text.
fn leaf(name: &str, text: &str) -> Result<Value, UsageError> {
    if let Ok(value) = parse(text) {
        return Ok(value);
    }
    match sized_integer(text) {
        Sized::Integer(value) => Ok(value),
        Sized::FractionOfBinary => Err(UsageError::BrokenSize { flag: name.to_owned(), value: text.to_owned() }),
        Sized::Other => Ok(Value::from(text)),
    }
}

/// Merges objects recursively and appends lists; other values are replaced, which counts as a duplicate.
fn merge(into: &mut Dict, update: &Dict, path: &str, duplicates: &mut Vec<String>) {
    for (key, new) in update.iter() {
        let path = format!("{path}.{key}");
        let value = match (into.get(key), new) {
            (Some(Value::Dict(old)), Value::Dict(new)) => {
                let mut old = old.clone();
                merge(&mut old, new, &path, duplicates);
                Value::Dict(old)
            }
            (Some(Value::List(old)), Value::List(new)) => Value::List(old.iter().chain(new).cloned().collect()),
            (old, new) => {
                if old.is_some() && !duplicates.contains(&path) {
                    duplicates.push(path);
                }
                new.clone()
            }
        };
        into.set(key, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folded(args: &[&str]) -> Result<Folded, UsageError> {
        fold(&args.iter().map(|&word| word.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn underscores_change_in_names_only() {
        let args = folded(&["--num_prompts", "a_b", "--request_id_prefix=a_b", "--extra_body.a_b", "c_d"]).unwrap();
        let expected = ["--num-prompts", "a_b", "--request-id-prefix=a_b", "--extra-body", r#"{"a_b": "c_d"}"#];
        assert_eq!(args.args, expected);
        let flags = ["--sim-args", "--error-rate 0.1 --model a_b"];
        assert_eq!(folded(&flags).unwrap().args, flags, "flags of another command are a value");
    }

    #[test]
    fn dotted_values_are_json_or_sizes_or_text() {
        let cases = [
            ("5", "5"),
            ("true", "true"),
            ("80k", "80000"),
            ("1K", "1024"),
            ("1_0", "10"),
            ("x", "\"x\""),
            ("-1.5", "-1.5"),
            ("[1, 2]", "[1, 2]"),
            ("NaN", "NaN"),
        ];
        for (text, json) in cases {
            assert_eq!(folded(&["--e.a", text]).unwrap().args, ["--e".to_owned(), format!("{{\"a\": {json}}}")]);
        }
        assert!(matches!(folded(&["--e.a", "1.5K"]), Err(UsageError::BrokenSize { .. })));
    }

    #[test]
    fn dotted_options_merge_deeply() {
        let args = folded(&["--e.a.b", "1", "--f", "--e.a.c=2", "--e.l+", "x,1", "--e.l+=y", "--e.a.b", "3"]).unwrap();
        assert_eq!(args.args, ["--f", "--e", r#"{"a": {"b": 3, "c": 2}, "l": ["x", "1", "y"]}"#]);
        assert_eq!(args.duplicates, ["--e.a.b"]);
    }

    #[test]
    fn a_dotted_option_needs_a_value() {
        assert_eq!(folded(&["--e.a"]), Err(UsageError::NoValue { flag: "--e.a".into() }));
        assert!(folded(&["--e.a", "--seed", "1"]).is_err());
    }

    #[test]
    fn negative_decimals_are_left_alone() {
        assert_eq!(folded(&["--x", "-0.5", "--"]).unwrap().args, ["--x", "-0.5", "--"]);
    }
}
