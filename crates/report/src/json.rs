//! vLLM's result file, key for key, with tacho's own metrics under one more key at its end.

mod columns;
mod fields;
pub(crate) mod full_concurrency;
mod own;
mod save;
mod schema;
mod server;
pub(crate) mod telemetry;

use std::io::{self, Write};

use tacho_core::json::{self, Dict, Value};
use tacho_metrics::{MetricKind, Samples, Statistics, TaskSummary};
use tacho_record::RunRecord;
use tacho_record::metric::{self, Amount, Part, Times};

use self::columns::Column;
use self::fields::Fields;
pub use self::save::{SaveMode, save, try_writing, write_whole};
pub use self::schema::schema;
use crate::style::percent;

/// How much of single requests a file contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// Latencies and waits only.
    Brief,
    /// Everything, with texts and token times (`--save-detailed`).
    PerRequest,
}

/// The arrays that only a detailed file keeps.
const DETAILED: [&str; 7] = ["input_lens", "output_lens", "start_times", "ttfts", "itls", "generated_texts", "errors"];

/// The arrays in every file.
const LISTS: [&str; 3] = ["latencies", "queue_times", "errors"];

/// The content of a result file. Per-request arrays are rendered only when it is written.
pub struct ResultFile<'a> {
    fields: Fields,
    samples: &'a Samples,
}

impl<'a> ResultFile<'a> {
    /// The whole file; under strict parity only vLLM's part.
    pub fn new(record: &'a RunRecord, detail: Detail) -> Self {
        let mut file = Self::vllm(record, detail);
        if !record.setup.strict_parity {
            if let Some(state) = record.steady_state.as_ref().filter(|state| state.requested) {
                file.fields.set("steady_state", full_concurrency::json(state));
            }
            file.fields.set("tacho", own::fields(record, detail));
        }
        file
    }

    /// vLLM's part of it.
    pub fn vllm(record: &'a RunRecord, detail: Detail) -> Self {
        let mut fields = setup_fields(record);
        fields.update(result_fields(record));
        if detail == Detail::Brief {
            DETAILED.iter().for_each(|key| fields.remove(key));
        }
        ResultFile { fields, samples: &record.measured.samples }
    }

    /// The metrics of a run without per-request lists.
    pub fn summary(record: &'a RunRecord) -> Self {
        let mut file = Self::new(record, Detail::Brief);
        LISTS.iter().for_each(|key| file.fields.remove(key));
        file
    }

    /// Writes it as one line without a newline.
    pub fn write_to(&self, out: &mut impl Write) -> io::Result<()> {
        self.fields.write(self.samples, out)?;
        // An incomplete list is an error.
        self.samples.check()
    }

    /// The file as a value. Lone surrogates in generated texts become U+FFFD.
    pub fn to_dict(&self) -> Dict {
        let mut text = Vec::new();
        self.write_to(&mut text).expect("writing to memory does not fail");
        let text = String::from_utf8(text).expect("the writer emits ASCII");
        match json::parse(&text) {
            Ok(Value::Dict(dict)) => dict,
            other => unreachable!("the writer emits an object, not {other:?}"),
        }
    }
}

/// The settings. Metadata overrides the keys before it and is overridden by those after it.
fn setup_fields(record: &RunRecord) -> Fields {
    let setup = &record.setup;
    let mut fields = Fields::default();
    fields.set("date", setup.date.as_str());
    fields.set("endpoint_type", setup.backend.as_str());
    fields.set("backend", setup.backend.as_str());
    fields.set("label", setup.label.clone());
    fields.set("model_id", setup.model_id.as_str());
    fields.set("tokenizer_id", setup.tokenizer_id.clone());
    fields.set("num_prompts", setup.num_prompts);
    for (key, value) in &setup.metadata {
        fields.set(key, value.as_str());
    }
    // Only positive infinity becomes a string.
    let rate = setup.request_rate;
    fields.set("request_rate", if rate.is_finite() { Value::Float(rate) } else { Value::from("inf") });
    fields.set("burstiness", setup.burstiness);
    fields.set("max_concurrency", setup.max_concurrency);
    if let Some(ramp) = &setup.ramp_up {
        fields.set("ramp_up_strategy", ramp.strategy.as_str());
        fields.set("ramp_up_start_rps", ramp.start_rps);
        fields.set("ramp_up_end_rps", ramp.end_rps);
    }
    fields
}

