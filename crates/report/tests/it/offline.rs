//! The offline reports against recorded runs of vLLM: same numbers in, same lines and keys out.

use std::path::Path;

use serde_json::Value as Json;
use tacho_core::json::{Dict, parse};
use tacho_metrics::offline::{EngineNote, Latency, OfflineKind, OfflineRecord, Start, Startup, Throughput};
use tacho_report::offline;
use tacho_testkit::{golden_json, golden_text};

fn engine() -> EngineNote {
    EngineNote { backend: "vllm".into(), ..EngineNote::default() }
}

fn floats(value: &Json) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

/// The written file, without tacho's own key.
fn written(value: &tacho_core::json::Value, indent: usize) -> String {
    let mut dict: Dict = value.as_dict().unwrap().clone();
    assert!(dict.remove("tacho").is_some());
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("o.json");
    offline::save(&path, &dict.into(), indent).unwrap();
    std::fs::read_to_string(&path).unwrap()
}

fn same_record(ours: &tacho_core::json::Value, theirs: &Json) {
    let ours: Json = serde_json::from_str(&tacho_core::json::dumps(ours)).unwrap();
    assert_eq!(ours["metric"], theirs["metric"]);
    assert_eq!(ours["model"], theirs["model"]);
    let info = |record: &Json| {
        let mut info = record["benchmark"]["extra_info"].clone();
        // vLLM leaves it true for eager runs, which is wrong.
        info.as_object_mut().unwrap().remove("use_compile");
        info
    };
    assert_eq!(info(&ours), info(theirs));
}

fn record(model_id: &str, measured: OfflineKind) -> OfflineRecord {
    OfflineRecord { model_id: model_id.to_owned(), engine: engine(), measured }
}

fn golden_args(name: &str) -> Dict {
    let args = golden_json(name)[0]["benchmark"]["extra_info"]["args"].to_string();
    parse(&args).unwrap().as_dict().unwrap().clone()
}

#[test]
fn latency_lines_file_and_record() {
    let golden = golden_json("offline/latency-basic.files/o.json");
    let latency = Latency { latencies: floats(&golden["latencies"]), planned: 3 };
    let record = record(golden["model_id"].as_str().unwrap(), OfflineKind::Latency(latency));
    let text = golden_text("offline/latency-basic.txt");
    let lines = text.strip_prefix("Warming up...\n").unwrap().trim_end();
    assert!(offline::text(&record).starts_with(lines));
    assert_eq!(written(&offline::json(&record), 4), golden_text("offline/latency-basic.files/o.json"));
    let name = "offline/latency-basic.files/o.pytorch.json";
    let files = offline::records(&record, &golden_args(name), Path::new("o.json"));
    same_record(&files[0].1[0], &golden_json(name)[0]);
}

#[test]
fn throughput_lines_file_and_records() {
    let golden = golden_json("offline/throughput-pytorch.files/o.json");
    let throughput = Throughput {
        times: vec![golden["elapsed_time"].as_f64().unwrap()],
        profile_seconds: 0.0,
        num_requests: 4,
        failed: 0,
        prompt_tokens: 64,
        output_tokens: 16,
        media_uncounted: false,
    };
    let record = record(golden["model_id"].as_str().unwrap(), OfflineKind::Throughput(throughput));
    assert_eq!(
        offline::text(&record),
        "Throughput: 58.64 requests/s, 1172.73 total tokens/s, 234.55 output tokens/s\n\
         Total num prompt tokens:  64\nTotal num output tokens:  16"
    );
    assert_eq!(written(&offline::json(&record), 4), golden_text("offline/throughput-pytorch.files/o.json"));
    let name = "offline/throughput-pytorch.files/o.pytorch.json";
    let files = offline::records(&record, &golden_args(name), Path::new("o.json"));
    for (ours, theirs) in files[0].1.iter().zip(golden_json(name).as_array().unwrap()) {
        same_record(ours, theirs);
    }
}

#[test]
fn startup_lines_file_and_records() {
    let golden = golden_json("offline/startup-basic.files/o.json");
    let starts = |phase: &str| {
        let times = floats(&golden[format!("{phase}_startup_times")]);
        times.into_iter().map(|startup| Start { startup, ..Start::default() }).collect::<Vec<_>>()
    };
    let startup = Startup { cold: starts("cold"), warm: starts("warm"), ..Startup::default() };
    let record = record("m", OfflineKind::Startup(startup));
    let text = golden_text("offline/startup-basic.txt");
    let report = &text[text.find("\n====").unwrap()..];
    assert!(offline::text(&record).starts_with(report.trim_end()), "{}", offline::text(&record));
    assert_eq!(written(&offline::json(&record), 4), golden_text("offline/startup-basic.files/o.json"));
    let name = "offline/startup-basic.files/o.cold_startup.pytorch.json";
    let files = offline::records(&record, &golden_args(name), Path::new("o.json"));
    let endings: Vec<&str> = files.iter().map(|(ending, _)| ending.as_str()).collect();
    assert_eq!(endings[..2], ["cold_startup.pytorch.json", "cold_compilation.pytorch.json"]);
    same_record(&files[0].1[0], &golden_json(name)[0]);
}
