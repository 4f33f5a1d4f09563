//! Conversion of a setup to JSON and back.

use tacho_core::StageSpan;
use tacho_core::json::{Dict, Value};
use tacho_metrics::{GoodputLimits, MetricKind, RampUp, RateChange, Setup, Task};

use super::fields::{Fields, floats};
use crate::Error;

const GENERATION: &str = "generation";
const POOLING: &str = "pooling";
const MEDIA: &str = "media";

pub(super) fn write(setup: &Setup) -> Dict {
    let mut dict = Dict::new();
    dict.set("date", setup.date.as_str());
    dict.set("started", setup.started.as_str());
    dict.set("backend", setup.backend.as_str());
    dict.set("label", setup.label.as_deref());
    dict.set("model_id", setup.model_id.as_str());
    dict.set("tokenizer_id", setup.tokenizer_id.as_deref());
    dict.set("num_prompts", setup.num_prompts);
    dict.set("metadata", pairs(&setup.metadata));
    dict.set("request_rate", setup.request_rate);
    dict.set("burstiness", setup.burstiness);
    dict.set("max_concurrency", setup.max_concurrency);
    dict.set("ramp_up", setup.ramp_up.as_ref().map(ramp_up));
    dict.set("rps_change_events", setup.rps_change_events.iter().map(rate_change).collect::<Vec<_>>());
    if !setup.stages.is_empty() {
        dict.set("stages", setup.stages.iter().map(|stage| Value::Dict(stage.to_dict())).collect::<Vec<_>>());
    }
    dict.set("self_timed", setup.self_timed);
    let task = match setup.task {
        Task::Generation => GENERATION,
        Task::Pooling => POOLING,
        Task::Media => MEDIA,
    };
    dict.set("task", task);
    if setup.playback_buffer > 0.0 {
        dict.set("playback_buffer", setup.playback_buffer);
    }
    let names = setup.percentile_metrics.iter().map(|metric| Value::from(metric.name()));
    dict.set("percentile_metrics", names.collect::<Vec<_>>());
    dict.set("metric_percentiles", floats(&setup.metric_percentiles));
    dict.set("goodput", setup.goodput.map(goodput));
    if !setup.class_goodput.is_empty() {
        dict.set("class_goodput", classes(&setup.class_goodput));
    }
    dict.set("price_per_hour", setup.price_per_hour);
    dict.set("gpus", setup.gpus);
    dict.set("strict_parity", setup.strict_parity);
    dict.set("interrupted", setup.interrupted);
    dict.set("workload", setup.workload.as_deref());
    dict
}

pub(super) fn read(fields: Fields<'_>) -> Result<Setup, Error> {
    Ok(Setup {
        date: fields.text("date")?,
        started: fields.text("started")?,
        backend: fields.text("backend")?,
        label: fields.maybe_text("label")?,
        model_id: fields.text("model_id")?,
        tokenizer_id: fields.maybe_text("tokenizer_id")?,
        num_prompts: fields.int("num_prompts")?,
        metadata: fields.objects("metadata")?.iter().map(read_pair).collect::<Result<_, _>>()?,
        request_rate: fields.float("request_rate")?,
        burstiness: fields.float("burstiness")?,
        max_concurrency: fields.maybe("max_concurrency").map(|_| fields.count("max_concurrency")).transpose()?,
        ramp_up: fields.maybe_object("ramp_up")?.map(read_ramp_up).transpose()?,
        rps_change_events: fields
            .objects("rps_change_events")?
            .iter()
            .map(read_rate_change)
            .collect::<Result<_, _>>()?,
        stages: read_stages(fields.maybe("stages")),
        self_timed: fields.flag("self_timed")?,
        task: match fields.text("task")?.as_str() {
            GENERATION => Task::Generation,
            POOLING => Task::Pooling,
            MEDIA => Task::Media,
            _ => return Err(fields.wrong("task", "a task")),
        },
        percentile_metrics: metrics(fields)?,
        metric_percentiles: fields.floats("metric_percentiles")?,
        goodput: fields.maybe("goodput").map(read_goodput),
        class_goodput: fields.maybe("class_goodput").map_or_else(Vec::new, read_classes),
        playback_buffer: fields.maybe("playback_buffer").and_then(Value::as_f64).unwrap_or(0.0),
        price_per_hour: fields.maybe("price_per_hour").and_then(Value::as_f64),
        gpus: fields.maybe("gpus").and_then(Value::as_i64).and_then(|gpus| u64::try_from(gpus).ok()),
        strict_parity: fields.flag("strict_parity")?,
        interrupted: fields.flag("interrupted")?,
        // Logs of older versions lack it.
        workload: fields.maybe_text("workload")?,
    })
}

