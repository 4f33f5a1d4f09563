//! vLLM's result file, key for key, with tacho's own numbers under one more key at its end.

mod columns;
mod fields;
mod own;
mod save;
mod server;

use std::io::{self, Write};

use tacho_core::json::{self, Dict, Value};
use tacho_metrics::{MetricKind, RunRecord, Sample, Statistics, TaskSummary};

use self::columns::Column;
use self::fields::Fields;
pub use self::save::{SaveMode, save, write_whole};
use crate::style::percent;

/// How much of single requests goes into a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// Latencies and waits only.
    Brief,
    /// Everything, with texts and token times (`--save-detailed`).
    PerRequest,
}

/// The arrays that only a detailed file keeps.
const DETAILED: [&str; 7] = ["input_lens", "output_lens", "start_times", "ttfts", "itls", "generated_texts", "errors"];

/// The content of a result file. Arrays over requests are rendered only when it is written.
pub struct ResultFile<'a> {
    fields: Fields,
    samples: &'a [Sample],
}

impl<'a> ResultFile<'a> {
    /// The whole file.
    pub fn new(record: &'a RunRecord, detail: Detail) -> Self {
        let mut file = Self::vllm(record, detail);
        file.fields.set("tacho", own::fields(record, detail));
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

    /// Writes it as one line without a newline.
    pub fn write_to(&self, out: &mut impl Write) -> io::Result<()> {
        self.fields.write(self.samples, out)
    }

    /// The same as a value. Lone surrogates in generated texts become U+FFFD.
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

/// What was asked. Metadata wins over the keys before it and loses against those after it.
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
    // Only this infinity becomes a text.
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

/// What came out.
fn result_fields(record: &RunRecord) -> Fields {
    let mut fields = Fields::default();
    fields.set("duration", record.measured.duration);
    fields.set("completed", record.summary.completed);
    match &record.summary.task {
        TaskSummary::Generation(_) => generation_fields(record, &mut fields),
        TaskSummary::Pooling(_) => pooling_fields(record, &mut fields),
    }
    probe_fields(record, &mut fields);
    rate_fields(record, &mut fields);
    counter_fields(record, &mut fields);
    for metric in MetricKind::ALL.into_iter().filter(|&metric| record.setup.reports(metric)) {
        if let Some(statistics) = record.summary.statistics(metric) {
            statistics_fields(&mut fields, metric.name(), statistics);
        }
    }
    fields
}

fn generation_fields(record: &RunRecord, fields: &mut Fields) {
    let summary = &record.summary;
    let TaskSummary::Generation(generation) = &summary.task else { return };
    fields.set("failed", summary.failed);
    fields.set("total_input_tokens", summary.total_input);
    fields.set("total_output_tokens", generation.total_output);
    fields.set("request_throughput", summary.request_throughput);
    fields.set("request_goodput", generation.request_goodput);
    fields.set("output_throughput", generation.output_throughput);
    fields.set("total_token_throughput", summary.total_token_throughput);
    fields.set("input_lens", Column::InputLens);
    fields.set("output_lens", Column::OutputLens);
    fields.set("ttfts", Column::Ttfts);
    fields.set("itls", Column::Itls);
    fields.set("latencies", Column::Latencies);
    fields.set("start_times", Column::Sent);
    fields.set("queue_times", Column::QueueTimes);
    fields.set("generated_texts", Column::GeneratedTexts);
    fields.set("errors", Column::Errors);
    fields.set("max_output_tokens_per_s", generation.max_output_tokens_per_s);
    fields.set("max_concurrent_requests", generation.max_concurrent_requests);
    fields.set("rtfx", generation.rtfx);
}

fn pooling_fields(record: &RunRecord, fields: &mut Fields) {
    let summary = &record.summary;
    let TaskSummary::Pooling(pooling) = &summary.task else { return };
    fields.set("total_input_tokens", summary.total_input);
    fields.set("total_input_sequences", pooling.total_input_sequences);
    fields.set("request_throughput", summary.request_throughput);
    fields.set("input_sequence_throughput", pooling.input_sequence_throughput);
    fields.set("total_token_throughput", summary.total_token_throughput);
    fields.set("input_lens", Column::InputLens);
    fields.set("latencies", Column::Latencies);
    fields.set("queue_times", Column::QueueTimes);
    fields.set("errors", Column::Errors);
}

fn probe_fields(record: &RunRecord, fields: &mut Fields) {
    if let Some(probe) = record.measured.probe.filter(|probe| probe.completed > 0) {
        fields.set("probe_completed", probe.completed);
        fields.set("probe_failed", probe.failed);
        fields.set("probe_median_e2el_ms", probe.median_ms);
        fields.set("probe_p99_e2el_ms", probe.p99_ms);
        fields.set("probe_max_e2el_ms", probe.max_ms);
    }
}

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

fn counter_fields(record: &RunRecord, fields: &mut Fields) {
    if let Some(speculative) = &record.measured.speculative {
        fields.set("spec_decode_acceptance_rate", speculative.acceptance_rate);
        fields.set("spec_decode_acceptance_length", speculative.acceptance_length);
        fields.set("spec_decode_num_drafts", speculative.drafts);
        fields.set("spec_decode_draft_tokens", speculative.draft_tokens);
        fields.set("spec_decode_accepted_tokens", speculative.accepted_tokens);
        let rates = speculative.per_position.iter().map(|&rate| Value::Float(rate)).collect();
        fields.set("spec_decode_per_position_acceptance_rates", Value::List(rates));
    }
    if let Some(diffusion) = &record.measured.diffusion {
        fields.set("diffusion_committed_throughput", diffusion.committed_throughput);
        fields.set("diffusion_steps_per_canvas", diffusion.steps_per_canvas);
        fields.set("diffusion_committed_per_step", diffusion.committed_per_step);
        fields.set("diffusion_committed_tokens", diffusion.committed_tokens);
        fields.set("diffusion_denoising_steps", diffusion.denoising_steps);
        fields.set("diffusion_canvas_positions", diffusion.canvas_positions);
    }
}

/// The keys of one metric: `mean_X_ms`, `median_X_ms`, `std_X_ms`, then its percentiles.
fn statistics_fields(fields: &mut Fields, name: &str, statistics: &Statistics) {
    fields.set(&format!("mean_{name}_ms"), statistics.mean_ms);
    fields.set(&format!("median_{name}_ms"), statistics.median_ms);
    fields.set(&format!("std_{name}_ms"), statistics.std_ms);
    for &(percentile, value) in &statistics.percentiles_ms {
        fields.set(&format!("p{}_{name}_ms", percent(percentile)), value);
    }
}
