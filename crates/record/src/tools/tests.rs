use super::*;
use crate::{ResultFields, ResultKind, StoredRun};
use tacho_core::json::{parse, parse_prefix};

/// A file that the tool itself wrote, against a simulator.
fn golden(path: &str) -> Vec<Dict> {
    let path = format!("{}/../../tests/golden/other-tools/{path}", env!("CARGO_MANIFEST_DIR"));
    objects(&std::fs::read_to_string(path).unwrap())
}

fn objects(text: &str) -> Vec<Dict> {
    let (mut rest, mut found) = (text.trim_start(), Vec::new());
    while !rest.is_empty() {
        let (value, used) = parse_prefix(rest).unwrap();
        match value {
            Value::List(items) => found.extend(items.into_iter().map(|item| item.as_dict().unwrap().clone())),
            other => found.push(other.as_dict().unwrap().clone()),
        }
        rest = rest[used..].trim_start();
    }
    found
}

fn one(dicts: Vec<Dict>) -> Dict {
    let [result] = <[Dict; 1]>::try_from(mapped(dicts).unwrap()).unwrap();
    assert_eq!(ResultKind::of(&result), Some(ResultKind::Serving));
    result
}

fn assert_near(result: &Dict, key: &str, expected: f64, tolerance: f64) {
    let found = ResultFields(result).number(key).unwrap_or(f64::NAN);
    assert!((found / expected - 1.0).abs() <= tolerance, "{key}: {found} instead of {expected}");
}

/// The server's own histograms say which definition of a tool is tacho's: mean TTFT and TPOT of each run, in ms.
#[test]
fn mapped_means_are_those_of_the_server() {
    let runs = [
        ("aiperf/profile_export.jsonl", 244.6, 72.59),
        ("guidellm/benchmarks.json", 252.7, 72.11),
        ("genai-bench/D64_64_text-to-text_num_concurrency_8_time_39s.json", 232.4, 72.63),
    ];
    for (file, ttft, tpot) in runs {
        let result = one(golden(file));
        // The client adds up to ten milliseconds to a first token.
        assert_near(&result, "mean_ttft_ms", ttft, 0.08);
        assert_near(&result, "mean_tpot_ms", tpot, 0.003);
        assert_eq!(result.get("failed"), Some(&Value::Int(0)), "{file}");
        let run = StoredRun::from_dict(&result).unwrap();
        assert!(run.spread("p99_ttft_ms").is_some() && run.spread("mean_e2el_ms").is_some(), "{file}");
    }
    // Summaries divide by tokens of the client's tokenizer: 3.6% more than the server generated.
    assert_near(&one(golden("aiperf/profile_export_aiperf.json")), "mean_tpot_ms", 72.59 / 1.038, 0.003);
    assert_near(&one(golden("inference-perf/stage_0_lifecycle_metrics.json")), "mean_tpot_ms", 72.40 / 1.038, 0.003);
    assert_near(&one(golden("inference-perf/stage_0_lifecycle_metrics.json")), "mean_ttft_ms", 217.6, 0.02);
}

#[test]
fn aiperf_counts_tokens_as_the_server_reports_them() {
    let result = one(golden("aiperf/profile_export_aiperf.json"));
    assert_eq!(result.get("total_output_tokens"), Some(&Value::Int(3840)));
    assert_near(&result, "output_throughput", 3840.0 / 38.81, 0.001);
    assert_near(&result, "mean_itl_ms", 73.05, 0.001);
    assert_near(&result, "p99_ttft_ms", 323.46, 0.001);
    assert_near(&result, "mean_e2el_ms", 4836.88, 0.001);
    let text = |key: &str| result.get(key).and_then(Value::as_str).map(str::to_owned);
    assert_eq!((text("tool").as_deref(), text("model_id").as_deref()), (Some("AIPerf 0.13.0"), Some("tacho-sim")));
    assert_eq!((text("request_rate").as_deref(), result.get("max_concurrency")), (Some("inf"), Some(&Value::Int(8))));
    let caveats = ResultFields(&result).caveats().unwrap();
    assert_eq!(caveats[0].kind, "other_definitions");
    assert!(caveats[0].text.starts_with("metrics of AIPerf 0.13.0: TPOT is its inter-token latency"), "{caveats:?}");
    let rows = one(golden("aiperf/profile_export.jsonl"));
    assert_near(&rows, "mean_itl_ms", 73.05, 0.001);
    assert_near(&rows, "request_throughput", 1.545, 0.01);
}

