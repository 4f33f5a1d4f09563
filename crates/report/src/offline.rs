//! The output of the offline commands: vLLM's lines and keys first, tacho's after them.

mod latency;
mod mm_processor;
mod records;
mod startup;
mod throughput;

use std::path::Path;

use tacho_core::dict;
use tacho_core::json::{Dict, Value, dumps, dumps_indented};
use tacho_metrics::offline::{EngineNote, OfflineKind, OfflineRecord};

use crate::{Error, json::finite, json::write_text, style::two};

pub fn text(record: &OfflineRecord) -> String {
    let mut lines = match &record.measured {
        OfflineKind::Latency(latency) => latency::lines(latency),
        OfflineKind::Startup(startup) => startup::lines(startup),
        OfflineKind::Throughput(throughput) => throughput::lines(throughput),
        OfflineKind::MmProcessor(processor) => mm_processor::lines(processor),
        OfflineKind::Profile => {
            vec![format!("Profile: {}", record.engine.profile_dir.as_deref().unwrap_or("where --profiler-config says"))]
        }
    };
    if let Some(profile) = &record.engine.simulated {
        lines.push(format!("Simulated engine (profile {profile}): these times are modeled, not measured."));
    }
    if let (OfflineKind::Throughput(throughput), Some(directory)) = (&record.measured, &record.engine.profile_dir) {
        let seconds = two(throughput.profile_seconds);
        lines.push(format!("Profile:  {directory} ({seconds} s of the run started and stopped it)"));
    }
    lines.join("\n")
}

/// The result file: vLLM's keys, then tacho's own.
pub fn json(record: &OfflineRecord) -> Value {
    let model = record.model_id.as_str();
    let (mut dict, mut tacho) = match &record.measured {
        OfflineKind::Latency(latency) => latency::keys(latency, model),
        OfflineKind::Startup(startup) => startup::keys(startup, model),
        OfflineKind::Throughput(throughput) => throughput::keys(throughput, model),
        OfflineKind::MmProcessor(processor) => mm_processor::keys(processor, model),
        OfflineKind::Profile => (Dict::new(), Dict::new()),
    };
    tacho.update(&engine_keys(&record.engine));
    dict.set("tacho", tacho);
    Value::Dict(dict)
}

/// The records of PyTorch's format, with the suffix of each one's file. `args` are all flags with their final values.
pub fn records(record: &OfflineRecord, args: &Dict, output_json: &Path) -> Vec<(String, Vec<Value>)> {
    let single = |metrics| vec![("pytorch.json".to_owned(), metrics)];
    let files = match &record.measured {
        OfflineKind::Latency(latency) => single(latency::metrics(latency)),
        OfflineKind::Startup(startup) => startup::metrics(startup),
        OfflineKind::Throughput(throughput) => single(throughput::metrics(throughput, &record.model_id)),
        OfflineKind::MmProcessor(_) | OfflineKind::Profile => Vec::new(),
    };
    let make = |metrics| records::records(&record.engine, args, output_json, metrics);
    files.into_iter().map(|(ending, metrics)| (ending, make(metrics))).collect()
}

/// Writes the result file of a record, indented as in vLLM.
pub fn save_record(path: &Path, record: &OfflineRecord) -> Result<(), Error> {
    let indent = if matches!(record.measured, OfflineKind::MmProcessor(_)) { 2 } else { 4 };
    save(path, &json(record), indent)
}

/// Writes a result file, indented as by Python, without a final newline.
pub fn save(path: &Path, value: &Value, indent: usize) -> Result<(), Error> {
    let text = dumps_indented(&finite(value.clone()), indent);
    write_text(path, &text)
}

/// Writes records in PyTorch's format, on one line.
pub fn save_records(path: &Path, records: Vec<Value>) -> Result<(), Error> {
    write_text(path, &dumps(&Value::List(records)))
}

/// The part of a result file about the engine.
fn engine_keys(engine: &EngineNote) -> Dict {
    dict! {
        "backend": engine.backend.as_str(),
        "simulated": engine.simulated.is_some(),
        "sim_profile"?: engine.simulated.as_deref(),
        "versions": engine.versions.clone(),
        "profile_dir"?: engine.profile_dir.as_deref(),
    }
}

fn floats(values: &[f64]) -> Value {
    Value::List(values.iter().copied().map(Value::Float).collect())
}

fn percentile_dict(percentiles: &[(u32, f64)]) -> Dict {
    percentiles.iter().map(|(percent, value)| (percent.to_string(), Value::Float(*value))).collect()
}
