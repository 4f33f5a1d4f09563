//! Compares files of every session format with their expected model.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::path::Path;

use serde_json::Value;
use tacho_core::json::dumps;
use tacho_testkit::{golden_files, golden_json, golden_path};
use tacho_workload::sessions::{self, Format, Options, Scaling, Trace, TraceError};

/// Formats whose rows also match another format.
const NAMED: [&str; 3] = ["aiperf-raw-payload.jsonl", "sglang-openai.jsonl", "aiperf-random-pool.jsonl"];

fn read(path: &Path, format: Option<&str>) -> Result<Trace, TraceError> {
    sessions::read(path, format.map(|name| Format::named(name).unwrap()), &Options::default())
}

fn printed(trace: &Trace) -> Value {
    serde_json::from_str(&dumps(&trace.to_json())).unwrap()
}

fn text(name: &str, text: &str) -> (tempfile::TempDir, std::path::PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(name);
    std::fs::write(&path, text).unwrap();
    (directory, path)
}

/// Compares and lists all differences; numbers may differ by `within`.
fn compare(path: &str, found: &Value, expected: &Value, within: f64, out: &mut Vec<String>) {
    match (found, expected) {
        (Value::Object(left), Value::Object(right)) => {
            for key in left.keys().filter(|key| !right.contains_key(*key)) {
                out.push(format!("{path}.{key}: not expected"));
            }
            for (key, expected) in right {
                compare(&format!("{path}.{key}"), left.get(key).unwrap_or(&"missing".into()), expected, within, out);
            }
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            for (index, (left, right)) in left.iter().zip(right).enumerate() {
                compare(&format!("{path}[{index}]"), left, right, within, out);
            }
        }
        (Value::Number(left), Value::Number(right)) => {
            if (left.as_f64().unwrap() - right.as_f64().unwrap()).abs() > within {
                out.push(format!("{path}: {left} is not {right}"));
            }
        }
        _ if found == expected => {}
        _ => out.push(format!("{path}: {found} is not {expected}")),
    }
}

#[test]
fn block_ids_of_64_bits_are_exact() {
    let line = |ids: &str| {
        format!("{{\"timestamp\": 0, \"input_length\": 1024, \"output_length\": 1, \"hash_ids\": [{ids}]}}\n")
    };
    let rows = line("18446744073709551615, 12345678901234567890") + &line("18446744073709551615, 12345678901234567891");
    let (_directory, path) = text("trace.jsonl", &rows);
    let trace = read(&path, None).unwrap();
    let shared = |location: usize| trace.steps[location].blocks.as_ref().unwrap().cached_ideal;
    assert_eq!((shared(0), shared(1)), (0, 512), "the second block differs in one bit");
    for (format, name) in [(Format::Mooncake, "again.jsonl"), (Format::Model, "again.json")] {
        let written = trace.written_as(format).unwrap();
        assert!(written.contains("12345678901234567890") && written.contains("12345678901234567891"), "{written}");
        let (_directory, path) = text(name, &written);
        let again = read(&path, None).unwrap();
        assert_eq!(again.steps[1].blocks.as_ref().unwrap().named, trace.steps[1].blocks.as_ref().unwrap().named);
    }
    let (_directory, path) = text("bad.jsonl", &line("18446744073709551616, 1"));
    let fault = read(&path, None).unwrap_err().to_string();
    assert!(fault.contains("from 0 to 2^64 - 1"), "{fault}");
}

#[test]
fn blocks_that_do_not_fit_say_which_size_would() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/predict/trace.jsonl");
    let fault = read(&path, None).unwrap_err().to_string();
    assert!(fault.contains("line 4") && fault.contains("94 tokens at most"), "{fault}");
    assert!(
        fault.contains("--sessions-option block_size=N") && fault.contains("--dataset-name timed_trace"),
        "{fault}"
    );
}

