//! GuideLLM: a report with one benchmark per load, and its requests unless it keeps only a sample of them.

use tacho_core::json::{Dict, FieldError, Value};

use super::{Mapped, Request, Tool, at, needed, number, text};

pub(super) const REPORT: Tool = Tool {
    name: "GuideLLM",
    file: "benchmarks.json",
    differs: "TTFT skips events without content; it keeps no single gaps, so ITL is absent. Without its requests, TPOT is its \
              inter-token latency, weighted by tokens, and E2EL ends with the stream",
    recognizes: |dict| {
        text(dict, "metadata.guidellm_version").is_some()
            || text(dict, "benchmarks.0.type_").is_some_and(|kind| kind == "generative_benchmark")
    },
    read: |dicts| {
        let reports = dicts.iter().map(report).collect::<Result<Vec<_>, _>>()?;
        Ok(reports.into_iter().flatten().collect())
    },
};

fn report(dict: &Dict) -> Result<Vec<Mapped>, FieldError> {
    let missing = || FieldError::new("a list of benchmarks").at("benchmarks");
    let list = dict.get("benchmarks").and_then(Value::as_list).filter(|list| !list.is_empty()).ok_or_else(missing)?;
    let version = text(dict, "metadata.guidellm_version");
    let one = |item: &Value| {
        let found = benchmark(item.as_dict().ok_or_else(missing)?)?;
        Ok(Mapped { version: version.clone(), ..found })
    };
    list.iter().map(one).collect()
}

fn benchmark(dict: &Dict) -> Result<Mapped, FieldError> {
    let strategy =
        |key: &str| ["config", "args", "scheduler"].iter().find_map(|part| at(dict, &format!("{part}.strategy.{key}")));
    let number_of = |key: &str| strategy(key).and_then(super::finite);
    let kind = strategy("type_").and_then(Value::as_str).unwrap_or_default();
    let is_closed = ["concurrent", "synchronous", "throughput"].contains(&kind);
    let completed = needed(dict, "metrics.request_totals.successful")?;
    let total = |key: &str| number(dict, &format!("metrics.{key}.successful.total_sum"));
    let mut result = Mapped {
        model: text(dict, "config.backend.model"),
        rate: number_of("rate").filter(|_| !is_closed),
        concurrency: number_of("streams")
            .or_else(|| number_of("max_concurrency").filter(|_| is_closed))
            .or((kind == "synchronous").then_some(1.0)),
        duration: needed(dict, "duration")?,
        completed,
        failed: number(dict, "metrics.request_totals.errored"),
        input_tokens: total("prompt_token_count"),
        output_tokens: total("output_token_count"),
        ..Mapped::default()
    };
    let rows = at(dict, "requests.successful").and_then(Value::as_list).unwrap_or_default();
    let requests: Vec<Request> = rows.iter().filter_map(|row| request(row.as_dict()?)).collect();
    if requests.len() as f64 == completed && completed > 0.0 {
        result.requests = requests;
        return Ok(result);
    }
    let families = [
        ("ttft", "time_to_first_token_ms", 1.0),
        ("tpot", "inter_token_latency_ms", 1.0),
        ("ntpot", "time_per_output_token_ms", 1.0),
        ("e2el", "request_latency", 1e3),
    ];
    for (family, key, ms) in families {
        let path = format!("metrics.{key}.successful");
        // Without values GuideLLM writes zeros.
        if number(dict, &format!("{path}.count")).is_none_or(|count| count > 0.0) {
            result.times(family, at(dict, &path), ms);
            result.times(family, at(dict, &format!("{path}.percentiles")), ms);
        }
    }
    Ok(result)
}

/// A request; `None` if it lacks a time.
fn request(row: &Dict) -> Option<Request> {
    let time = |key: &str| number(row, &format!("info.timings.{key}"));
    let start = time("request_start")?;
    Some(Request {
        start: Some(start),
        ttft: time("first_token_iteration").map(|first| first - start),
        // The last token, as in tacho; without streaming the end of the request.
        latency: time("last_token_iteration").or_else(|| time("request_end"))? - start,
        itl: None,
        input: number(row, "input_metrics.text_tokens"),
        output: number(row, "output_metrics.text_tokens"),
    })
}
