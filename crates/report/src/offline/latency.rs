//! `tacho latency`.

use tacho_core::json::{Dict, Value, float_repr};
use tacho_metrics::offline::Latency;

use super::percentile_dict;
use super::records::Metric;

pub(super) fn lines(record: &Latency) -> Vec<String> {
    let mut lines = vec![format!("Avg latency: {} seconds", float_repr(record.average()))];
    for (percent, value) in record.percentiles() {
        lines.push(format!("{percent}% percentile latency: {} seconds", float_repr(value)));
    }
    if let Some(interval) = record.interval() {
        let (low, high) = (float_repr(interval.low), float_repr(interval.high));
        lines.push(format!("95% interval of the mean: {low} to {high} seconds"));
    }
    if let Some(drift) = record.drift() {
        let direction = if drift.fraction > 0.0 { "slower" } else { "faster" };
        let percent = drift.fraction.abs() * 100.0;
        lines.push(format!(
            "Note: iterations became {direction} by {percent:.0}% from first to last; raise --num-iters-warmup, or \
             look for a machine that is heating up or shared."
        ));
    }
    let done = record.latencies.len() as u64;
    if done < record.planned {
        lines.push(format!("Ended after {done} of {} iterations.", record.planned));
    }
    lines
}

pub(super) fn keys(record: &Latency, model: &str) -> (Dict, Dict) {
    let mut dict = Dict::new();
    dict.set("model_id", model);
    dict.set("avg_latency", record.average());
    dict.set("latencies", record.latencies.iter().map(|&value| Value::Float(value)).collect::<Vec<_>>());
    dict.set("percentiles", percentile_dict(&record.percentiles()));
    let mut own = Dict::new();
    own.set("num_iters", record.planned);
    if let Some(interval) = record.interval() {
        own.set("avg_latency_ci95", vec![Value::Float(interval.low), Value::Float(interval.high)]);
    }
    if let Some(drift) = record.drift() {
        own.set("drift", drift.fraction);
    }
    (dict, own)
}

/// The metrics of PyTorch's format.
pub(super) fn metrics(record: &Latency) -> Vec<Metric> {
    let mut extra = Dict::new();
    extra.set("avg_latency", record.average());
    extra.set("percentiles", percentile_dict(&record.percentiles()));
    vec![Metric { name: "latency".to_owned(), values: record.latencies.clone(), extra }]
}
