//! Benchmark report 0.2 of llm-d: the metrics of a serving result as statistics with units.

use std::path::Path;

use tacho_core::dict;
use tacho_core::json::{Dict, Value, dumps_indented};
use tacho_metrics::statistics::Statistic;
use tacho_record::{ResultFields, metric::TIMES, restored};

use crate::{Error, json::write_text};

const PERCENTILES: [(&str, f64); 11] = [
    ("p0p1", 0.1),
    ("p1", 1.0),
    ("p5", 5.0),
    ("p10", 10.0),
    ("p25", 25.0),
    ("p50", 50.0),
    ("p75", 75.0),
    ("p90", 90.0),
    ("p95", 95.0),
    ("p99", 99.0),
    ("p99p9", 99.9),
];

pub fn save(result: &Dict, path: &Path) -> Result<(), Error> {
    let text = dumps_indented(&report(result).into(), 2) + "\n";
    write_text(path, &text)
}

pub fn report(result: &Dict) -> Dict {
    let fields = ResultFields(result);
    let (failed, total) = fields.failures().map_or((None, fields.number("completed")), |(failed, total)| {
        (Some(Value::Int(failed as i64)), Some(total as f64))
    });
    let rate = |key: &str, unit: &str| fields.number(key).map(|mean| dict! { "units": unit, "mean": mean });
    let length = |key: &str| {
        let mean = fields.number(key)? / fields.number("completed").filter(|completed| *completed > 0.0)?;
        Some(dict! { "units": "count", "mean": mean })
    };
    let start = fields.tacho("start").and_then(Value::as_str).or_else(|| result.text("date"));
    let duration = fields.number("duration");
    dict! {
        "version": "0.2",
        "run": dict! {
            "uid": uid(fields),
            "time": dict! {
                "start"?: start.filter(|start| start.contains('T')),
                "duration"?: duration.map(|seconds| format!("PT{seconds:.3}S")),
            },
        },
        "scenario": dict! { "load": load(fields) },
        "results": dict! { "request_performance": dict! { "aggregate": dict! {
            "requests": dict! {
                "total": Value::Int(total.unwrap_or(0.0) as i64),
                "failures"?: failed,
                "input_length"?: length("total_input_tokens"),
                "output_length"?: length("total_output_tokens"),
            },
            "latency": dict! {
                "time_to_first_token"?: times(fields, "ttft", "ms"),
                "normalized_time_per_output_token"?: times(fields, "ntpot", "ms/token"),
                "time_per_output_token"?: times(fields, "tpot", "ms/token"),
                "inter_token_latency"?: times(fields, "itl", "ms/token"),
                "request_latency"?: times(fields, "e2el", "ms"),
            },
            "throughput": dict! {
                "output_token_rate"?: rate("output_throughput", "tokens/s"),
                "total_token_rate"?: rate("total_token_throughput", "tokens/s"),
                "request_rate"?: rate("request_throughput", "queries/s"),
            },
        } } },
    }
}

/// The same for copies of a result, and different for other runs.
fn uid(fields: ResultFields<'_>) -> String {
    let text = |key: &str| fields.0.text(key).unwrap_or_default().replace(['/', ' '], "-");
    let number = |key: &str| fields.number(key).unwrap_or(0.0).to_bits();
    format!("{}-{}-{:016x}{:016x}", text("model_id"), text("date"), number("duration"), number("request_throughput"))
}

/// The load; `None` if the result does not say how long its prompts are.
fn load(fields: ResultFields<'_>) -> Option<Dict> {
    let provenance = restored::provenance(fields.0);
    let tool = fields.0.text("tool").and_then(|tool| tool.rsplit_once(' '));
    let (tool, version) = match (tool, provenance.tacho) {
        (Some((tool, version)), _) => (tool.to_owned(), version.to_owned()),
        (None, Some(version)) => ("tacho".to_owned(), version),
        (None, None) => ("vllm-benchmark".to_owned(), "unknown".to_owned()),
    };
    let completed = fields.number("completed").filter(|completed| *completed > 0.0)?;
    let length = |key: &str| Some(dict! { "distribution": "other", "value": fields.number(key)? / completed });
    let is_random = provenance.dataset.as_deref().is_some_and(|name| name.starts_with("random"));
    Some(dict! {
        "metadata": dict! { "schema_version": "0.0.1", "cfg_id"?: fields.tacho("workload").cloned() },
        "standardized": dict! {
            "tool": tool,
            "tool_version": version,
            "source": match provenance.dataset { Some(_) if is_random => "random", Some(_) => "sampled", None => "unknown" },
            "input_seq_len": length("total_input_tokens")?,
            "output_seq_len"?: length("total_output_tokens"),
            "rate_qps"?: fields.number("request_rate").filter(|rate| rate.is_finite() && *rate > 0.0),
            "concurrency"?: fields.number("max_concurrency").filter(|limit| *limit >= 1.0).map(|limit| Value::Int(limit as i64)),
        },
        "native": dict! { "args"?: provenance.command.map(|command| dict! { "command": command }) },
    })
}