#[test]
fn every_format_reads_as_recorded() {
    let files = golden_files("sessions", ".expected.json");
    assert!(files.len() >= 19);
    for path in files {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let expected = golden_json(&format!("sessions/{name}"));
        let file = expected["file"].as_str().unwrap();
        let format = NAMED.contains(&file).then(|| expected["format"].as_str().unwrap());
        let trace = read(&golden_path(&format!("sessions/{file}")), format).unwrap();
        let within = if name.starts_with("otel") || name.starts_with("azure") { 1e-3 } else { 0.0 };
        let mut differences = Vec::new();
        compare(&name, &printed(&trace), &expected, within, &mut differences);
        assert!(differences.is_empty(), "{}", differences.join("\n"));
    }
}

#[test]
fn a_trace_may_be_a_line() {
    let lines = read(&golden_path("sessions/weka-1.jsonl"), None).unwrap();
    let document = read(&golden_path("sessions/weka-1.json"), None).unwrap();
    assert_eq!(lines.steps, document.steps);
}

#[test]
fn the_options_that_are_printed_are_taken() {
    for path in golden_files("sessions", ".expected.json") {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let expected = golden_json(&format!("sessions/{name}"));
        let format = Format::named(expected["format"].as_str().unwrap()).unwrap();
        let options = expected["options"].as_object().unwrap().iter();
        let options: Vec<String> =
            options.map(|(key, value)| format!("{key}={}", value.to_string().trim_matches('"'))).collect();
        let options = Options::parse(options.iter().map(String::as_str)).unwrap();
        let file = golden_path(&format!("sessions/{}", expected["file"].as_str().unwrap()));
        let trace = sessions::read(&file, Some(format), &options).unwrap();
        let mut differences = Vec::new();
        compare(&name, &printed(&trace), &expected, 1e-3, &mut differences);
        assert!(differences.is_empty(), "{}", differences.join("\n"));
    }
}

#[test]
fn malformed_files_are_refused_with_line_and_field() {
    let index = golden_json("sessions/malformed/index.json");
    for (name, entry) in index.as_object().unwrap() {
        let path = golden_path(&format!("sessions/malformed/{name}"));
        let error = read(&path, entry["format"].as_str()).expect_err(name);
        let location = match &error {
            TraceError::Field { location, field, .. } => {
                assert!(!field.is_empty(), "{name}");
                location.clone()
            }
            TraceError::NotJson { location, .. }
            | TraceError::Graph { location, .. }
            | TraceError::Empty { location } => location.clone(),
            other => panic!("{name}: {other}"),
        };
        if let Some(line) = entry["line"].as_u64() {
            assert_eq!(location.line, Some(line as usize), "{name}: {error}");
            assert!(error.to_string().contains(&format!("line {line}")), "{name}: {error}");
        }
        assert!(error.to_string().contains(name.as_str()), "{name}: {error}");
    }
}

#[test]
fn what_is_printed_reads_back() {
    for path in golden_files("sessions", ".expected.json") {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name.contains("random-pool") {
            continue;
        }
        let once = printed(&read(&path, None).unwrap());
        let mut differences = Vec::new();
        compare(&name, &once, &golden_json(&format!("sessions/{name}")), 0.0, &mut differences);
        assert!(differences.is_empty(), "{}", differences.join("\n"));
    }
}

#[test]
fn rows_that_two_formats_have_must_be_named() {
    for name in &NAMED[..2] {
        let said = read(&golden_path(&format!("sessions/{name}")), None).unwrap_err().to_string();
        assert!(said.contains("--format") && said.contains("raw_payload") && said.contains("sglang openai"), "{said}");
    }
    let (_directory, path) = text("x.jsonl", "{\"colour\": 1}\n");
    let said = read(&path, None).unwrap_err().to_string();
    assert!(said.contains("colour") && said.contains("--format"), "{said}");
    let said = Format::named("moonbeam").unwrap_err().to_string();
    assert!(said.contains("moonbeam") && said.contains("mooncake"), "{said}");
}

