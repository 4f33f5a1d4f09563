//! Command-line errors. Usage errors have argparse's wording, which scripts match. Errors that vLLM detects only
//! during a run are reported here, in one line.

use tacho_args::repr::quoted;
pub(crate) use tacho_args::{ArgumentError, Error as ArgError, UsageError};

/// Latencies and rates that completions offer.
const TIMES: [&str; 4] = ["ttft", "tpot", "itl", "e2el"];
const STATISTICS: [&str; 7] = ["mean", "median", "std", "p50", "p90", "p95", "p99"];
const RATES: [&str; 5] =
    ["request_throughput", "output_throughput", "total_token_throughput", "request_goodput", "failed"];

pub(crate) fn ensure(holds: bool, refusal: impl FnOnce() -> ArgumentError) -> Result<(), ArgumentError> {
    if holds { Ok(()) } else { Err(refusal()) }
}

pub(crate) fn unknown_metric(flag: &str, error: &tacho_record::Error) -> ArgumentError {
    ArgumentError::other(format!("{flag}: {error}"))
}

pub(crate) fn bad_percentile(item: &str) -> ArgumentError {
    ArgumentError::other(format!(
        "--metric-percentiles: {} is not a percentile: use numbers from 0 to 100, separated by commas, such as 50,99",
        quoted(item)
    ))
}

pub(crate) fn bad_mm_limits(text: &str) -> ArgumentError {
    ArgumentError::other(format!(
        "--random-mm-limit-mm-per-prompt {text}: must be a JSON object of whole numbers, such as '{{\"image\": 3}}'"
    ))
}

pub(crate) fn bad_tokenizer_mode(mode: &str) -> ArgumentError {
    ArgumentError::other(format!(
        "--tokenizer-mode {}: use auto, hf, mistral, slow, cohere, deepseek_v32, deepseek_v4, deepseek_v41, inkling or \
         kimi_k3; others need code of their models",
        quoted(mode)
    ))
}

/// A dataset without the content that the backend sends.
pub(crate) fn unfit_dataset(dataset: &str, backend: &str, needs: &str) -> ArgumentError {
    ArgumentError::other(format!(
        "--dataset-name {dataset} has no {needs}, which --backend {backend} sends: choose another dataset"
    ))
}

/// The most common metrics, for rules and completions.
pub(crate) fn metric_names() -> Vec<String> {
    let named = STATISTICS.iter().flat_map(|statistic| TIMES.map(|time| format!("{statistic}_{time}_ms")));
    named.chain(RATES.map(str::to_owned)).collect()
}