#[test]
fn guidellm_has_no_single_gaps() {
    let result = one(golden("guidellm/benchmarks.json"));
    assert_eq!((result.get("mean_itl_ms"), result.get("itls")), (None, None));
    assert_near(&result, "output_throughput", 99.55, 0.001);
    assert_eq!(result.get("max_concurrency"), Some(&Value::Int(8)));
    // A report that keeps a sample of its requests has statistics only.
    let mut report = golden("guidellm/benchmarks.json").remove(0);
    let mut benchmark = at(&report, "benchmarks.0").unwrap().as_dict().unwrap().clone();
    benchmark.remove("requests");
    report.set("benchmarks", Value::List(vec![benchmark.into()]));
    let sampled = one(vec![report]);
    assert_near(&sampled, "mean_tpot_ms", 72.124, 0.001);
    assert_near(&sampled, "mean_ntpot_ms", 75.08, 0.001);
    assert_near(&sampled, "p99.9_ttft_ms", 373.36, 0.001);
    assert_near(&sampled, "mean_e2el_ms", 4806.5, 0.001);
    assert_eq!(sampled.get("latencies"), None);
}

#[test]
fn inference_perf_is_in_seconds() {
    let stage = one(golden("inference-perf/stage_0_lifecycle_metrics.json"));
    assert_near(&stage, "mean_itl_ms", 72.316, 0.001);
    assert_near(&stage, "p99.9_ttft_ms", 258.09, 0.001);
    assert_near(&stage, "output_throughput", 3840.0 / 38.339, 0.001);
    assert_eq!(stage.get("total_output_tokens"), Some(&Value::Int(3840)));
    let rows = one(golden("inference-perf/per_request_lifecycle_metrics.json"));
    assert_eq!(
        (rows.get("completed"), rows.get("total_output_tokens")),
        (Some(&Value::Int(2)), Some(&Value::Int(128)))
    );
    assert_near(&rows, "mean_itl_ms", 72.4, 0.05);
}

/// Hand-made from the public definition of bench_serving's lines.
#[test]
fn sglang_names_e2el_otherwise() {
    let brief = r#"{"backend": "sglang", "request_rate": Infinity, "max_concurrency": 4, "duration": 2.0, "completed": 2,
        "total_input_tokens": 8, "total_output_tokens": 6, "total_output_tokens_retokenized": 7, "request_throughput": 1.0,
        "output_throughput": 3.0, "mean_e2e_latency_ms": 700.0, "median_e2e_latency_ms": 690.0, "p99_e2e_latency_ms": 800.0,
        "mean_ttft_ms": 250.0, "mean_tpot_ms": 20.0, "p99_itl_ms": 30.0, "concurrency": 0.7, "accept_length": null}"#;
    let result = one(objects(brief));
    assert_near(&result, "mean_e2el_ms", 700.0, 0.0);
    assert_near(&result, "total_token_throughput", 7.0, 0.0);
    assert_eq!((result.get("failed"), result.get("mean_itl_ms")), (None, None));
    let lists = r#", "input_lens": [4, 4], "output_lens": [3, 3], "ttfts": [0.25, 0.5], "errors": ["", ""],
        "itls": [[0.125, 0.125], [0.25, 0.25]], "generated_texts": ["a", "b"]}"#;
    let detailed = one(objects(&(brief.trim_end_matches('}').to_owned() + lists)));
    assert_near(&detailed, "mean_e2el_ms", 750.0, 0.0);
    assert_near(&detailed, "mean_tpot_ms", 187.5, 1e-9);
}

