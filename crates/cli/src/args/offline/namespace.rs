//! Every flag with its value, for records in PyTorch's benchmark format.

use tacho_args::declare::*;
use tacho_args::shown::shown;
use tacho_core::json::{Dict, Value};
use tacho_core::secret::redact_json;

/// vLLM reads its logging flags before its parser; two of them add a value at the end.
const LATE: [&str; 3] = ["log_level", "log_config_file", "logging_config"];

/// The argument dump. `engine` has the values of the engine's own parser, as far as it reports them.
pub(crate) fn namespace(values: &Values, bench_type: &str, engine: &Dict) -> Dict {
    let mut dict = Dict::new();
    dict.set("subparser", "bench");
    dict.set("bench_type", bench_type);
    dict.set("dispatch_function", "<function is not JSON serializable>");
    let rows = |origin: Origin| values.iter().filter(move |(flag, _)| flag.origin == origin);
    for (flag, value) in rows(Origin::Vllm) {
        dict.set(flag.dest(), shown(flag, value));
    }
    let reported = redact_json(&Value::Dict(engine.clone()));
    for (key, value) in reported.as_dict().iter().flat_map(|dict| dict.iter()) {
        if dict.get(key).is_none() && !LATE.contains(&key) {
            dict.set(key, value.clone());
        }
    }
    for (flag, value) in rows(Origin::Engine) {
        if dict.get(&flag.dest()).is_none() {
            dict.set(flag.dest(), shown(flag, value));
        }
    }
    dict.set("log_config_file", Value::Null);
    dict.set("logging_config", "<LoggingConfig is not JSON serializable>");
    for (flag, value) in rows(Origin::Tacho) {
        dict.set(flag.dest(), shown(flag, value));
    }
    dict
}