#[test]
fn options_are_checked() {
    let file = golden_path("sessions/mooncake-single.jsonl");
    let with = |text: &str| sessions::read(&file, None, &Options::parse([text]).unwrap());
    assert!(with("colour=red").unwrap_err().to_string().contains("block_size"));
    assert!(with("block_size=0").unwrap_err().to_string().contains("at least 1"));
    assert!(with("timestamp_unit=min").unwrap_err().to_string().contains("ms or s"));
    assert_eq!(with("timestamp_unit=s").unwrap().steps[3].at_ms, Some(2_500_000.0));
    assert!(Options::parse(["block_size"]).is_err());
}

#[test]
fn lengths_that_can_be_read_in_two_ways_are_refused() {
    let rows = "{\"session_id\": \"a\", \"input_length\": 512, \"hash_ids\": [1]}\n\
                {\"session_id\": \"a\", \"input_length\": 512, \"hash_ids\": [2]}\n";
    let (_directory, path) = text("x.jsonl", rows);
    let said = read(&path, None).unwrap_err().to_string();
    assert!(said.contains("line 2") && said.contains("input_length_is=cumulative"), "{said}");
    let asked = Options::parse(["input_length_is=delta"]).unwrap();
    assert_eq!(sessions::read(&path, None, &asked).unwrap().steps.len(), 2);
}

#[test]
fn undeclared_agents_are_told_when_asked_for() {
    let file = golden_path("sessions/weka-flat.json");
    let options = Options::parse(["infer_flat_agents=true"]).unwrap();
    let trace = sessions::read(&file, None, &options).unwrap();
    let ids: Vec<String> = trace.steps.iter().map(|step| step.id()).collect();
    assert_eq!(ids, ["wk-flat/0", "wk-flat/1", "wk-flat/2", "wk-flat/3", "wk-flat::fa:000/0", "wk-flat::fa:000/1"]);
    let starts: Vec<Option<f64>> = trace.steps.iter().map(|step| step.notes.recorded_start_ms).collect();
    assert_eq!(starts, [0.0, 2000.0, 7000.0, 20000.0, 3000.0, 9000.0].map(Some));
    let joined: Vec<usize> = trace.steps[3].parents.iter().map(|edge| edge.parent).collect();
    assert_eq!(joined, [2, 5], "joined by the first call after its end");
    let plain = read(&file, None).unwrap();
    assert!(plain.notices.iter().any(|notice| notice.contains("2 requests start before")), "{:?}", plain.notices);
}

#[test]
fn a_template_that_is_spawned_twice_is_two_sessions() {
    let rows = "{\"session_id\": \"o\", \"orchestrator\": true, \"rounds\": 2, \"spawns\": [\"w\"]}\n\
                {\"session_id\": \"w\", \"turns\": [{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}]}]}\n";
    let (_directory, path) = text("x.jsonl", rows);
    let trace = read(&path, None).unwrap();
    let waits = |location: usize| {
        let parents = trace.steps[location].parents.iter().map(|edge| trace.steps[edge.parent].id());
        (trace.steps[location].id(), parents.collect::<Vec<String>>())
    };
    assert_eq!(waits(1), ("o/1".into(), vec!["o/0".into(), "w/0".into()]));
    assert_eq!(waits(2), ("o/2".into(), vec!["o/1".into(), "w#2/0".into()]));
    assert_eq!(waits(4), ("w#2/0".into(), vec!["o/1".into()]));
    assert_eq!(trace.trees().1, 1);
}

#[test]
fn exports_of_spans_are_read() {
    let span = |id: &str, start: u64, end: u64, said: &str| {
        serde_json::json!({"traceId": "t", "spanId": id, "startTimeUnixNano": start.to_string(),
        "endTimeUnixNano": end.to_string(), "attributes": [
            {"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}},
            {"key": "gen_ai.usage.input_tokens", "value": {"intValue": "7"}},
            {"key": "gen_ai.input.messages", "value": {"stringValue":
                serde_json::json!([{"role": "user", "parts": [{"type": "text", "content": said}]}]).to_string()}},
        ]})
    };
    let start = 1_767_225_600_000_000_000;
    let spans = [
        span("b", start + 1_500_000_000, start + 2_000_000_000, "two"),
        span("a", start, start + 1_000_000_001, "one"),
    ];
    let export = serde_json::json!({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]});
    let (_directory, path) = text("x.json", &export.to_string());
    let trace = read(&path, None).unwrap();
    let shown = printed(&trace);
    assert_eq!(shown["requests"][0]["content"]["messages"], serde_json::json!([{"role": "user", "content": "one"}]));
    assert_eq!(shown["requests"][0]["input_tokens"], 7);
    assert_eq!(shown["requests"][1]["parents"], serde_json::json!([{"id": "t/0", "after_ms": 499.999999}]));
}

