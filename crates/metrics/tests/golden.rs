//! Golden vectors of vLLM's metrics: statistics bit for bit, and summaries of synthetic outcomes.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use serde_json::Value;
use tacho_core::FailureKind;
use tacho_metrics::statistics::{mean, standard_deviation};
use tacho_metrics::{
    GoodputLimits, MetricKind, MetricSettings, RareFields, Sample, Samples, Setup, Statistics, Summary, Task,
    TaskSummary,
};
use tacho_testkit::golden_json;

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

fn floats(value: &Value) -> Vec<f64> {
    value.as_array().map_or_else(Vec::new, |items| items.iter().map(number).collect())
}

/// A synthetic outcome; missing fields have vLLM's defaults.
fn sample(output: &Value, output_len: u64) -> Sample {
    let float = |key: &str| output[key].as_f64().unwrap_or(0.0);
    let success = output["success"].as_bool().unwrap_or(false);
    Sample {
        sent: float("start_time"),
        ttft: float("ttft"),
        itl: floats(&output["itl"]).into(),
        latency: float("latency"),
        output_tokens: output["output_tokens"].as_u64().filter(|&tokens| tokens > 0),
        output_len,
        prompt_len: output["prompt_len"].as_u64().unwrap_or(0),
        num_input_sequences: output["num_input_sequences"].as_u64().unwrap_or(1),
        rare: RareFields { input_audio_duration: float("input_audio_duration"), ..RareFields::default() }.into(),
        failure: (!success).then_some(FailureKind::Malformed),
        ..Sample::default()
    }
}

fn setup(case: &Value, task: Task) -> Setup {
    let limit = |name: &str| case["goodput_ms"][name].as_f64();
    let limits = GoodputLimits { ttft_ms: limit("ttft"), tpot_ms: limit("tpot"), e2el_ms: limit("e2el") };
    Setup {
        task,
        metric_percentiles: floats(&case["percentiles"]),
        metrics: if limits == GoodputLimits::default() { MetricSettings::default() } else { limits.into() },
        ..Setup::example()
    }
}

fn check_statistics(case: &Value, name: &str, statistics: &Statistics) {
    let label = format!("{} {name}", case["name"]);
    let metrics = &case["metrics"];
    assert_eq!(statistics.mean_ms, number(&metrics[format!("mean_{name}_ms")]), "{label} mean");
    assert_eq!(statistics.median_ms, number(&metrics[format!("median_{name}_ms")]), "{label} median");
    assert_eq!(statistics.std_ms, number(&metrics[format!("std_{name}_ms")]), "{label} std");
    let percentiles = metrics[format!("percentiles_{name}_ms")].as_array().unwrap();
    assert_eq!(statistics.percentiles_ms.len(), percentiles.len(), "{label} percentiles");
    for (pair, expected) in statistics.percentiles_ms.iter().zip(percentiles) {
        assert_eq!([pair.0, pair.1], floats(expected).as_slice(), "{label} percentile");
    }
}

#[test]
fn statistics_equal_numpys() {
    let golden = golden_json("metrics/statistics.json");
    let cases = golden["cases"].as_array().unwrap();
    assert!(!cases.is_empty());
    for case in cases {
        let values = floats(&case["values"]);
        let n = values.len();
        assert_eq!(mean(&values), number(&case["mean"]), "mean of {n}");
        assert_eq!(standard_deviation(&values), number(&case["std"]), "std of {n}");
        let mut sorted = values;
        sorted.sort_by(f64::total_cmp);
        assert_eq!(tacho_metrics::percentile::median(&sorted), number(&case["median"]), "median of {n}");
        for pair in case["percentiles"].as_array().unwrap() {
            let value = tacho_metrics::percentile::percentile(&sorted, number(&pair[0]));
            assert_eq!(value, number(&pair[1]), "p{} of {n}", pair[0]);
        }
    }
}

#[test]
fn generation_summaries_equal_vllms() {
    let golden = golden_json("metrics/generation.json");
    for case in golden["cases"].as_array().unwrap() {
        let lengths = case["actual_output_lens"].as_array().unwrap();
        let outputs = case["outputs"].as_array().unwrap();
        let samples: Samples =
            outputs.iter().zip(lengths).map(|(output, length)| sample(output, length.as_u64().unwrap())).collect();
        let summary = Summary::of(&setup(case, Task::Generation), &samples, number(&case["duration_s"]));
        let generation = summary.generation().unwrap();
        let metrics = &case["metrics"];
        let numbers = [
            ("completed", summary.completed as f64),
            ("failed", summary.failed as f64),
            ("total_input", summary.total_input as f64),
            ("total_output", generation.total_output as f64),
            ("request_throughput", summary.request_throughput),
            ("request_goodput", generation.request_goodput.unwrap_or(0.0)),
            ("output_throughput", generation.output_throughput),
            ("total_token_throughput", summary.total_token_throughput),
            ("max_output_tokens_per_s", generation.max_output_tokens_per_s),
            ("max_concurrent_requests", generation.max_concurrent_requests as f64),
            ("rtfx", generation.rtfx),
        ];
        for (key, value) in numbers {
            assert_eq!(value, number(&metrics[key]), "{} {key}", case["name"]);
        }
        for metric in [MetricKind::Ttft, MetricKind::Tpot, MetricKind::Itl, MetricKind::E2el] {
            check_statistics(case, metric.name(), summary.statistics(metric).unwrap());
        }
    }
}

#[test]
fn pooling_summaries_equal_vllms() {
    let golden = golden_json("metrics/embeddings.json");
    for case in golden["cases"].as_array().unwrap() {
        let samples: Samples = case["outputs"].as_array().unwrap().iter().map(|output| sample(output, 0)).collect();
        let summary = Summary::of(&setup(case, Task::Pooling), &samples, number(&case["duration_s"]));
        let TaskSummary::Pooling(pooling) = &summary.task else { panic!("a pooling run has a pooling summary") };
        let metrics = &case["metrics"];
        let numbers = [
            ("completed", summary.completed as f64),
            ("failed", summary.failed as f64),
            ("total_input", summary.total_input as f64),
            ("total_input_sequences", pooling.total_input_sequences as f64),
            ("request_throughput", summary.request_throughput),
            ("input_sequence_throughput", pooling.input_sequence_throughput),
            ("total_token_throughput", summary.total_token_throughput),
        ];
        for (key, value) in numbers {
            assert_eq!(value, number(&metrics[key]), "{} {key}", case["name"]);
        }
        check_statistics(case, "e2el", summary.statistics(MetricKind::E2el).unwrap());
        assert!(summary.statistics(MetricKind::Ttft).is_none());
    }
}
