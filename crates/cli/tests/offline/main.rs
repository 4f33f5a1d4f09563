//! Black-box tests of the offline commands, on the simulated engine and on plain Python workers instead of real
//! engines.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod datasets;
mod stub;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

fn tacho(directory: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tacho"))
        .args(args)
        .current_dir(directory)
        .env("SAVE_TO_PYTORCH_BENCHMARK_FORMAT", "1")
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn json(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// A worker that implements the protocol without an engine. `body` handles a call and may replace `result`.
fn worker(directory: &Path, version: u32, body: &str) -> String {
    let script = format!(
        r#"
import json, os, sys, time
out = os.fdopen(os.dup(1), "wb"); src = os.fdopen(os.dup(0), "rb"); os.dup2(2, 1)
def send(v):
    t = json.dumps(v).encode(); out.write(b"%d\n%s" % (len(t), t)); out.flush()
print("engine says hello", flush=True)
out.write(b"noise before\ntacho-worker\n")
send({{"tacho_worker": {version}}})
load = {{"max_model_len": 2048, "vocab_size": 500, "import_seconds": 1.0, "load_seconds": 2.0,
        "compilation_seconds": 0.5, "encoder_compilation_seconds": 0.0, "versions": {{"fake": "1"}}}}
batches = {{}}
while True:
    n = src.readline()
    if not n: break
    m = json.loads(src.read(int(n))); call, p = m["call"], m["params"]
    result, error = {{}}, None
    if call == "parse": result = {{"args": {{"words": p["words"]}}}}
    if call == "load": result = dict(load)
    if call == "queue": batches[p["slot"]] = p
    if call == "generate":
        b = batches[p["slot"]]
        result = {{"seconds": 0.25, "profile_seconds": 0.0, "finished": len(b["requests"]), "e2e_ms": [],
                  "prompt_tokens": sum(r["prompt_len"] for r in b["requests"]),
                  "output_tokens": b["n"] * sum(r["output_len"] for r in b["requests"])}}
{body}
    send({{"id": m["id"], "error": error}} if error else {{"id": m["id"], "result": result}})
    if call == "close": break
"#,
        body = body.lines().map(|line| format!("    {line}\n")).collect::<String>()
    );
    let path = directory.join("worker.py");
    std::fs::write(&path, script).unwrap();
    path.to_string_lossy().into_owned()
}

const SMALL: [&str; 8] =
    ["--tokenizer", "gpt2-folder", "--random-input-len", "16", "--random-output-len", "4", "--num-prompts", "4"];

/// A directory with a tokenizer, under the name that [`SMALL`] uses.
fn directory() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let to = directory.path().join("gpt2-folder");
    std::fs::create_dir(&to).unwrap();
    for entry in std::fs::read_dir(tacho_testkit::golden_path("tokenizers/gpt2")).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
    directory
}

#[test]
fn simulated_throughput_has_vllms_lines_keys_and_records() {
    let directory = directory();
    let args =
        ["bench", "throughput", "--backend", "sim", "--n", "2", "--num-warmups", "1", "--output-json", "d/o.json"];
    let output = tacho(directory.path(), &[&args[..], &SMALL].concat());
    let out = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines[0], "When dataset path is not set, it will default to random dataset");
    assert_eq!(lines[1], "Warming up with 1 requests...");
    assert!(lines[2].starts_with("Throughput: ") && lines[2].ends_with(" output tokens/s"), "{out}");
    assert_eq!(lines[3..5], ["Total num prompt tokens:  64", "Total num output tokens:  32"]);
    assert!(lines[5].starts_with("Simulated engine (profile tiny)"), "{out}");
    let result = json(&directory.path().join("d/o.json"));
    let keys: Vec<&String> = result.as_object().unwrap().keys().collect();
    let vllm =
        ["model_id", "elapsed_time", "num_requests", "total_num_tokens", "requests_per_second", "tokens_per_second"];
    assert_eq!(keys[..6], vllm);
    assert_eq!(result["tacho"]["simulated"], true);
    let records = json(&directory.path().join("d/o.pytorch.json"));
    assert_eq!(records[0]["metric"]["name"], "requests_per_second");
    assert_eq!(records[1]["metric"]["extra_info"]["total_num_tokens"], 96);
    assert_eq!(records[0]["benchmark"]["extra_info"]["simulated"], true);
}

