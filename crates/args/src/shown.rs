//! Values of flags for display, with secrets redacted.

use tacho_core::json::Value;
use tacho_core::secret::{REDACTED, is_secret_flag, redact_args, redact_json};

use super::flag::Flag;

/// Returns the value of a flag for a dump, a log, or a file. Headers may contain a key under any name, so all are
/// redacted.
pub fn shown(flag: &Flag, value: &Value) -> Value {
    let dest = flag.dest();
    match value {
        Value::Null | Value::Bool(_) => value.clone(),
        _ if dest == "header" || is_secret_flag(&dest) => Value::from(REDACTED),
        Value::Str(text) => Value::from(word(text)),
        Value::List(items) => Value::List(items.iter().map(item).collect()),
        other => redact_json(other),
    }
}

fn item(item: &Value) -> Value {
    match item {
        Value::Str(text) => Value::from(word(text)),
        other => redact_json(other),
    }
}

fn word(text: &str) -> String {
    redact_args(&[text.to_owned()]).concat()
}
