//! Commands as lists of arguments: shell splitting, and the application of parameter sets.

use tacho_core::command;
use tacho_core::json::{Value, dumps, python_str};

use super::{error::Error, grid::ParamSet};

/// vLLM's stand-in for an unlimited request rate in commands and directory names. In this program it is infinite.
pub(crate) const UNLIMITED_RATE: f64 = 65536.0;

/// The load in commands and directory names.
pub(crate) fn spelled(load: f64) -> f64 {
    if load.is_infinite() { UNLIMITED_RATE } else { load }
}

/// The words of a command, by the quoting rules of a POSIX shell. `flag` is named in errors.
pub fn split(flag: &'static str, text: &str) -> Result<Vec<String>, Error> {
    let args = command::split(text).map_err(|what| Error::Quoting { flag, what })?;
    if args.is_empty() { Err(Error::EmptyCommand { flag }) } else { Ok(args) }
}

/// A command with the set's keys replaced or added, in their order. `flag` is named in errors.
pub fn apply(flag: &'static str, command: &[String], set: &ParamSet) -> Result<Vec<String>, Error> {
    let mut args = command.to_vec();
    for (key, value) in set.params() {
        apply_one(flag, &mut args, key, value)?;
    }
    Ok(args)
}

fn apply_one(flag: &'static str, args: &mut Vec<String>, key: &str, value: &Value) -> Result<(), Error> {
    let (root, tail) = key.split_at(key.find('.').unwrap_or(key.len()));
    let dashed = format!("{}{tail}", root.replace('_', "-"));
    let spellings = [format!("--{dashed}"), format!("--{}{tail}", root.replace('-', "_")), format!("--{key}")];
    let found = spellings.iter().find_map(|name| args.iter().position(|word| word == name));
    let has_value = |at: usize| args.get(at + 1).is_some_and(|next| !next.starts_with("--"));
    match value {
        Value::Bool(on) if tail.is_empty() => {
            let word = if *on { format!("--{dashed}") } else { format!("--no-{dashed}") };
            match found {
                Some(at) => args[at] = word,
                None => args.push(word),
            }
        }
        Value::Bool(on) => {
            let word = format!("--{dashed}={on}");
            match found {
                // The old value would be left behind as a stray word.
                Some(at) if has_value(at) => drop(args.splice(at..at + 2, [word])),
                Some(at) => args[at] = word,
                None => args.push(word),
            }
        }
        value => {
            let text = if matches!(value, Value::Dict(_)) { dumps(value) } else { python_str(value) };
            let pair = [format!("--{dashed}"), text];
            match found {
                Some(at) if at + 1 == args.len() => {
                    return Err(Error::NoValueToReplace { flag, word: args[at].clone(), key: key.to_owned() });
                }
                Some(at) if has_value(at) => drop(args.splice(at..at + 2, pair)),
                // Another option follows: it must not be taken for the value.
                Some(at) => drop(args.splice(at..=at, pair)),
                None => args.extend(pair),
            }
        }
    }
    Ok(())
}

/// The value after an option, or behind its `=`.
pub fn option<'a>(args: &'a [String], name: &str) -> Option<&'a str> {
    args.iter().enumerate().find_map(|(at, word)| {
        if word == name {
            return args.get(at + 1).map(String::as_str);
        }
        word.strip_prefix(name)?.strip_prefix('=')
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tacho_core::json::parse;

    fn args(text: &str) -> Vec<String> {
        split("--serve-cmd", text).unwrap()
    }

    fn applied(command: &str, set: &str) -> String {
        let set = ParamSet::new(parse(set).unwrap().as_dict().unwrap().clone());
        apply("--serve-cmd", &args(command), &set).unwrap().join(" ")
    }

    #[test]
    fn sets_are_applied_as_upstream_does() {
        let cases = [
            (
                "s --max-num-seqs 16 --enable-prefix-caching",
                r#"{"max_num_seqs":32,"enable_prefix_caching":false}"#,
                "s --max-num-seqs 32 --no-enable-prefix-caching",
            ),
            ("s --a_b_c 9", r#"{"a-b_c":1}"#, "s --a-b-c 1"),
            ("s -tp 2", r#"{"tensor_parallel_size":4}"#, "s -tp 2 --tensor-parallel-size 4"),
            (
                "s",
                r#"{"compilation_config.mode":3,"compilation_config":{"a":true}}"#,
                r#"s --compilation-config.mode 3 --compilation-config {"a": true}"#,
            ),
            ("s", r#"{"compilation_config.use_x":false}"#, "s --compilation-config.use_x=false"),
            ("s", r#"{"x":{"é":"ü"}}"#, r#"s --x {"\u00e9": "\u00fc"}"#),
            ("s --x 2 --x 3", r#"{"x":1}"#, "s --x 1 --x 3"),
        ];
        for (command, set, expected) in cases {
            assert_eq!(applied(command, set), expected);
        }
    }

    #[test]
    fn other_options_survive() {
        assert_eq!(applied("s --enable-foo --bar 1", r#"{"enable_foo": "5"}"#), "s --enable-foo 5 --bar 1");
        assert_eq!(applied("s --c.x 0 --bar 1", r#"{"c.x": true}"#), "s --c.x=true --bar 1");
        let set = ParamSet::new(parse(r#"{"port": 9}"#).unwrap().as_dict().unwrap().clone());
        let error = apply("--serve-cmd", &args("s --port"), &set).unwrap_err();
        assert!(error.to_string().contains("--port"), "{error}");
    }

    #[test]
    fn unclosed_and_empty_commands_are_refused() {
        assert!(matches!(split("--serve-cmd", "a 'b"), Err(Error::Quoting { .. })));
        assert!(matches!(split("--serve-cmd", "  "), Err(Error::EmptyCommand { .. })));
    }

    #[test]
    fn options_are_found_in_both_forms() {
        assert_eq!(option(&args("s --port 1"), "--port"), Some("1"));
        assert_eq!(option(&args("s --port=2"), "--port"), Some("2"));
        assert_eq!(option(&args("s --porter 2"), "--port"), None);
    }
}
