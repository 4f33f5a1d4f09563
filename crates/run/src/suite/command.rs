//! Parameters of a test as arguments of a command, and command lines without secrets.

use tacho_core::command::quoted;
use tacho_core::json::{Dict, Value, dumps, python_str};
use tacho_core::secret::{REDACTED, is_secret_name, redact_args};

use crate::experiment::split;

/// `--key value` for each parameter. Strings are split as by a shell, as in vLLM's script, so that an empty one makes
/// a bare flag.
pub(super) fn args(parameters: &Dict) -> Result<Vec<String>, (String, String)> {
    let mut args = Vec::new();
    for (key, value) in parameters.iter() {
        let name = key.replace('_', "-");
        match value {
            Value::Bool(true) => args.push(format!("--{name}")),
            Value::Bool(false) => args.push(format!("--no-{name}")),
            Value::Str(text) => {
                args.push(format!("--{name}"));
                if !text.trim().is_empty() {
                    let parts = split("value", text).map_err(|error| (key.to_owned(), error.to_string()))?;
                    args.extend(parts);
                }
            }
            Value::List(items) => {
                args.push(format!("--{name}"));
                args.extend(items.iter().map(python_str));
            }
            Value::Dict(_) => args.extend([format!("--{name}"), dumps(value)]),
            other => args.extend([format!("--{name}"), python_str(other)]),
        }
    }
    Ok(args)
}

pub(super) fn line(args: &[String]) -> String {
    quoted(&redact_args(args)).join(" ")
}

pub(super) fn line_with(variables: &[(String, String)], args: &[String]) -> String {
    let shown = |(name, value): &(String, String)| match is_secret_name(name) {
        true => format!("{name}={REDACTED}"),
        false => format!("{name}={}", line(std::slice::from_ref(value))),
    };
    let mut parts: Vec<String> = variables.iter().map(shown).collect();
    parts.push(line(args));
    parts.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use tacho_core::json::parse;

    fn of(text: &str) -> Vec<String> {
        args(parse(text).unwrap().as_dict().unwrap()).unwrap()
    }

    #[test]
    fn parameters_become_arguments() {
        assert_eq!(
            of(r#"{"tensor_parallel_size": 2, "disable_log_stats": "", "swap": 1.5, "a": true, "b_c": false}"#),
            ["--tensor-parallel-size", "2", "--disable-log-stats", "--swap", "1.5", "--a", "--no-b-c"]
        );
        assert_eq!(
            of(r#"{"x": "'a b' c", "y": {"k": 1}, "z": [1, "t"]}"#),
            ["--x", "a b", "c", "--y", r#"{"k": 1}"#, "--z", "1", "t"]
        );
        assert!(args(parse(r#"{"x": "it's"}"#).unwrap().as_dict().unwrap()).is_err());
    }

    #[test]
    fn lines_parse_to_the_same_arguments() {
        let args = ["a", "b c", "", "it's", r#"{"k": "$x"}"#].map(str::to_owned);
        assert_eq!(split("line", &line(&args)).unwrap(), args);
        let variables = [("A".to_owned(), "1 2".to_owned())];
        assert_eq!(line_with(&variables, &args[..1]), "A='1 2' a");
        let secret = ["serve", "--api-key", "sk-1", "--header", "Authorization=Bearer sk-1"].map(str::to_owned);
        let shown = line_with(&[("HF_TOKEN".to_owned(), "sk-1".to_owned())], &secret);
        assert!(!shown.contains("sk-1") && shown.starts_with("HF_TOKEN=*** serve --api-key"), "{shown}");
    }
}