/// The statistics of a family of latencies; `None` without a mean.
fn times(fields: ResultFields<'_>, family: &str, unit: &str) -> Option<Dict> {
    let times = TIMES.iter().find(|times| times.name == family)?;
    let value = |statistic: Statistic| fields.number(&times.key(statistic)).filter(|value| value.is_finite());
    let mut found = dict! { "units": unit, "mean": value(Statistic::Mean)?, "stddev"?: value(Statistic::Deviation) };
    for (name, percent) in PERCENTILES {
        value(Statistic::Percentile(percent)).into_iter().for_each(|value| found.set(name, value));
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tacho_core::json::parse;

    fn result() -> Dict {
        let text = r#"{"date": "20261117-234833", "model_id": "m", "request_rate": "inf", "max_concurrency": 8, "duration": 38.5,
            "completed": 60, "failed": 2, "total_input_tokens": 4680, "total_output_tokens": 3840, "request_throughput": 1.5,
            "output_throughput": 99.5, "mean_ttft_ms": 283.25, "median_ttft_ms": 305.5, "p99_ttft_ms": 318.5, "std_ttft_ms": 5.0,
            "mean_tpot_ms": 72.25, "p99.9_e2el_ms": 5.0, "tacho": {"start": "2026-11-17T23:48:33Z"}}"#;
        parse(text).unwrap().as_dict().unwrap().clone()
    }

    /// Hand-made from the public definition of report 0.2: required keys, units, and no unknown ones.
    #[test]
    fn a_report_has_the_keys_and_units_of_its_schema() {
        let report = Value::Dict(report(&result()));
        let at = |path: &str| path.split('.').try_fold(&report, |value, part| value.get(part));
        let aggregate = |path: &str| at(&format!("results.request_performance.aggregate.{path}"));
        assert_eq!(aggregate("requests.total").and_then(Value::as_i64), Some(62));
        assert_eq!(aggregate("requests.output_length.mean").and_then(Value::as_f64), Some(64.0));
        let ttft = aggregate("latency.time_to_first_token").unwrap();
        let expected = r#"{"units": "ms", "mean": 283.25, "stddev": 5.0, "p50": 305.5, "p99": 318.5}"#;
        assert_eq!(tacho_core::json::dumps(ttft), expected);
        assert_eq!(aggregate("latency.time_per_output_token.units").and_then(Value::as_str), Some("ms/token"));
        assert!(aggregate("latency.request_latency").is_none() && aggregate("latency.inter_token_latency").is_none());
        assert_eq!(at("run.time.duration").and_then(Value::as_str), Some("PT38.500S"));
        assert_eq!(at("scenario.load.standardized.concurrency").and_then(Value::as_i64), Some(8));
        assert!(at("scenario.load.standardized.rate_qps").is_none() && at("run.uid").is_some());
        for key in ["metadata", "standardized.tool", "standardized.tool_version", "standardized.source", "native"] {
            assert!(at(&format!("scenario.load.{key}")).is_some(), "{key}");
        }
    }

    #[test]
    fn a_report_is_read_back() {
        let back = tacho_record::tools::mapped(vec![report(&result())]).unwrap().remove(0);
        let same =
            ["completed", "failed", "mean_ttft_ms", "median_ttft_ms", "output_throughput", "total_output_tokens"];
        for key in same {
            assert_eq!(ResultFields(&back).number(key), ResultFields(&result()).number(key), "{key}");
        }
        assert_eq!(back.get("mean_itl_ms"), None);
    }
}
