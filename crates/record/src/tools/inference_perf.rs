//! inference-perf: the summary of a run or stage, and the file with its requests.

use tacho_core::json::{Dict, FieldError, Value};

use super::{LATENCIES, Mapped, Request, Tool, at, finite, needed, number, text};

pub(super) const SUMMARY: Tool = Tool {
    name: "inference-perf",
    file: "stage_0_lifecycle_metrics.json, summary_lifecycle_metrics.json",
    differs: "TPOT is divided by tokens that its own tokenizer counts, unless it is told to use the server's; E2EL ends with the stream; \
              waits for its own workers are not in any latency",
    recognizes: |dict| dict.get("load_summary").is_some() && dict.get("successes").is_some(),
    read: |dicts| dicts.iter().map(summary).collect(),
};

pub(super) const REQUESTS: Tool = Tool {
    name: "inference-perf",
    file: "per_request_lifecycle_metrics.json",
    differs: "waits for its own workers are not in any latency",
    recognizes: |dict| ["start_time", "end_time", "info", "error"].iter().all(|key| dict.get(key).is_some()),
    read: requests,
};

fn summary(dict: &Dict) -> Result<Mapped, FieldError> {
    let concurrency = number(dict, "load_summary.concurrency");
    let (duration, completed) = (needed(dict, "benchmark_time_seconds")?, needed(dict, "successes.count")?);
    // The server's counts where the file has them; rates are of its own tokenizer's.
    let tokens = |total: &str, rate: &str| {
        number(dict, &format!("successes.{total}.total"))
            .or_else(|| Some(number(dict, &format!("successes.throughput.{rate}"))? * duration))
    };
    let mut result = Mapped {
        rate: number(dict, "load_summary.requested_rate").filter(|_| concurrency.is_none()),
        concurrency,
        duration,
        completed,
        failed: number(dict, "failures.count"),
        input_tokens: tokens("prompt_tokens", "input_tokens_per_sec"),
        output_tokens: tokens("output_tokens", "output_tokens_per_sec"),
        ..Mapped::default()
    };
    for (family, key) in LATENCIES {
        result.times(family, at(dict, &format!("successes.latency.{key}")), 1e3);
    }
    Ok(result)
}

fn requests(dicts: &[Dict]) -> Result<Vec<Mapped>, FieldError> {
    let (mut requests, mut failed) = (Vec::new(), 0);
    for row in dicts {
        if row.get("error").is_some_and(|error| *error != Value::Null) {
            failed += 1;
            continue;
        }
        let (start, end) = (needed(row, "start_time")?, needed(row, "end_time")?);
        let times = ["output_token_times", "chunk_times"].iter().find_map(|key| {
            let found = ["info.response_metrics", "info"].iter().find_map(|part| at(row, &format!("{part}.{key}")));
            found?.as_list()?.iter().map(finite).collect::<Option<Vec<f64>>>()
        });
        let times = times.filter(|times| !times.is_empty());
        let tokens = |usage: &str, own: [&str; 2]| {
            let reported = number(row, &format!("info.response_metrics.server_usage.{usage}"));
            reported.or_else(|| own.iter().find_map(|path| number(row, path)))
        };
        requests.push(Request {
            start: Some(start),
            ttft: times.as_ref().map(|times| times[0] - start),
            latency: times.as_ref().and_then(|times| times.last().copied()).unwrap_or(end) - start,
            itl: times.as_ref().map(|times| times.windows(2).map(|pair| pair[1] - pair[0]).collect()),
            input: tokens("prompt_tokens", ["info.request_metrics.text.input_tokens", "info.input_tokens"]),
            output: tokens("completion_tokens", ["info.response_metrics.output_tokens", "info.output_tokens"]),
        });
    }
    let model = dicts.first().and_then(|row| text(row, "info.model"));
    Ok(vec![Mapped { model, ..Mapped::of_requests(requests, failed) }])
}