/// The stages of a log or a result; none without the key.
pub(crate) fn read_stages(stages: Option<&Value>) -> Vec<StageSpan> {
    stages.and_then(Value::as_list).unwrap_or_default().iter().filter_map(StageSpan::from_value).collect()
}

fn metrics(fields: Fields<'_>) -> Result<Vec<MetricKind>, Error> {
    let kind = |name: &Value| MetricKind::ALL.into_iter().find(|kind| Some(kind.name()) == name.as_str());
    let kinds = fields.list("percentile_metrics")?.iter().map(kind).collect::<Option<_>>();
    kinds.ok_or_else(|| fields.wrong("percentile_metrics", "a list of metrics"))
}

/// A list rather than an object, because keys may repeat.
fn pairs(pairs: &[(String, String)]) -> Vec<Value> {
    let pair = |(key, value): &(String, String)| {
        let mut dict = Dict::new();
        dict.set("key", key.as_str());
        dict.set("value", value.as_str());
        Value::Dict(dict)
    };
    pairs.iter().map(pair).collect()
}

fn read_pair(fields: &Fields<'_>) -> Result<(String, String), Error> {
    Ok((fields.text("key")?, fields.text("value")?))
}

fn ramp_up(ramp: &RampUp) -> Dict {
    let mut dict = Dict::new();
    dict.set("strategy", ramp.strategy.as_str());
    dict.set("start_rps", ramp.start_rps);
    dict.set("end_rps", ramp.end_rps);
    dict
}

fn read_ramp_up(fields: Fields<'_>) -> Result<RampUp, Error> {
    Ok(RampUp {
        strategy: fields.text("strategy")?,
        start_rps: fields.int("start_rps")?,
        end_rps: fields.int("end_rps")?,
    })
}

fn rate_change(change: &RateChange) -> Value {
    let mut dict = Dict::new();
    dict.set("rps", change.rps);
    dict.set("timestamp", change.timestamp.as_str());
    Value::Dict(dict)
}

fn read_rate_change(fields: &Fields<'_>) -> Result<RateChange, Error> {
    Ok(RateChange { rps: fields.int("rps")?, timestamp: fields.text("timestamp")? })
}

pub(crate) fn goodput(limits: GoodputLimits) -> Dict {
    let all = [("ttft_ms", limits.ttft_ms), ("tpot_ms", limits.tpot_ms), ("e2el_ms", limits.e2el_ms)];
    all.into_iter().filter_map(|(key, limit)| Some((key.to_owned(), Value::Float(limit?)))).collect()
}

pub(crate) fn classes(limits: &[(String, GoodputLimits)]) -> Dict {
    limits.iter().map(|(name, limits)| (name.clone(), Value::Dict(goodput(*limits)))).collect()
}

pub(crate) fn read_classes(classes: &Value) -> Vec<(String, GoodputLimits)> {
    let classes = classes.as_dict().into_iter().flat_map(Dict::iter);
    classes.map(|(name, limits)| (name.to_owned(), read_goodput(limits))).collect()
}

/// Limits that are missing or malformed are unknown.
pub(crate) fn read_goodput(limits: &Value) -> GoodputLimits {
    let limit = |key: &str| limits.get(key).and_then(Value::as_f64);
    GoodputLimits { ttft_ms: limit("ttft_ms"), tpot_ms: limit("tpot_ms"), e2el_ms: limit("e2el_ms") }
}
