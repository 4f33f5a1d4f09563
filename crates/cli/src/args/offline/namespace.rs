//! Every flag with its value, for records in PyTorch's benchmark format.

use tacho_args::flag::{Flag, Origin};
use tacho_args::grammar::Values;
use tacho_args::shown::shown;
use tacho_core::json::{Dict, Value, parse};
use tacho_core::secret::redact_json;

/// The argument dump. `engine` has the values of the engine's own parser, if any; they take precedence.
pub(crate) fn namespace(values: &Values, bench_type: &str, engine: Option<&Dict>) -> Dict {
    let mut dict = Dict::new();
    dict.set("subparser", "bench");
    dict.set("bench_type", bench_type);
    dict.set("dispatch_function", "<function is not JSON serializable>");
    let rows = |origin: Origin| values.iter().filter(move |(flag, _)| flag.origin == origin);
    for (flag, value) in rows(Origin::Vllm) {
        dict.set(flag.dest(), shown(flag, value));
    }
    for (flag, value) in rows(Origin::Engine).filter(|(flag, _)| !is_late(flag)) {
        let value = engine.and_then(|engine| engine.get(&flag.dest())).unwrap_or(value);
        dict.set(flag.dest(), shown(flag, &object(value)));
    }
    for (key, value) in engine.iter().flat_map(|engine| engine.iter()) {
        if dict.get(key).is_none() {
            dict.set(
                key,
                redact_json(&Value::Dict([(key.to_owned(), value.clone())].into_iter().collect::<Dict>()))
                    .get(key)
                    .cloned()
                    .unwrap_or(Value::Null),
            );
        }
    }
    dict.set("log_config_file", Value::Null);
    dict.set("logging_config", "<LoggingConfig is not JSON serializable>");
    for (flag, value) in rows(Origin::Tacho) {
        dict.set(flag.dest(), shown(flag, value));
    }
    dict
}

/// Parses an engine's JSON flag, which is stored as text.
fn object(value: &Value) -> Value {
    let text = value.as_str().filter(|text| text.starts_with('{'));
    text.and_then(|text| parse(text).ok()).unwrap_or_else(|| value.clone())
}

/// vLLM reads its logging flags before its parser; two of them add a value at the end.
fn is_late(flag: &Flag) -> bool {
    flag.names.iter().any(|name| ["--log-level", "--log-config-file", "--logging-config"].contains(name))
}