/// Hand-made from the public definition of vllm-bench's result: vLLM's keys, and some of its own.
#[test]
fn results_of_vllm_are_not_changed() {
    let text = r#"{"duration": 2.0, "completed": 2, "request_throughput": 1.0, "mean_ttft_ms": 5.0, "steady_state": {"request_throughput": 2.0}}"#;
    assert_eq!(mapped(objects(text)).unwrap(), objects(text));
    assert_eq!(mapped(golden("vllm/vllm.json")).unwrap(), golden("vllm/vllm.json"));
}

/// Hand-made from the public schema of report 0.2.
#[test]
fn a_benchmark_report_states_its_units() {
    let text = r#"{"version": "0.2.1", "run": {"uid": "u", "time": {"start": "2026-11-17T23:48:33Z", "duration": "PT90S"}},
        "scenario": {"load": {"standardized": {"tool": "guidellm", "tool_version": "0.8.1", "concurrency": 8}}},
        "results": {"request_performance": {"aggregate": {
          "requests": {"total": 64, "failures": 3, "incomplete": 1, "output_length": {"units": "count", "mean": 64.0}},
          "latency": {"time_to_first_token": {"units": "s", "mean": 0.25, "p99p9": 0.5},
                      "time_per_output_token": {"units": "ms/token", "mean": 72.0},
                      "request_latency": {"units": "fortnights", "mean": 1.0}},
          "throughput": {"output_token_rate": {"units": "tokens/s", "mean": 100.0}, "request_rate": {"units": "queries/s", "mean": 1.5}}}}}}"#;
    let result = one(objects(text));
    assert_eq!((result.get("completed"), result.get("failed")), (Some(&Value::Int(60)), Some(&Value::Int(3))));
    for (key, expected) in
        [("mean_ttft_ms", 250.0), ("p99.9_ttft_ms", 500.0), ("mean_tpot_ms", 72.0), ("duration", 40.0)]
    {
        assert_near(&result, key, expected, 1e-9);
    }
    assert_near(&result, "output_throughput", 100.0, 0.0);
    assert_eq!(result.get("mean_e2el_ms"), None, "its unit is unknown");
    assert_eq!(result.get("tool").and_then(Value::as_str), Some("benchmark report 0.2.1 of guidellm 0.8.1"));
}

#[test]
fn a_file_without_what_is_needed_is_refused_in_a_line() {
    let fault = |text: &str| mapped(objects(text)).unwrap_err().to_string();
    let text = fault(r#"{"aiperf_version": "0.13.0", "request_count": {"unit": "requests", "avg": 60.0}}"#);
    assert_eq!(text, "it is a file of AIPerf, but benchmark_duration.avg is not a number");
    assert_eq!(
        fault(r#"{"metadata": {"guidellm_version": "0.8.1"}, "benchmarks": []}"#),
        "it is a file of GuideLLM, but benchmarks is not a list of benchmarks"
    );
    let deep = format!("{}{}", "[".repeat(50), "]".repeat(50));
    assert!(mapped(vec![dict! { "load_summary": parse(&deep).unwrap(), "successes": Value::Null }]).is_err());
}

#[test]
fn names_of_statistics_are_understood() {
    let of = |name: &str| statistic(name).map(|found| TIMES[0].key(found));
    let keys = [("avg", "mean_ttft_ms"), ("std_dev", "std_ttft_ms"), ("p50", "median_ttft_ms"), ("p05", "p5_ttft_ms")];
    let more =
        [("p99.9", "p99.9_ttft_ms"), ("p99p9", "p99.9_ttft_ms"), ("p999", "p99.9_ttft_ms"), ("p001", "p0.1_ttft_ms")];
    for (name, key) in keys.into_iter().chain(more) {
        assert_eq!(of(name).as_deref(), Some(key), "{name}");
    }
    assert!(["count", "pdf", "p9999", "sum", "p"].iter().all(|name| of(name).is_none()));
}

#[test]
fn every_difference_is_documented() {
    let guide = include_str!("../../../../docs/reference/other-tools.md");
    for tool in TOOLS {
        assert!(guide.contains(tool.differs) && guide.contains(tool.file), "{}: {}", tool.name, tool.differs);
    }
}