#[test]
fn scaling_never_breaks_a_session() {
    let whole = || read(&golden_path("sessions/mooncake-session.jsonl"), None).unwrap();
    let mut trace = whole();
    trace.scale(&Scaling { time_scale: Some(0.5), ..Scaling::default() }).unwrap();
    assert_eq!((trace.steps[1].parents[0].after_ms, trace.steps[3].at_ms), (750.0, Some(2000.0)));
    let mut trace = whole();
    trace.scale(&Scaling { window_ms: (Some(200.0), Some(950.0)), ..Scaling::default() }).unwrap();
    let ids: Vec<String> = trace.steps.iter().map(|step| step.id()).collect();
    assert_eq!(ids, ["b/0", "b/1", "c/0", "c/1"], "the session that begins in the window is there to its end");
    assert_eq!((trace.steps[0].at_ms, trace.steps[1].parents[0].parent), (Some(0.0), 0));
    let mut trace = whole();
    trace.scale(&Scaling { sample: Some((2, 7)), ..Scaling::default() }).unwrap();
    assert_eq!(trace.trees().1, 2);
    let mut again = whole();
    again.scale(&Scaling { sample: Some((2, 7)), ..Scaling::default() }).unwrap();
    assert_eq!(trace.steps, again.steps, "a seed is a draw");
    let mut trace = whole();
    trace.scale(&Scaling { idle_gap_cap_ms: Some(500.0), ..Scaling::default() }).unwrap();
    assert_eq!((trace.steps[1].parents[0].after_ms, trace.steps[2].at_ms), (500.0, Some(250.5)));
    assert_eq!(trace.steps[3].at_ms, Some(1700.0), "what was 2.8 s after the last is 0.5 s after it");
    let mut trace = whole();
    assert!(trace.scale(&Scaling { window_ms: (Some(1e9), None), ..Scaling::default() }).is_err());
}

#[test]
fn a_trace_can_be_written_in_another_format() {
    let trace = read(&golden_path("sessions/sharegpt.json"), None).unwrap();
    let written = trace.written_as(Format::Conversations).unwrap();
    let (_directory, path) = text("conv.json", &written);
    assert_eq!(read(&path, None).unwrap().steps, trace.steps);
    let trace = read(&golden_path("sessions/mooncake-cumulative.jsonl"), None).unwrap();
    let (_directory, path) = text("m.jsonl", &trace.written_as(Format::Mooncake).unwrap());
    assert_eq!(read(&path, None).unwrap().steps, trace.steps);
    let trace = read(&golden_path("sessions/aiperf-multi-turn.jsonl"), None).unwrap();
    let (_directory, path) = text("t.jsonl", &trace.written_as(Format::MultiTurn).unwrap());
    assert_eq!(read(&path, None).unwrap().steps, trace.steps);
    let said = read(&golden_path("sessions/aiperf-dag.jsonl"), None).unwrap().written_as(Format::Mooncake).unwrap_err();
    assert!(said.to_string().contains("r1/1"), "{said}");
}

