//! Every flag with its value, as the records of PyTorch's benchmark format hold them.

use tacho_core::json::{Dict, Value, parse};

use crate::args::flag::{Flag, Origin};
use crate::args::grammar::Values;

/// The dump. `engine` are the values that an engine's own parser found, where there was one: they win.
pub(crate) fn namespace(values: &Values, bench_type: &str, engine: Option<&Dict>) -> Dict {
    let mut dict = Dict::new();
    dict.set("subparser", "bench");
    dict.set("bench_type", bench_type);
    dict.set("dispatch_function", "<function is not JSON serializable>");
    let rows = |origin: Origin| values.iter().filter(move |(flag, _)| flag.origin == origin);
    for (flag, value) in rows(Origin::Vllm) {
        dict.set(flag.dest(), value.clone());
    }
    for (flag, value) in rows(Origin::Engine).filter(|(flag, _)| !is_late(flag)) {
        let value = engine.and_then(|engine| engine.get(&dest(flag))).unwrap_or(value);
        dict.set(dest(flag), object(value));
    }
    for (key, value) in engine.iter().flat_map(|engine| engine.iter()) {
        if dict.get(key).is_none() {
            dict.set(key, value.clone());
        }
    }
    dict.set("log_config_file", Value::Null);
    dict.set("logging_config", "<LoggingConfig is not JSON serializable>");
    for (flag, value) in rows(Origin::Tacho) {
        dict.set(flag.dest(), value.clone());
    }
    if dict.get("hf_token").is_some_and(Value::truthy) {
        dict.set("hf_token", "***");
    }
    dict
}

/// An engine's JSON flag was kept as it was typed.
fn object(value: &Value) -> Value {
    let text = value.as_str().filter(|text| text.starts_with('{'));
    text.and_then(|text| parse(text).ok()).unwrap_or_else(|| value.clone())
}

/// vLLM's logging flags are read before its parser; two of them leave a value, at the end.
fn is_late(flag: &Flag) -> bool {
    flag.names.iter().any(|name| ["--log-level", "--log-config-file", "--logging-config"].contains(name))
}

/// The long name decides, wherever it stands in the list.
fn dest(flag: &Flag) -> String {
    let long = flag.names.iter().find(|name| name.starts_with("--")).unwrap_or(&flag.names[0]);
    long.trim_start_matches('-').replace('-', "_")
}
