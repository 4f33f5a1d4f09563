//! The rows of vLLM's dashboard tables: result keys under the headings that people and scripts know them by.

use tacho_core::json::{Dict, Value};

/// A key of a result and its heading.
type Column = (&'static str, &'static str);

/// The columns of serving results; those that no row has are left out.
pub(crate) const SERVING: &[Column] = &[
    ("test_name", "Test name"),
    ("model_id", "Model"),
    ("dataset_name", "Dataset Name"),
    ("input_len", "Input Len"),
    ("output_len", "Output Len"),
    ("tp_size", "TP Size"),
    ("pp_size", "PP Size"),
    ("dtype", "dtype"),
    ("gpu_type", "GPU"),
    ("completed", "# of req."),
    ("qps", "qps"),
    ("max_concurrency", "# of max concurrency."),
    ("request_throughput", "Tput (req/s)"),
    ("total_token_throughput", "Total Token Tput (tok/s)"),
    ("output_throughput", "Output Tput (tok/s)"),
    ("mean_ttft_ms", "Mean TTFT (ms)"),
    ("median_ttft_ms", "Median TTFT (ms)"),
    ("p99_ttft_ms", "P99 TTFT (ms)"),
    ("std_ttft_ms", "STD TTFT (ms)"),
    ("mean_tpot_ms", "Mean TPOT (ms)"),
    // These two have no name of their metric in vLLM's tables, and scripts read them so.
    ("median_tpot_ms", "Median"),
    ("p99_tpot_ms", "P99"),
    ("std_tpot_ms", "STD TPOT (ms)"),
    ("mean_itl_ms", "Mean ITL (ms)"),
    ("median_itl_ms", "Median ITL (ms)"),
    ("p99_itl_ms", "P99 ITL (ms)"),
];

/// The columns of latency results.
pub(crate) const LATENCY: &[Column] = &[
    ("test_name", "Test name"),
    ("gpu_type", "GPU"),
    ("avg_latency", "Mean latency (ms)"),
    ("P50", "Median latency (ms)"),
    ("P99", "P99 latency (ms)"),
];

/// The columns of start-up results.
pub(crate) const STARTUP: &[Column] = &[
    ("test_name", "Test name"),
    ("gpu_type", "GPU"),
    ("avg_cold_startup_time", "Mean cold startup (s)"),
    ("avg_cold_compilation_time", "Mean cold compilation (s)"),
    ("avg_warm_startup_time", "Mean warm startup (s)"),
    ("avg_warm_compilation_time", "Mean warm compilation (s)"),
];

/// The columns of throughput results.
pub(crate) const THROUGHPUT: &[Column] = &[
    ("test_name", "Test name"),
    ("gpu_type", "GPU"),
    ("num_requests", "# of req."),
    ("total_num_tokens", "Total # of tokens"),
    ("elapsed_time", "Elapsed time (s)"),
    ("requests_per_second", "Tput (req/s)"),
    ("tokens_per_second", "Tput (tok/s)"),
];

/// The row of a result: its values under the headings.
pub(crate) fn row(columns: &[Column], result: &Dict) -> Dict {
    let present = columns.iter().filter_map(|(key, heading)| Some((*heading, result.get(key)?)));
    present.map(|(heading, value)| (heading.to_owned(), value.clone())).collect()
}

/// The row of a serving result as written by the run itself, without the commands that led to it.
pub(crate) fn serving_row(result: &Dict) -> Dict {
    let mut result = result.clone();
    if result.get("qps").is_none()
        && let Some(rate) = result.get("request_rate")
    {
        let rate = rate.clone();
        result.set("qps", rate);
    }
    // Without a limit all requests may be under way at once.
    if result.get("max_concurrency").is_none_or(|limit| *limit == Value::Null) {
        let _ = result.remove("max_concurrency");
    }
    row(SERVING, &result)
}

/// Whether a row has headings already.
pub(crate) fn has_headings(row: &Dict) -> bool {
    row.get("Test name").is_some()
}
