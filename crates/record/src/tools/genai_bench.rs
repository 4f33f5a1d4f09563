//! genai-bench: one run, with the metrics of its requests but not their start times.

use tacho_core::json::{Dict, FieldError, Value};

use super::{Mapped, Request, Tool, at, needed, number, text};

pub(super) const RUN: Tool = Tool {
    name: "genai-bench",
    file: "its file per run, such as D64_64_text-to-text_num_concurrency_8_time_39s.json",
    differs: "TTFT skips events without content; E2EL ends with the stream; it keeps no single gaps, so ITL is absent; it may \
              complete more requests than it is asked for",
    recognizes: |dict| dict.get("aggregated_metrics").is_some() && dict.get("individual_request_metrics").is_some(),
    read: |dicts| dicts.iter().map(run).collect(),
};

fn run(dict: &Dict) -> Result<Mapped, FieldError> {
    let seconds = if text(dict, "_time_unit").as_deref() == Some("ms") { 1e-3 } else { 1.0 };
    let rows = at(dict, "individual_request_metrics").and_then(Value::as_list).unwrap_or_default();
    let is_good =
        |row: &&Dict| row.get("error_code").is_none_or(|code| *code == Value::Null || code.as_i64() == Some(200));
    let rows = rows.iter().filter_map(Value::as_dict).filter(is_good);
    let request = |row: &Dict| {
        Ok(Request {
            start: None,
            ttft: number(row, "ttft").map(|time| time * seconds),
            latency: needed(row, "e2e_latency")? * seconds,
            itl: None,
            input: number(row, "num_input_tokens"),
            output: number(row, "num_output_tokens"),
        })
    };
    let requests = rows.map(request).collect::<Result<Vec<_>, FieldError>>()?;
    let failed = number(dict, "aggregated_metrics.num_error_requests");
    Ok(Mapped {
        concurrency: number(dict, "aggregated_metrics.num_concurrency"),
        // The unit of times is that of requests only.
        duration: needed(dict, "aggregated_metrics.run_duration")?,
        failed,
        ..Mapped::of_requests(requests, 0)
    })
}