fn result_fields(record: &RunRecord) -> Fields {
    let mut fields = Fields::default();
    metric_fields(record, Part::Totals, &mut fields);
    if matches!(record.summary.task, TaskSummary::Pooling(_)) {
        // vLLM prints the failures of pooling but does not write them.
        fields.remove("failed");
    }
    let columns: &[(&str, Column)] = match &record.summary.task {
        TaskSummary::Generation(_) => &GENERATION,
        TaskSummary::Pooling(_) | TaskSummary::Media(_) => &POOLING,
    };
    columns.iter().for_each(|(key, column)| fields.set(key, *column));
    metric_fields(record, Part::Peaks, &mut fields);
    metric_fields(record, Part::Probes, &mut fields);
    rate_fields(record, &mut fields);
    metric_fields(record, Part::Speculative, &mut fields);
    if let Some(speculative) = &record.measured.speculative {
        let rates = speculative.per_position.iter().map(|&rate| Value::Float(rate)).collect();
        fields.set("spec_decode_per_position_acceptance_rates", Value::List(rates));
    }
    metric_fields(record, Part::Diffusion, &mut fields);
    media_fields(record, &mut fields);
    latency_fields(record, &mut fields);
    fields
}

/// The metrics of generated audio and images.
fn media_fields(record: &RunRecord, fields: &mut Fields) {
    metric_fields(record, Part::Audio, fields);
    metric_fields(record, Part::Images, fields);
}

/// The metrics of a group of requests.
fn group_fields(record: &RunRecord) -> Fields {
    let mut fields = Fields::default();
    metric_fields(record, Part::Totals, &mut fields);
    metric_fields(record, Part::Peaks, &mut fields);
    media_fields(record, &mut fields);
    latency_fields(record, &mut fields);
    fields
}

fn latency_fields(record: &RunRecord, fields: &mut Fields) {
    for metric in MetricKind::ALL.into_iter().filter(|&metric| record.setup.reports(metric)) {
        if let Some(statistics) = record.summary.statistics(metric) {
            statistics_fields(fields, Times::of(metric), statistics);
        }
    }
}

fn metric_fields(record: &RunRecord, part: Part, fields: &mut Fields) {
    for metric in metric::part(part) {
        match (metric.read)(record) {
            Some(Amount::Count(count)) => fields.set(metric.key, count),
            Some(Amount::Difference(count)) => fields.set(metric.key, count),
            Some(Amount::Real(real)) => fields.set(metric.key, real),
            Some(Amount::NotRequested) => fields.set(metric.key, Value::Null),
            None => {}
        }
    }
}

/// Per-request lists of generation.
const GENERATION: [(&str, Column); 9] = [
    ("input_lens", Column::InputLens),
    ("output_lens", Column::OutputLens),
    ("ttfts", Column::Ttfts),
    ("itls", Column::Itls),
    ("latencies", Column::Latencies),
    ("start_times", Column::Sent),
    ("queue_times", Column::QueueTimes),
    ("generated_texts", Column::GeneratedTexts),
    ("errors", Column::Errors),
];

/// Per-request lists of pooling.
const POOLING: [(&str, Column); 4] = [
    ("input_lens", Column::InputLens),
    ("latencies", Column::Latencies),
    ("queue_times", Column::QueueTimes),
    ("errors", Column::Errors),
];

fn rate_fields(record: &RunRecord, fields: &mut Fields) {
    let setup = &record.setup;
    if setup.ramp_up.is_none() {
        return;
    }
    let changes = setup.rps_change_events.iter().map(|change| {
        let mut entry = Dict::new();
        entry.set("rps", change.rps);
        entry.set("timestamp", change.timestamp.as_str());
        Value::Dict(entry)
    });
    fields.set("rps_change_events", Value::List(changes.collect()));
}

/// The keys of one metric: `mean_X_ms`, `median_X_ms`, `std_X_ms`, then its percentiles.
fn statistics_fields(fields: &mut Fields, times: &Times, statistics: &Statistics) {
    let (name, suffix) = (times.name, times.suffix());
    fields.set(&format!("mean_{name}{suffix}"), times.scaled(statistics.mean_ms));
    fields.set(&format!("median_{name}{suffix}"), times.scaled(statistics.median_ms));
    fields.set(&format!("std_{name}{suffix}"), times.scaled(statistics.std_ms));
    for &(percentile, value) in &statistics.percentiles_ms {
        fields.set(&format!("p{}_{name}{suffix}", percent(percentile)), times.scaled(value));
    }
}
