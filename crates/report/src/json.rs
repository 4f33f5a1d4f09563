//! vLLM's result file, key for key, with tacho's own metrics under one more key at its end.

mod columns;
mod fields;
pub(crate) mod full_concurrency;
mod metrics;
mod outputs;
mod save;
mod schema;
mod server;
mod tacho;
pub(crate) mod telemetry;

use std::io::{self, Write};

use tacho_core::json::{self, Dict, Keyed, Merged, Optional, Value};
use tacho_core::view;
use tacho_metrics::{RateChange, Samples, TaskSummary};
use tacho_record::{RunRecord, metric::Part};

pub use self::columns::Detail;
pub(crate) use self::metrics::statistics_fields;
use self::metrics::{Latencies, Metrics, latency_fields, metric_fields};
pub use self::save::{SaveMode, save, try_writing, write_text, write_whole};
pub use self::schema::schema;
use self::{columns::List, fields::Fields};

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
            if let Some(window) = tacho::full_concurrency(record, true) {
                file.fields.set("steady_state", window);
            }
            let mut tacho = Fields::default();
            tacho.update(&tacho::TachoPart::of(record, detail));
            if detail == Detail::PerRequest {
                list_fields(&mut tacho, record, columns::TACHO);
            }
            file.fields.set("tacho", tacho);
        }
        file
    }

    /// vLLM's part of it.
    pub fn vllm(record: &'a RunRecord, detail: Detail) -> Self {
        let mut fields = Fields::default();
        fields.update(&SetupPart::of(record));
        fields.update(&metric_fields(record, &[Part::Totals]));
        if matches!(record.summary.task, TaskSummary::Pooling(_)) {
            // vLLM prints the failures of pooling but does not write them.
            fields.remove("failed");
        }
        list_fields(&mut fields, record, columns::VLLM);
        fields.update(&AfterLists::of(record));
        columns::VLLM.iter().filter(|list| list.detail > detail).for_each(|list| fields.remove(list.key));
        ResultFile { fields, samples: &record.measured.samples }
    }

    /// The metrics of a run without per-request lists.
    pub fn summary(record: &'a RunRecord) -> Self {
        let mut file = Self::new(record, Detail::Brief);
        columns::VLLM.iter().for_each(|list| file.fields.remove(list.key));
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

fn list_fields(fields: &mut Fields, record: &RunRecord, lists: &[List]) {
    lists.iter().filter(|list| (list.applies)(record)).for_each(|list| fields.set(list.key, list.column));
}

view! {
    /// The settings. Metadata overrides the keys before it and is overridden by those after it.
    struct SetupPart(record: &RunRecord) {
        /// Start of the run, as YYYYMMDD-HHMMSS.
        date: String = record.setup.date.clone(),
        /// The backend, under its older name.
        endpoint_type: String = record.setup.backend.clone(),
        /// Wire protocol.
        backend: String = record.setup.backend.clone(),
        /// --label.
        label: Option<String> = record.setup.label.clone(),
        /// Model name in the requests.
        model_id: String = record.setup.model_id.clone(),
        /// Tokenizer.
        tokenizer_id: Option<String> = record.setup.tokenizer_id.clone(),
        /// Requests of the run.
        num_prompts: i64 = record.setup.num_prompts,
        metadata: Merged<Keyed<String>> = record.setup.metadata.clone(),
        /// Requests per second, or "inf".
        request_rate: Value = rate(record.setup.request_rate),
        /// Burstiness of the arrivals: 1 is a Poisson process.
        burstiness: f64 = record.setup.burstiness,
        /// Maximum requests in flight.
        max_concurrency: Option<u64> = record.setup.max_concurrency,
        /// Ramp of the rate.
        ramp_up_strategy: Optional<String> = record.setup.ramp_up.as_ref().map(|ramp| ramp.strategy.clone()),
        /// Rate at the start of the ramp.
        ramp_up_start_rps: Optional<i64> = record.setup.ramp_up.as_ref().map(|ramp| ramp.start_rps),
        /// Rate at the end of the ramp.
        ramp_up_end_rps: Optional<i64> = record.setup.ramp_up.as_ref().map(|ramp| ramp.end_rps),
    }
}

view! {
    /// The metrics after the lists.
    struct AfterLists(record: &RunRecord) {
        peaks: Merged<Metrics<false>> = metric_fields(record, &[Part::Peaks, Part::Probes]),
        /// When the rate of a ramp changed.
        rps_change_events: Optional<Vec<RateChange>> =
            record.setup.ramp_up.as_ref().map(|_| record.setup.rps_change_events.clone()),
        speculative: Merged<Metrics<false>> = metric_fields(record, &[Part::Speculative]),
        /// Acceptance rate by draft position.
        spec_decode_per_position_acceptance_rates: Optional<Vec<f64>> =
            record.measured.speculative.as_ref().map(|speculative| speculative.per_position.clone()),
        media: Merged<Metrics<false>> = metric_fields(record, &[Part::Diffusion, Part::Audio, Part::Images]),
        latencies: Merged<Latencies<true>> = latency_fields(record),
    }
}

/// Only positive infinity becomes a string.
pub(crate) fn rate(rate: f64) -> Value {
    if rate.is_finite() { Value::Float(rate) } else { Value::from("inf") }
}

/// Numbers that JSON cannot represent become `null`.
pub(crate) fn finite(value: Value) -> Value {
    map_floats(value, &|number| if number.is_finite() { number.into() } else { Value::Null })
}

pub(crate) fn map_floats(value: Value, change: &dyn Fn(f64) -> Value) -> Value {
    let item = |(key, value): (&str, &Value)| (key.to_owned(), map_floats(value.clone(), change));
    match value {
        Value::Float(number) => change(number),
        Value::List(items) => items.into_iter().map(|item| map_floats(item, change)).collect(),
        Value::Dict(dict) => Value::Dict(dict.iter().map(item).collect()),
        other => other,
    }
}