#[test]
fn throughput_takes_rows_of_a_command_or_of_mapped_columns() {
    let directory = directory();
    std::fs::write(directory.path().join("own.csv"), "question,len\nhow?,7\nwhy?,5\n").unwrap();
    let args =
        ["throughput", "--sim", "--tokenizer", "gpt2-folder", "--num-prompts", "2", "--save-workload", "w.jsonl"];
    let command = r#"for n in 7 5; do echo "{\"prompt\": \"$TACHO_MODEL\", \"output_len\": $n}"; done"#;
    let columns = ["--dataset-path", "own.csv", "--map", "prompt=question", "output_len=len", "--disable-shuffle"];
    for flags in [&["--dataset-command", command][..], &columns] {
        let output = tacho(directory.path(), &[&args[..], flags].concat());
        assert!(output.status.success(), "{flags:?}: {}", text(&output.stderr));
        let out = text(&output.stdout);
        assert!(out.contains("Total num output tokens:  12") && !out.contains("default to random"), "{out}");
        let saved = std::fs::read_to_string(directory.path().join("w.jsonl")).unwrap();
        assert!(saved.contains(if flags.len() == 2 { "Qwen/Qwen3-0.6B" } else { "how?" }), "{saved}");
    }
    let refused = |flags: &[&str]| text(&tacho(directory.path(), &[&args[..], flags].concat()).stderr);
    let both = refused(&["--dataset-command", command, "--dataset-path", "own.csv"]);
    assert!(both.contains("--dataset-command") && both.contains("--dataset-path"), "{both}");
}

#[test]
fn decode_bench_makes_prompts_free() {
    let directory = directory();
    let elapsed = |extra: &[&str]| {
        let args = ["latency", "--sim", "--input-len", "4000", "--num-iters", "2", "--output-json", "l.json"];
        let output = tacho(directory.path(), &[&args[..], extra].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        json(&directory.path().join("l.json"))["avg_latency"].as_f64().unwrap()
    };
    assert!(elapsed(&["--decode-bench"]) < elapsed(&[]) * 0.9);
}

#[test]
fn simulated_startup_and_records() {
    let directory = directory();
    let output = tacho(directory.path(), &["startup", "--sim", "--num-iters-cold", "2", "--output-json", "o.json"]);
    let out = text(&output.stdout);
    assert!(out.contains("COLD STARTUP:\nAvg startup time: ") && out.contains("Simulated engine"), "{out}");
    for phase in ["cold_startup", "cold_compilation", "warm_startup", "warm_compilation"] {
        let records = json(&directory.path().join(format!("o.{phase}.pytorch.json")));
        assert_eq!(records[0]["metric"]["name"], format!("avg_{phase}_time"));
    }
}

#[test]
fn a_saved_workload_runs_through_the_multimodal_command() {
    let directory = directory();
    let line = r#"{"prompt": [{"role": "user", "content": [{"type": "text", "text": "what is this"}, {"type": "image_url", "image_url": {"url": "data:,x"}}]}], "prompt_len": 3, "expected_output_len": 4, "planned_send_time": 0.0}"#;
    std::fs::write(directory.path().join("w.jsonl"), format!("{line}\n{line}\n")).unwrap();
    let args =
        ["mm-processor", "--sim", "--workload", "w.jsonl", "--output-json", "o.json", "--metric-percentiles", "50,99"];
    let output = tacho(directory.path(), &args);
    let out = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(out.contains("Summary: 2 total encoder calls across 2 requests."), "{out}");
    assert!(out.ends_with("\nResults saved to o.json\n"), "{out}");
    let stats = &json(&directory.path().join("o.json"))["mm_processor_stats"];
    assert!(stats["apply_hf_processor_ms"]["p99.0"].as_f64().unwrap() > 7.0, "{stats}");
}

fn with_worker(version: u32, body: &str, args: &[&str]) -> (Output, tempfile::TempDir) {
    let directory = directory();
    let script = worker(directory.path(), version, body);
    let own = ["--python", "python3", "--worker-script", &script];
    let output = tacho(directory.path(), &[args, &own].concat());
    (output, directory)
}

#[test]
#[ignore = "needs python3"]
fn a_worker_is_timed_by_its_own_clock() {
    let args = [&["throughput", "--n", "3", "--output-json", "o.json", "--new-engine-flag", "x"][..], &SMALL].concat();
    let (output, directory) = with_worker(1, "", &args);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("engine says hello"), "the engine's log goes to stderr");
    assert!(
        text(&output.stdout).contains("Throughput: 16.00 requests/s, 448.00 total tokens/s, 192.00 output tokens/s")
    );
    assert_eq!(json(&directory.path().join("o.json"))["elapsed_time"], 0.25);
}