#[test]
fn a_table_of_prompts_keeps_its_times_and_sessions() {
    let rows = r#"{"timestamp_start_unix_ms": 1700000002500, "prompt": "b", "input_tokens": 1, "output_tokens": 4, "poor_man_session_id": "p"}
{"timestamp_start_unix_ms": 1700000001000, "prompt": "a", "input_tokens": 1, "output_tokens": 3, "poor_man_session_id": "p"}
{"timestamp_start_unix_ms": 1700000001500, "input_tokens": 9, "output_tokens": 2}
"#;
    let (_directory, path) = text("baseten.jsonl", rows);
    let trace = read(&path, None).unwrap();
    assert_eq!(trace.format.label(), "aiperf baseten_trace");
    let told: Vec<(String, Option<f64>, usize)> =
        trace.steps.iter().map(|step| (step.id(), step.at_ms, step.parents.len())).collect();
    let expected = [("p/0", 0.0, 0), ("row2/0", 500.0, 0), ("p/1", 1500.0, 1)];
    assert_eq!(told, expected.map(|(id, at, parents)| (id.to_owned(), Some(at), parents)));
    let (_directory, path) = text("baseten.jsonl", "{\"timestamp_start_unix_ms\": 1, \"output_tokens\": 2}\n");
    assert!(read(&path, None).unwrap_err().to_string().contains("line 1: input_tokens: is missing"));
}

#[test]
fn rounds_go_on_from_their_prefix_after_their_tools() {
    let rows = r#"{"session_id": "s", "round_index": 1, "prefix_tokens": 110, "newly_append_tokens": 7, "input_tokens_total": 117, "output_tokens": 5, "tools": []}
{"session_id": "s", "round_index": 0, "prefix_tokens": 60, "newly_append_tokens": 40, "output_tokens": 10, "tools": [{"tool_wall_latency_ms": 300}, {"tool_wall_latency_ms": 50.5}]}
"#;
    let (_directory, path) = text("tracelab.jsonl", rows);
    let trace = read(&path, None).unwrap();
    assert_eq!((trace.format.label(), trace.steps[1].parents[0].after_ms), ("tracelab", 350.5));
    let blocks = |at: usize| trace.steps[at].blocks.clone().unwrap();
    assert_eq!(blocks(0).named.iter().map(|(_, tokens)| *tokens).collect::<Vec<_>>(), [60, 40]);
    assert_eq!(blocks(1).named.iter().map(|(_, tokens)| *tokens).collect::<Vec<_>>(), [60, 40, 10, 7]);
    assert_eq!((blocks(1).named[..2].to_vec(), blocks(1).cached_ideal), (blocks(0).named, 100));
    let (_directory, path) = text("tracelab.jsonl", &rows.replace("117", "118"));
    assert!(read(&path, None).unwrap_err().to_string().contains("input_tokens_total: 118 is not"));
}

#[test]
fn what_a_file_cannot_say_is_told_or_refused() {
    let read_back = |file: &str| {
        let trace = read(&golden_path(&format!("sessions/{file}")), None).unwrap();
        let (_directory, path) = text("back.jsonl", &trace.written_as(Format::Mooncake).unwrap());
        let options = trace.reading(Format::Mooncake);
        let options = Options::parse(options.iter().map(String::as_str)).unwrap();
        (sessions::read(&path, None, &options).unwrap(), trace)
    };
    for file in ["bailian.jsonl", "weka-flat.json", "mooncake-cumulative.jsonl", "mooncake-session.jsonl"] {
        let (back, trace) = read_back(file);
        let told = |trace: &Trace| -> Vec<_> {
            let step = |step: &sessions::Step| (step.input_tokens, step.history.clone(), step.blocks.clone());
            trace.steps.iter().map(step).collect()
        };
        assert_eq!(told(&back), told(&trace), "{file}");
    }
    let pool = read(&golden_path("sessions/aiperf-random-pool.jsonl"), Some("random_pool")).unwrap();
    assert!(pool.written_as(Format::Mooncake).unwrap_err().to_string().contains("pool"));
    // Two traces with local block names.
    let line = std::fs::read_to_string(golden_path("sessions/weka-flat.json")).unwrap();
    let one: Value = serde_json::from_str(&line).unwrap();
    let mut other = one.clone();
    other["id"] = "another".into();
    let (_directory, path) = text("two.jsonl", &format!("{one}\n{other}\n"));
    let written = read(&path, None).unwrap().written_as(Format::Mooncake).unwrap();
    let first = |session: &str| {
        let row = written.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        row.clone().find(|row| row["session_id"] == session).unwrap()["hash_ids"][0].clone()
    };
    assert_ne!(first(one["id"].as_str().unwrap()), first("another"));
}
