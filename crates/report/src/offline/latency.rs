//! `tacho latency`.

use tacho_core::dict;
use tacho_core::json::{Dict, float_repr};
use tacho_metrics::offline::{Latency, drift, percentiles};
use tacho_metrics::{Interval, statistics::mean};

use super::{floats, percentile_dict, records::Metric};

pub(super) fn lines(record: &Latency) -> Vec<String> {
    let mut lines = vec![format!("Avg latency: {} seconds", float_repr(mean(&record.latencies)))];
    for (percent, value) in percentiles(&record.latencies) {
        lines.push(format!("{percent}% percentile latency: {} seconds", float_repr(value)));
    }
    if let Some(interval) = Interval::of_mean(&record.latencies) {
        let (low, high) = (float_repr(interval.low), float_repr(interval.high));
        lines.push(format!("95% interval of the mean: {low} to {high} seconds"));
    }
    if let Some(drift) = drift(&record.latencies) {
        let direction = if drift > 0.0 { "slower" } else { "faster" };
        let percent = drift.abs() * 100.0;
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
    let dict = dict! {
        "model_id": model,
        "avg_latency": mean(&record.latencies),
        "latencies": floats(&record.latencies),
        "percentiles": percentile_dict(&percentiles(&record.latencies)),
    };
    let interval = Interval::of_mean(&record.latencies);
    let tacho = dict! {
        "num_iters": record.planned,
        "avg_latency_ci95"?: interval.map(|interval| floats(&[interval.low, interval.high])),
        "drift"?: drift(&record.latencies),
    };
    (dict, tacho)
}

pub(super) fn metrics(record: &Latency) -> Vec<Metric> {
    let extra = dict! {
        "avg_latency": mean(&record.latencies),
        "percentiles": percentile_dict(&percentiles(&record.latencies)),
    };
    vec![Metric { name: "latency".to_owned(), values: record.latencies.clone(), extra }]
}
