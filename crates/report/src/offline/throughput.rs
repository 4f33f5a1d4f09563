//! `tacho throughput`.

use tacho_core::{dict, json::Dict};
use tacho_metrics::offline::Throughput;

use super::{floats, records::Metric};
use crate::style::two;

pub(super) fn lines(record: &Throughput) -> Vec<String> {
    let mut lines = Vec::new();
    if record.media_uncounted {
        lines.push(
            "\x1b[91mWARNING\x1b[0m: Multi-modal request with this backend detected. The following metrics are not \
             accurate because image tokens are not counted. See vllm-project/vllm/issues/9778 for details."
                .to_owned(),
        );
    }
    lines.push(format!(
        "Throughput: {} requests/s, {} total tokens/s, {} output tokens/s",
        two(record.requests_per_second()),
        two(record.tokens_per_second()),
        two(record.output_tokens_per_second())
    ));
    lines.push(format!("Total num prompt tokens:  {}", record.prompt_tokens));
    lines.push(format!("Total num output tokens:  {}", record.output_tokens));
    if let Some(interval) = record.rate_interval(record.total_tokens()) {
        let (runs, low, high) = (record.times.len(), two(interval.low), two(interval.high));
        lines.push(format!("95% interval of {runs} runs: {low} to {high} total tokens/s"));
    }
    if record.failed > 0 {
        lines.push(format!("Failed requests:  {}", record.failed));
    }
    lines
}

fn vllm_keys(record: &Throughput, model: &str) -> Dict {
    dict! {
        "model_id": model,
        "elapsed_time": record.elapsed(),
        "num_requests": record.num_requests,
        "total_num_tokens": record.total_tokens(),
        "requests_per_second": record.requests_per_second(),
        "tokens_per_second": record.tokens_per_second(),
    }
}

pub(super) fn keys(record: &Throughput, model: &str) -> (Dict, Dict) {
    let dict = vllm_keys(record, model);
    let mut tacho = dict! {
        "num_prompt_tokens": record.prompt_tokens,
        "num_output_tokens": record.output_tokens,
        "output_tokens_per_second": record.output_tokens_per_second(),
        "failed": record.failed,
        "profile_seconds": record.profile_seconds,
        "elapsed_times": floats(&record.times),
    };
    for (key, amount) in [("requests_per_second", record.num_requests), ("tokens_per_second", record.total_tokens())] {
        if let Some(interval) = record.rate_interval(amount) {
            tacho.set(format!("{key}_ci95"), floats(&[interval.low, interval.high]));
        }
    }
    (dict, tacho)
}

pub(super) fn metrics(record: &Throughput, model: &str) -> Vec<Metric> {
    let keys = vllm_keys(record, model);
    let extra: Dict = ["elapsed_time", "num_requests", "total_num_tokens"]
        .iter()
        .filter_map(|key| Some(((*key).to_owned(), keys.get(key)?.clone())))
        .collect();
    let metric = |name: &str, value| Metric { name: name.to_owned(), values: vec![value], extra: extra.clone() };
    vec![
        metric("requests_per_second", record.requests_per_second()),
        metric("tokens_per_second", record.tokens_per_second()),
    ]
}
