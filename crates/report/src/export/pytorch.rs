//! The PyTorch benchmark format: one record per latency metric, next to the result file.

use std::path::Path;

use tacho_core::dict;
use tacho_core::json::{Dict, Value, dumps};
use tacho_record::RunRecord;

use crate::Error;
use crate::json::{Detail, ResultFile, map_floats, write_text};

/// The metrics that get a record, in order.
const METRICS: [&str; 12] = [
    "median_ttft_ms",
    "mean_ttft_ms",
    "std_ttft_ms",
    "p99_ttft_ms",
    "mean_tpot_ms",
    "median_tpot_ms",
    "std_tpot_ms",
    "p99_tpot_ms",
    "median_itl_ms",
    "mean_itl_ms",
    "std_itl_ms",
    "p99_itl_ms",
];

/// Arrays that a record omits.
const LEFT_OUT: [&str; 4] = ["ttfts", "itls", "generated_texts", "errors"];

/// The records of a result, one per metric that it has. `args` are the flags with their final values,
/// `result_filename` is the user's name for the file, if any.
pub fn records(result: &Dict, args: &Dict, result_filename: Option<&str>) -> Vec<Value> {
    let benchmark = benchmark(result, args, result_filename);
    let mut extra = result.clone();
    for key in METRICS.iter().chain(&LEFT_OUT) {
        extra.remove(key);
    }
    let one = |name: &str, value: &Value| record(&benchmark, args, name, vec![value.clone()].into(), extra.clone());
    METRICS.iter().filter_map(|name| Some(one(name, result.get(name)?))).collect()
}

/// The record of a metric. This format writes infinities as strings.
pub(crate) fn record(benchmark: &Dict, args: &Dict, name: &str, values: Value, extra: Dict) -> Value {
    let metric = dict! { "name": name, "benchmark_values": values, "extra_info": extra };
    let model = dict! { "name": args.get("model").cloned() };
    let record = dict! { "benchmark": benchmark.clone(), "model": model, "metric": metric };
    map_floats(record.into(), &|number| if number.is_infinite() { "inf".into() } else { number.into() })
}

/// Writes the records of `record` to `path`; a run without any of the metrics leaves no file.
pub fn save(
    record: &RunRecord,
    detail: Detail,
    args: &Dict,
    result_filename: Option<&str>,
    path: &Path,
) -> Result<(), Error> {
    let records = records(&ResultFile::vllm(record, detail).to_dict(), args, result_filename);
    if records.is_empty() {
        return Ok(());
    }
    write_text(path, &dumps(&Value::List(records)))
}

fn benchmark(result: &Dict, args: &Dict, result_filename: Option<&str>) -> Dict {
    let mut args = args.clone();
    if let Some(size) = result.get("tensor_parallel_size") {
        args.set("tensor_parallel_size", size.clone());
    }
    let mode = result.get("compilation_config.mode").cloned().unwrap_or_else(|| Value::from(""));
    let eager = result_filename.is_some_and(|name| name.contains("eager"));
    let extra = dict! {
        "args": args,
        "compilation_config.mode": mode.clone(),
        "optimization_level": result.get("optimization_level").cloned().unwrap_or_else(|| Value::from("")),
        "use_compile": !(mode.as_str() == Some("0") || eager),
    };
    dict! { "name": "vLLM benchmark", "extra_info": extra }
}