#[test]
#[ignore = "needs python3"]
fn latency_iterations_go_through_the_worker() {
    let args = ["latency", "--num-iters", "3", "--num-iters-warmup", "1", "--batch-size", "2"];
    let (output, _) = with_worker(1, "", &args);
    let expected = "Warming up...\nAvg latency: 0.25 seconds\n10% percentile latency: 0.25 seconds\n";
    assert!(text(&output.stdout).starts_with(expected), "{}", text(&output.stdout));
}

#[test]
#[ignore = "needs python3"]
fn errors_are_one_line_each() {
    let error = |kind: &str| format!("if call == 'load':\n    error = {{'kind': '{kind}', 'message': 'boom'}}");
    let cases = [
        (1, error("usage"), 2, "error: boom"),
        (1, error("engine"), 1, "error: the engine failed: boom"),
        (1, error("memory"), 1, "error: the engine ran out of memory: boom; lower --gpu-memory-utilization"),
        (1, error("missing"), 1, "error: the engine is not installed: boom"),
        (7, String::new(), 1, "error: the worker speaks version 7 of the protocol, this program version 1"),
    ];
    for (version, body, code, expected) in cases {
        let (output, _) = with_worker(version, &body, &["latency", "--num-iters", "1"]);
        let error = text(&output.stderr);
        assert!(error.contains(expected), "{error}");
        assert_eq!(output.status.code(), Some(code), "{error}");
    }
}

#[test]
#[ignore = "needs python3"]
fn requests_beyond_the_engines_limit_are_refused_in_vllms_words() {
    let args = ["throughput", "--tokenizer", "gpt2-folder", "--random-input-len", "4000", "--num-prompts", "1"];
    let (output, _) = with_worker(1, "", &args);
    let error = text(&output.stderr);
    let expected = "Please ensure that max_model_len is greater than the sum of prompt_len and expected_output_len for \
                    all requests";
    assert!(error.contains(expected) && output.status.code() == Some(1), "{error}");
}

#[test]
fn a_python_without_the_engine_is_named() {
    let directory = directory();
    let has_vllm = Command::new("python3").args(["-c", "import vllm"]).output();
    if has_vllm.map_or(true, |output| output.status.success()) {
        eprintln!("skipped: there is no python3 without vllm on this machine");
        return;
    }
    let output = tacho(directory.path(), &["latency", "--python", "python3"]);
    let error = text(&output.stderr);
    assert!(error.contains("the engine is not installed") && error.contains("cannot import vllm"), "{error}");
    let output = tacho(directory.path(), &["latency", "--model", "/no/such/model"]);
    assert!(text(&output.stderr).contains("--model /no/such/model: no such directory"));
    let output = tacho(directory.path(), &["latency", "--python", "/no/such/python"]);
    assert!(text(&output.stderr).contains("cannot start the engine's Python, /no/such/python"));
}

