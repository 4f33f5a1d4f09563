//! What is printed and written of the offline commands: vLLM's lines and keys first, ours after them.

mod indented;
mod latency;
mod mm_processor;
mod records;
mod startup;
mod throughput;

pub use latency::{json as latency_json, records as latency_records, text as latency_text};
pub use mm_processor::{json as mm_processor_json, text as mm_processor_text};
pub use startup::{json as startup_json, records as startup_records, text as startup_text};
pub use throughput::{json as throughput_json, records as throughput_records, text as throughput_text};

use std::io::Write;
use std::path::Path;

use tacho_core::json::{Dict, Value, dumps};
use tacho_metrics::offline::EngineNote;

use crate::Error;
use crate::json::write_whole;

/// Writes a result file, indented as Python does it, without a final line end.
pub fn save(path: &Path, value: &Value, indent: usize) -> Result<(), Error> {
    let text = indented::indented(&without_nan(value), indent);
    write_whole(path, |out| out.write_all(text.as_bytes()))
}

/// Writes records of PyTorch's format, on one line.
pub fn save_records(path: &Path, records: Vec<Value>) -> Result<(), Error> {
    write_whole(path, |out| out.write_all(dumps(&Value::List(records)).as_bytes()))
}

/// A number that JSON does not have becomes `null`.
fn without_nan(value: &Value) -> Value {
    match value {
        Value::Float(number) if !number.is_finite() => Value::Null,
        Value::List(items) => Value::List(items.iter().map(without_nan).collect()),
        Value::Dict(dict) => Value::Dict(dict.iter().map(|(key, item)| (key.to_owned(), without_nan(item))).collect()),
        other => other.clone(),
    }
}

/// The part of a result file that says what ran.
fn engine_keys(dict: &mut Dict, engine: &EngineNote) {
    dict.set("backend", engine.backend.as_str());
    dict.set("simulated", engine.simulated.is_some());
    if let Some(profile) = &engine.simulated {
        dict.set("sim_profile", profile.as_str());
    }
    dict.set("versions", engine.versions.clone());
    if let Some(directory) = &engine.profile_dir {
        dict.set("profile_dir", directory.as_str());
    }
}

/// The line that tells modelled times from measured ones.
fn simulated_line(engine: &EngineNote) -> Option<String> {
    let profile = engine.simulated.as_ref()?;
    Some(format!("Simulated engine (profile {profile}): these times are modelled, not measured."))
}

/// Percentiles under text keys.
fn percentile_dict(percentiles: &[(u32, f64)]) -> Dict {
    percentiles.iter().map(|(percent, value)| (percent.to_string(), Value::Float(*value))).collect()
}
