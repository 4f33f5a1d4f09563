//! Benchmark report 0.2 of llm-d: statistics with their units, of any tool.

use tacho_core::json::{Dict, FieldError, Value};

use super::{LATENCIES, Mapped, Tool, at, milliseconds, needed, number, text};

pub(super) const REPORT: Tool = Tool {
    name: "benchmark report",
    file: "benchmark_report_v0.2 (JSON or YAML)",
    differs: "definitions are those of the tool that it was made from, above all of TPOT, ITL and output tokens",
    recognizes: |dict| {
        text(dict, "version").is_some_and(|version| version.starts_with("0.2")) && at(dict, AGGREGATE).is_some()
    },
    read: |dicts| dicts.iter().map(report).collect(),
};

const AGGREGATE: &str = "results.request_performance.aggregate";

fn report(dict: &Dict) -> Result<Mapped, FieldError> {
    let aggregate = |path: &str| at(dict, AGGREGATE).and_then(Value::as_dict).and_then(|part| at(part, path));
    let value = |path: &str| aggregate(path).and_then(super::finite);
    let load = |key: &str| number(dict, &format!("scenario.load.standardized.{key}"));
    let failed = value("requests.failures");
    let total = needed(dict, &format!("{AGGREGATE}.requests.total"))?;
    let completed = (total - failed.unwrap_or(0.0) - value("requests.incomplete").unwrap_or(0.0)).max(0.0);
    // The stated time may include the start of the load generator.
    let rate = needed(dict, &format!("{AGGREGATE}.throughput.request_rate.mean"))?;
    let tokens = |key: &str| Some(value(&format!("requests.{key}.mean"))? * completed);
    let tool = |key: &str| text(dict, &format!("scenario.load.standardized.{key}"));
    let made_by = tool("tool").map(|name| format!("{name} {}", tool("tool_version").unwrap_or_default()));
    let version = text(dict, "version").unwrap_or_default();
    let mut result = Mapped {
        version: Some(made_by.map_or_else(|| version.clone(), |tool| format!("{version} of {}", tool.trim()))),
        date: text(dict, "run.time.start"),
        model: text(dict, "scenario.stack.0.standardized.model.name"),
        rate: load("rate_qps"),
        concurrency: load("concurrency"),
        duration: if rate > 0.0 { completed / rate } else { 0.0 },
        completed,
        failed,
        input_tokens: tokens("input_length"),
        output_tokens: tokens("output_length"),
        ..Mapped::default()
    };
    for (key, name) in [("output_throughput", "output_token_rate"), ("total_token_throughput", "total_token_rate")] {
        result.metric(key, value(&format!("throughput.{name}.mean")));
    }
    for (family, key) in LATENCIES {
        let of = aggregate(&format!("latency.{key}"));
        if let Some(ms) = of.and_then(|of| milliseconds(of.get("units")?.as_str()?)) {
            result.times(family, of, ms);
        }
    }
    Ok(result)
}