/// A simulated server, stopped when dropped.
struct Served(Child);

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_running_server_gives_the_same_table() {
    let directory = directory();
    let mut child = Command::new(env!("CARGO_BIN_EXE_tacho"))
        .args(["sim", "--port", "0", "--profile", "instant"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let _served = Served(child);
    let url = line.trim().rsplit(' ').next().unwrap();
    let args =
        ["throughput", "--backend", "openai", "--base-url", url, "--num-warmups", "1", "--output-json", "o.json"];
    let output = tacho(directory.path(), &[&args[..], &SMALL].concat());
    let out = text(&output.stdout);
    assert!(output.status.success(), "{out}{}", text(&output.stderr));
    assert!(out.contains("Total num prompt tokens:  64\nTotal num output tokens:  16\n"), "{out}");
    let result = json(&directory.path().join("o.json"));
    assert_eq!((&result["num_requests"], &result["tacho"]["backend"]), (&Value::from(4), &Value::from("openai")));
}

#[test]
fn a_server_that_is_not_there_is_an_error() {
    let directory = directory();
    let args = ["throughput", "--backend", "openai", "--model", "m", "--port", "1"];
    let output = tacho(directory.path(), &[&args[..], &SMALL].concat());
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("all 4 requests failed"), "{}", text(&output.stderr));
}

#[test]
fn transformers_batches_are_filled_up_to_the_budget_of_a_row() {
    let worker = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python/worker");
    let script = r#"
import sys, types
stub = types.ModuleType("tacho_worker_main"); stub.Problem = Exception; sys.modules["tacho_worker_main"] = stub
from hf_engine import batches
lengths = [(1000, 1000), (1000, 1000), (1040, 1000), (1100, 900)]
requests = [{"prompt_len": p, "output_len": o} for p, o in lengths]
print([(len(batch), output) for batch, output in batches(requests, 4)])
print([len(batch) for batch, _ in batches(requests[:2] * 2, 3)])
"#;
    let Ok(output) = Command::new("python3").args(["-B", "-c", script]).current_dir(worker).output() else {
        eprintln!("skipped: there is no python3 on this machine");
        return;
    };
    assert_eq!(text(&output.stdout), "[(3, 1000), (1, 900)]\n[3, 1]\n", "{}", text(&output.stderr));
}

#[test]
fn a_log_gives_what_the_run_gave() {
    let directory = tempfile::tempdir().unwrap();
    let runs = [
        "latency --sim --num-iters 5 --num-iters-warmup 2 --batch-size 2 --output-len 8",
        "throughput --backend sim --num-prompts 4 --input-len 8 --output-len 4 --num-runs 3",
        "startup --sim --num-iters-cold 2 --num-iters-warm 3",
    ];
    for (at, line) in runs.iter().enumerate() {
        let (log, result) = (format!("l{at}"), format!("r{at}.json"));
        let args: Vec<&str> = line.split_whitespace().chain(["--log", &log, "--output-json", &result]).collect();
        let output = tacho(directory.path(), &args);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let again = tacho(directory.path(), &["report", &log, "--save-result", "again.json"]);
        assert!(again.status.success(), "{}", text(&again.stderr));
        assert!(text(&output.stdout).contains(text(&again.stdout).trim()), "{line}: {}", text(&again.stdout));
        assert_eq!(json(&directory.path().join("again.json")), json(&directory.path().join(&result)), "{line}");
        // Without its summary, it is the log of a killed run: the same measurements, to the nanosecond.
        std::fs::remove_file(directory.path().join(&log).join("summary.json")).unwrap();
        let killed = tacho(directory.path(), &["report", &log, "--save-result", "killed.json"]);
        assert!(killed.status.success(), "{}", text(&killed.stderr));
        assert!(text(&killed.stderr).contains("was not completed"), "{}", text(&killed.stderr));
        let (whole, rest) = (json(&directory.path().join(&result)), json(&directory.path().join("killed.json")));
        let key = ["avg_latency", "elapsed_time", "avg_warm_startup_time"][at];
        let (whole, rest) = (whole[key].as_f64().unwrap(), rest[key].as_f64().unwrap());
        assert!((whole - rest).abs() < 2e-9, "{line}: {whole} {rest}");
        let refused = tacho(directory.path(), &["report", &log, "--goodput", "ttft:5"]);
        assert!(
            text(&refused.stderr).contains("--goodput is for the log of a served run"),
            "{}",
            text(&refused.stderr)
        );
    }
}
