//! Values of flags as they may be shown: no key, password or token among them.

use tacho_core::json::Value;
use tacho_core::secret::{REDACTED, is_secret_name, redact_json, redact_words};

use super::flag::Flag;

/// The value of a flag for a dump, a log or a file. Headers may hold a key under any name, so none is shown.
pub fn shown(flag: &Flag, value: &Value) -> Value {
    let dest = flag.dest();
    match value {
        Value::Null | Value::Bool(_) => value.clone(),
        _ if dest == "header" || is_secret_name(&dest) => Value::from(REDACTED),
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
    redact_words(&[text.to_owned()]).concat()
}
