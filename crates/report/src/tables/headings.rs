//! The rows of vLLM's dashboard tables: result keys under the headings that people and scripts know. Headings of
//! metrics are in the table of metrics; here are those of settings.

use tacho_core::json::{Dict, Value};
use tacho_record::{ResultKind, metric::Known};

/// Headings of columns that are not metrics, or that vLLM's tables name differently from its report.
const NAMED: &[(&str, &str)] = &[
    ("test_name", "Test name"),
    ("model_id", "Model"),
    ("dataset_name", "Dataset Name"),
    ("input_len", "Input Len"),
    ("output_len", "Output Len"),
    ("tp_size", "TP Size"),
    ("pp_size", "PP Size"),
    ("gpu_type", "GPU"),
    ("max_concurrency", "# of max concurrency."),
    // vLLM's tables omit the metric of these two, and scripts rely on it.
    ("median_tpot_ms", "Median"),
    ("p99_tpot_ms", "P99"),
    ("P50", "Median latency (ms)"),
    ("P99", "P99 latency (ms)"),
];

/// The keys of each table's columns; columns without values are omitted.
fn keys(kind: ResultKind) -> &'static [&'static str] {
    match kind {
        ResultKind::Serving => &[
            "test_name",
            "model_id",
            "dataset_name",
            "input_len",
            "output_len",
            "tp_size",
            "pp_size",
            "dtype",
            "gpu_type",
            "completed",
            "qps",
            "max_concurrency",
            "request_throughput",
            "total_token_throughput",
            "output_throughput",
            "mean_ttft_ms",
            "median_ttft_ms",
            "p99_ttft_ms",
            "std_ttft_ms",
            "mean_tpot_ms",
            "median_tpot_ms",
            "p99_tpot_ms",
            "std_tpot_ms",
            "mean_itl_ms",
            "median_itl_ms",
            "p99_itl_ms",
        ],
        ResultKind::Latency => &["test_name", "gpu_type", "avg_latency", "P50", "P99"],
        ResultKind::Startup => &[
            "test_name",
            "gpu_type",
            "avg_cold_startup_time",
            "avg_cold_compilation_time",
            "avg_warm_startup_time",
            "avg_warm_compilation_time",
        ],
        ResultKind::Throughput => &[
            "test_name",
            "gpu_type",
            "num_requests",
            "total_num_tokens",
            "elapsed_time",
            "requests_per_second",
            "tokens_per_second",
        ],
    }
}

fn heading(key: &str) -> String {
    let named = NAMED.iter().find(|(name, _)| *name == key).map(|(_, heading)| (*heading).to_owned());
    named.unwrap_or_else(|| Known::find(key).map_or_else(|| key.to_owned(), |number| number.heading(key)))
}

pub(crate) fn order(kind: ResultKind) -> Vec<String> {
    keys(kind).iter().map(|key| heading(key)).collect()
}

pub(crate) fn row(kind: ResultKind, result: &Dict) -> Dict {
    let present = keys(kind).iter().filter_map(|key| Some((heading(key), result.get(key)?)));
    present.map(|(heading, value)| (heading, value.clone())).collect()
}

/// The row of a serving result as the run wrote it, without its commands.
pub(crate) fn serving_row(result: &Dict) -> Dict {
    let mut result = result.clone();
    if result.get("qps").is_none()
        && let Some(rate) = result.get("request_rate")
    {
        let rate = rate.clone();
        result.set("qps", rate);
    }
    // Without a limit all requests may be in flight at once.
    if result.get("max_concurrency").is_none_or(|limit| *limit == Value::Null) {
        let _ = result.remove("max_concurrency");
    }
    row(ResultKind::Serving, &result)
}

pub(crate) fn has_headings(row: &Dict) -> bool {
    row.get("Test name").is_some()
}
