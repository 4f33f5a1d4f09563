//! `console/` and `result/`: runs against a scripted server. A detailed file contains every value of its run, so that
//! the printed numbers and the other keys must follow from it.

use std::path::{Path, PathBuf};

use tacho_core::{FailureKind, json::Value};
use tacho_metrics::{
    DiffusionCounters, DiffusionStatistics, ProbeStatistics, RareFields, Sample, Setup, SpeculativeCounters,
    SpeculativeStatistics,
};
use tacho_record::{Measured, RunRecord};
use tacho_report::console::vllm_report;
use tacho_report::json::{Detail, ResultFile};
use tacho_testkit::{golden_files, golden_text};

use crate::given::{Flags, assert_same, float, list, rate_changes, read, text, whole};

/// The recorded runs that succeeded and saved one result file, with that file.
fn runs() -> Vec<(String, Value, Value)> {
    let mut found = Vec::new();
    for directory in ["console", "result"] {
        for path in golden_files(directory, ".case.json") {
            let case = read(&path);
            let stem = path.to_string_lossy().strip_suffix(".case.json").unwrap().to_owned();
            if case.get("exit_code") != Some(&Value::Int(0)) {
                continue;
            }
            if let Some(saved) = saved(Path::new(&format!("{stem}.files"))) {
                let name = format!("{directory}/{}", Path::new(&stem).file_name().unwrap().to_string_lossy());
                found.push((name, case, read(&saved)));
            }
        }
    }
    assert!(found.len() > 100, "only {} runs found", found.len());
    found
}

fn saved(directory: &Path) -> Option<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(directory).ok()?.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.is_file() && !path.to_string_lossy().ends_with(".pytorch.json"));
    files.into_iter().next()
}

/// The setup of a run; facts that only the server knew come from the file.
fn setup(case: &Value, file: &Value) -> Setup {
    Setup {
        date: text(file, "date").into(),
        model_id: text(file, "model_id").into(),
        tokenizer_id: file.get("tokenizer_id").and_then(Value::as_str).map(str::to_owned),
        rps_change_events: rate_changes(file),
        ..Flags::of(case).setup()
    }
}

fn samples(file: &Value) -> Vec<Sample> {
    let at = |key: &str, at: usize| list(file, key).get(at).cloned().unwrap_or(Value::Null);
    let number = |key: &str, index: usize| at(key, index).as_f64().unwrap_or(0.0);
    let mut samples: Vec<Sample> = (0..list(file, "latencies").len())
        .map(|index| {
            let (sent, latency) = (number("start_times", index), number("latencies", index));
            let output_len = number("output_lens", index) as u64;
            Sample {
                dispatched: sent - number("queue_times", index),
                sent,
                done: sent + latency,
                ttft: number("ttfts", index),
                itl: at("itls", index).as_list().unwrap_or(&[]).iter().filter_map(Value::as_f64).collect(),
                latency,
                output_tokens: Some(output_len),
                output_len,
                prompt_len: number("input_lens", index) as u64,
                failure: (latency == 0.0).then_some(FailureKind::Malformed),
                rare: RareFields {
                    error: at("errors", index).as_str().unwrap_or("").into(),
                    text: at("generated_texts", index).as_str().unwrap_or("").into(),
                    ..RareFields::default()
                }
                .into(),
                ..Sample::default()
            }
        })
        .collect();
    // The file contains only the sums of these.
    if let Some(first) = samples.iter_mut().find(|sample| sample.success()) {
        first.num_input_sequences = file.get("total_input_sequences").map_or(0, whole);
        first.input_audio_duration = float(file, "rtfx") * float(file, "duration");
    }
    samples
}

/// The counters come from the texts of the scripted server: two before the run, two after.
fn measured(case: &Value, file: &Value) -> Measured {
    let routes = case.get("server_script").and_then(|script| script.get("routes"));
    let bodies =
        routes.and_then(|routes| list(routes, "GET /metrics").first()).map_or(&[][..], |answer| list(answer, "bodies"));
    let body = |at: usize| bodies.get(at.min(bodies.len().saturating_sub(1))).and_then(Value::as_str).unwrap_or("");
    let duration = float(file, "duration");
    let speculative = || {
        let (before, after) = (SpeculativeCounters::parse(body(0))?, SpeculativeCounters::parse(body(2))?);
        SpeculativeStatistics::between(&before, &after)
    };
    let diffusion = || {
        DiffusionStatistics::between(DiffusionCounters::parse(body(1))?, DiffusionCounters::parse(body(3))?, duration)
    };
    let probe = file.get("probe_completed").map(|completed| ProbeStatistics {
        completed: whole(completed),
        failed: file.get("probe_failed").map_or(0, whole),
        median_ms: float(file, "probe_median_e2el_ms"),
        p99_ms: float(file, "probe_p99_e2el_ms"),
        max_ms: float(file, "probe_max_e2el_ms"),
    });
    Measured {
        samples: samples(file).into(),
        duration,
        speculative: speculative(),
        diffusion: diffusion(),
        probe,
        ..Measured::default()
    }
}

/// The part of a recorded stdout that the report prints.
fn printed(stdout: &str) -> String {
    // Saved files keep the ports that the recorded text omits.
    let stdout = stdout.replace("{tls_port}", "18612").replace("{port}", "18611");
    let lines: Vec<&str> = stdout.lines().collect();
    let starts = ["Failed requests during", "tip: ", "====="];
    let first = lines.iter().position(|line| starts.iter().any(|start| line.starts_with(start))).unwrap();
    let last = lines.iter().rposition(|line| *line == "=".repeat(50)).unwrap();
    lines[first..=last].iter().flat_map(|line| [*line, "\n"]).collect()
}

#[test]
fn detailed_files_give_the_printed_report_and_their_own_numbers() {
    let mut checked = 0;
    for (name, case, file) in runs() {
        if file.get("errors").is_none() {
            continue;
        }
        let record = RunRecord::compute(setup(&case, &file), measured(&case, &file));
        assert_eq!(vllm_report(&record), printed(&golden_text(&format!("{name}.txt"))), "{name}");
        // Queue times were saved, not dispatch times: their last digits are lost.
        let ours = Value::Dict(ResultFile::vllm(&record, Detail::PerRequest).to_dict());
        assert_same(&ours, &file, 1e-8, &name);
        checked += 1;
    }
    assert!(checked > 80, "only {checked} detailed runs found");
}

#[test]
fn brief_files_have_the_same_keys_and_setup() {
    let mut checked = 0;
    for (name, case, file) in runs() {
        if file.get("errors").is_some() {
            continue;
        }
        let record = RunRecord::compute(setup(&case, &file), measured(&case, &file));
        let ours = ResultFile::vllm(&record, Detail::Brief).to_dict();
        let keys: Vec<&str> = ours.iter().map(|(key, _)| key).collect();
        let theirs = file.as_dict().unwrap();
        assert_eq!(keys, theirs.iter().map(|(key, _)| key).collect::<Vec<_>>(), "{name}");
        // The setup comes before the first metric, including metadata.
        for (key, value) in ours.iter().take_while(|(key, _)| *key != "completed") {
            assert_eq!(Some(value), theirs.get(key), "{name}.{key}");
        }
        checked += 1;
    }
    assert!(checked > 15, "only {checked} brief runs found");
}
