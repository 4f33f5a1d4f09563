//! AIPerf: the summary of a run, and the file with its requests.

use tacho_core::json::{Dict, FieldError, Value};

use super::{Mapped, Request, Tool, at, finite, milliseconds, needed, number, text};

pub(super) const SUMMARY: Tool = Tool {
    name: "AIPerf",
    file: "profile_export_aiperf.json",
    differs: "TPOT is its inter-token latency, divided by tokens that its own tokenizer counts; ITL is its inter-chunk latency; \
              TTFT and ITL skip events without content; E2EL ends with the stream",
    recognizes: |dict| dict.get("aiperf_version").is_some() || dict.get("benchmark_duration").is_some_and(has_unit),
    read: |dicts| dicts.iter().map(summary).collect(),
};

pub(super) const REQUESTS: Tool = Tool {
    name: "AIPerf",
    file: "profile_export.jsonl",
    differs: "TTFT and ITL skip events without content; E2EL ends with the stream",
    recognizes: |dict| at(dict, "metrics.request_latency").is_some_and(has_unit) && dict.get("metadata").is_some(),
    read: requests,
};

fn has_unit(value: &Value) -> bool {
    value.get("unit").is_some_and(|unit| unit.as_str().is_some())
}

fn summary(dict: &Dict) -> Result<Mapped, FieldError> {
    let average = |key: &str| number(dict, &format!("{key}.avg"));
    let phases = at(dict, "input_config.phases").and_then(Value::as_list).unwrap_or_default();
    let phase =
        phases.iter().find_map(|phase| phase.as_dict().filter(|phase| phase.get("kind") != Some(&"warmup".into())));
    let load = phase.or_else(|| at(dict, "input_config.loadgen")?.as_dict());
    let load = |names: [&str; 2]| load.and_then(|load| names.into_iter().find_map(|name| number(load, name)));
    let is_clean = at(dict, "error_summary").and_then(Value::as_list).is_some_and(<[Value]>::is_empty);
    let mut result = Mapped {
        version: text(dict, "aiperf_version"),
        date: text(dict, "start_time"),
        model: text(dict, "input_config.models.items.0.name")
            .or_else(|| text(dict, "input_config.endpoint.model_names.0")),
        rate: load(["rate", "request_rate"]),
        concurrency: load(["concurrency", "max_concurrency"]),
        duration: needed(dict, "benchmark_duration.avg")?,
        completed: needed(dict, "request_count.avg")?,
        failed: average("error_request_count").or_else(|| is_clean.then_some(0.0)),
        // What the server reports, as in tacho; else what the client's tokenizer counts.
        input_tokens: average("total_usage_prompt_tokens").or_else(|| average("total_isl")),
        output_tokens: average("total_usage_completion_tokens")
            .or_else(|| average("total_osl"))
            .or_else(|| average("total_output_tokens")),
        ..Mapped::default()
    };
    result.metric("request_goodput", average("goodput"));
    let families = [
        ("ttft", "time_to_first_token"),
        ("tpot", "inter_token_latency"),
        ("itl", "inter_chunk_latency"),
        ("e2el", "request_latency"),
    ];
    for (family, key) in families {
        if let Some(ms) = text(dict, &format!("{key}.unit")).and_then(|unit| milliseconds(&unit)) {
            result.times(family, dict.get(key), ms);
        }
    }
    Ok(result)
}

fn requests(dicts: &[Dict]) -> Result<Vec<Mapped>, FieldError> {
    let is_measured = |row: &&Dict| text(row, "metadata.benchmark_phase").is_none_or(|phase| phase == "profiling");
    let (mut requests, mut failed) = (Vec::new(), 0);
    for row in dicts.iter().filter(is_measured) {
        if row.get("error").is_some_and(|error| *error != Value::Null) {
            failed += 1;
            continue;
        }
        let seconds = |key: &str| {
            let ms = milliseconds(&text(row, &format!("metrics.{key}.unit"))?)?;
            Some((at(row, &format!("metrics.{key}.value"))?, ms / 1e3))
        };
        let time = |key: &str| seconds(key).and_then(|(value, scale)| Some(finite(value)? * scale));
        let tokens = |usage: &str, own: &str| {
            number(row, &format!("metrics.{usage}.value")).or_else(|| number(row, &format!("metrics.{own}.value")))
        };
        requests.push(Request {
            start: number(row, "metadata.request_start_ns").map(|ns| ns / 1e9),
            ttft: time("time_to_first_token"),
            latency: time("request_latency").ok_or_else(|| FieldError::new("a time").at("metrics.request_latency"))?,
            itl: seconds("inter_chunk_latency").and_then(|(gaps, scale)| {
                gaps.as_list()?.iter().map(|gap| Some(finite(gap)? * scale)).collect::<Option<Vec<f64>>>()
            }),
            input: tokens("usage_prompt_tokens", "input_sequence_length"),
            output: tokens("usage_completion_tokens", "output_sequence_length"),
        });
    }
    Ok(vec![Mapped::of_requests(requests, failed)])
}
