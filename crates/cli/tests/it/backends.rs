//! Every backend from the command line to the result file, and every fault as a typed outcome.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

const TACHO: &str = env!("CARGO_BIN_EXE_tacho");

/// `tacho sim` on a free port; it stops when dropped.
pub(crate) struct Sim {
    process: Child,
    pub(crate) url: String,
}

impl Sim {
    /// Starts a simulator without delays.
    pub(crate) fn start(flags: &[&str]) -> Sim {
        Sim::of_profile("instant", flags)
    }

    pub(crate) fn of_profile(profile: &str, flags: &[&str]) -> Sim {
        let mut process = Command::new(TACHO)
            .args(["sim", "--port", "0", "--profile", profile, "--model", "gpt2"])
            .args(flags)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let url = line.trim().rsplit(' ').next().unwrap().to_owned();
        assert!(url.starts_with("http://"), "{line}");
        Sim { process, url }
    }
}

impl Drop for Sim {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Output and files of a run.
pub(crate) struct Run {
    pub(crate) output: Output,
    pub(crate) result: Value,
    took: Duration,
}

impl Run {
    pub(crate) fn outcomes(&self) -> Value {
        self.result["tacho"]["outcomes"].clone()
    }

    pub(crate) fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr).into_owned()
    }
}

pub(crate) fn bench(sim: &Sim, directory: &Path, flags: &[&str]) -> Run {
    let started = Instant::now();
    let output = Command::new(TACHO)
        .args(["serve", "--base-url", &sim.url, "--model", "gpt2", "--tokenizer"])
        .arg(tokenizer())
        .args(["--disable-tqdm", "--save-result", "--save-detailed", "--result-filename", "r.json", "--result-dir"])
        .arg(directory)
        .args(flags)
        .env_remove("OPENAI_API_KEY")
        .output()
        .unwrap();
    let took = started.elapsed();
    let text = std::fs::read_to_string(directory.join("r.json"));
    let text = text.unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    Run { output, result: serde_json::from_str(&text).unwrap(), took }
}

fn tokenizer() -> PathBuf {
    tacho_testkit::golden_path("tokenizers/gpt2")
}

const SMALL: [&str; 6] = ["--num-prompts", "4", "--random-input-len", "12", "--random-output-len", "5"];

fn with<'a>(flags: &[&'a str]) -> Vec<&'a str> {
    [&SMALL[..], flags].concat()
}

#[test]
fn every_generating_backend_completes_its_requests() {
    let sim = Sim::start(&[]);
    let directory = tempfile::tempdir().unwrap();
    for (backend, events) in [
        ("vllm", 5),
        ("openai", 5),
        ("openai-chat", 6),
        ("openai-responses", 5),
        ("tensorrt-llm", 5),
        ("sglang", 5),
        ("lmdeploy", 5),
        ("scalellm", 5),
        ("llama.cpp", 5),
        ("vllm-generate", 5),
    ] {
        // Triton's own flag for full output length is derived from this one.
        let run = bench(&sim, directory.path(), &with(&["--backend", backend, "--ignore-eos"]));
        assert_eq!(run.output.status.code(), Some(0), "{backend}: {}", run.stderr());
        let result = &run.result;
        assert_eq!((&result["completed"], &result["failed"]), (&json!(4), &json!(0)), "{backend}");
        assert_eq!((&result["backend"], &result["endpoint_type"]), (&json!(backend), &json!(backend)));
        let first = result["itls"][0].as_array().unwrap().len() + 1;
        // A token may have an empty text, which the demonstration server's lines do not show.
        assert!(first == events || (backend == "vllm-generate" && first < events), "{backend}: {first}");
        assert!(result["mean_ttft_ms"].as_f64() > Some(0.0), "{backend}");
    }
}

#[test]
fn backends_without_running_counts_complete_too() {
    let sim = Sim::start(&[]);
    let directory = tempfile::tempdir().unwrap();
    let run = bench(&sim, directory.path(), &with(&["--backend", "tgi", "--ignore-eos"]));
    assert_eq!((run.output.status.code(), &run.result["completed"]), (Some(0), &json!(4)), "{}", run.stderr());
    assert_eq!(run.result["output_lens"], json!([5, 5, 5, 5]));
    let run = bench(&sim, directory.path(), &with(&["--backend", "deepspeed-mii"]));
    assert_eq!((run.output.status.code(), &run.result["completed"]), (Some(0), &json!(4)), "{}", run.stderr());
    assert!(run.result["latencies"][0].as_f64() > Some(0.0));
    assert_eq!(run.result["itls"], json!([[], [], [], []]));
}

#[test]
fn every_pooling_backend_completes_and_writes_vllms_keys() {
    let sim = Sim::start(&[]);
    let directory = tempfile::tempdir().unwrap();
    for (backend, flags, sequences) in [
        ("openai-embeddings", &[][..], 4),
        ("openai-embeddings", &["--random-batch-size", "2"], 4),
        ("openai-embeddings", &["--extra-body", r#"{"encoding_format": "base64"}"#], 4),
        ("openai-embeddings", &["--extra-body", r#"{"encoding_format": "bytes"}"#], 4),
        ("openai-embeddings", &["--extra-body", r#"{"encoding_format": "bytes_only"}"#], 4),
        ("openai-embeddings-chat", &[], 4),
        ("openai-embeddings-clip", &[], 4),
        ("openai-embeddings-vlm2vec", &[], 4),
        ("infinity-embeddings", &["--random-batch-size", "4"], 4),
        ("infinity-embeddings-clip", &[], 4),
        ("vllm-pooling", &[], 4),
        ("vllm-rerank", &["--random-batch-size", "4"], 3),
        ("vllm-rerank", &["--random-batch-size", "2", "--endpoint", "/v1/rerank"], 2),
    ] {
        let run = bench(&sim, directory.path(), &with(&[&["--backend", backend], flags].concat()));
        assert_eq!(run.output.status.code(), Some(0), "{backend}: {}", run.stderr());
        let result = run.result.as_object().unwrap();
        assert_eq!(result["total_input_sequences"], sequences, "{backend} {flags:?}");
        assert!(result["total_input_tokens"].as_u64() > Some(0), "{backend} {flags:?}");
        let keys: Vec<&str> = result.keys().map(String::as_str).skip_while(|key| *key != "duration").collect();
        assert_eq!(
            keys,
            [
                "duration",
                "completed",
                "total_input_tokens",
                "total_input_sequences",
                "request_throughput",
                "input_sequence_throughput",
                "total_token_throughput",
                "input_lens",
                "latencies",
                "queue_times",
                "errors",
                "mean_e2el_ms",
                "median_e2el_ms",
                "std_e2el_ms",
                "p99_e2el_ms",
                "tacho"
            ]
        );
        let shown = String::from_utf8_lossy(&run.output.stdout).into_owned();
        assert!(shown.contains("Input throughput (inputs/s):") && !shown.contains("TTFT"), "{shown}");
        assert!(!shown.contains("no longer sets temperature"), "{shown}");
    }
}

/// An audio workload of three clips with this number of samples, at 8 kHz.
pub(crate) fn sounds(directory: &Path, samples: u32) -> PathBuf {
    let path = directory.join("sounds.jsonl");
    let line = |index: usize| {
        let samples: Vec<f64> = (0..samples).map(|at| f64::from(at % 7) / 10.0).collect();
        let request = json!({
            "index": index, "prompt": "", "prompt_len": 4, "expected_output_len": 6, "request_id": format!("s{index}"),
            "multi_modal_data": {"audio": [samples, 8000]}, "planned_send_time": 0.0,
        });
        request.to_string()
    };
    std::fs::write(&path, (0..3).map(line).collect::<Vec<_>>().join("\n")).unwrap();
    path
}

#[test]
fn sounds_are_transcribed_and_translated() {
    let sim = Sim::start(&[]);
    let directory = tempfile::tempdir().unwrap();
    let workload = sounds(directory.path(), 1600);
    for endpoint in ["/v1/audio/transcriptions", "/v1/audio/translations"] {
        let flags = [
            "--backend",
            "openai-audio",
            "--workload",
            workload.to_str().unwrap(),
            "--endpoint",
            endpoint,
            "--ignore-eos",
        ];
        let run = bench(&sim, directory.path(), &flags);
        assert_eq!((run.output.status.code(), &run.result["completed"]), (Some(0), &json!(3)), "{}", run.stderr());
        let seconds = run.result["rtfx"].as_f64().unwrap() * run.result["duration"].as_f64().unwrap();
        assert!((seconds - 0.6).abs() < 1e-9, "three sounds of a fifth of a second, not {seconds} s");
        assert_eq!(run.result["output_lens"], json!([6, 6, 6]));
    }
}

/// Each fault with the outcome of a streaming and of a pooling request.
const FAULTS: [(&str, &str, &str); 4] = [
    ("--error-rate", "http_error", "http_error"),
    ("--stream-error-rate", "error_in_stream", "http_error"),
    ("--disconnect-rate", "connection_lost", "connection_lost"),
    ("--truncate-rate", "truncated", "malformed"),
];

#[test]
fn every_fault_is_a_typed_outcome() {
    let directory = tempfile::tempdir().unwrap();
    for (fault, streamed, pooled) in FAULTS {
        let sim = Sim::start(&[fault, "1"]);
        for (backend, expected) in
            [("openai-chat", streamed), ("openai-responses", streamed), ("openai-embeddings", pooled)]
        {
            let run = bench(&sim, directory.path(), &with(&["--backend", backend, "--timeout", "20"]));
            assert_eq!(run.output.status.code(), Some(1), "{fault} {backend}: no request succeeded");
            assert_eq!(run.result["completed"], 0, "{fault} {backend}");
            // A stream that breaks before its first token is counted as empty or as disconnected.
            let outcomes = run.outcomes();
            let failed = outcomes[expected].as_u64().unwrap_or(0) + outcomes["empty"].as_u64().unwrap_or(0);
            assert_eq!(failed, 4, "{fault} {backend}: {outcomes} {}", run.stderr());
            assert!(outcomes[expected].as_u64() > Some(0), "{fault} {backend}: {outcomes}");
        }
    }
}

#[test]
fn a_stall_ends_at_the_time_limits_and_not_later() {
    let directory = tempfile::tempdir().unwrap();
    let sim = Sim::start(&["--stall-rate", "1", "--stall-seconds", "60"]);
    for (backend, limit) in
        [("openai", "--timeout"), ("openai-embeddings", "--timeout"), ("openai", "--first-token-timeout")]
    {
        let one_token = ["--random-output-len", "1", "--backend", backend, limit, "0.5"];
        let run = bench(&sim, directory.path(), &with(&one_token));
        assert_eq!(run.outcomes()["timed_out"], 4, "{backend} {limit}: {}", run.stderr());
        assert!(run.took < Duration::from_secs(30), "{backend} {limit}: {:?}", run.took);
    }
}

#[test]
fn failed_requests_are_sent_again_and_counted() {
    let directory = tempfile::tempdir().unwrap();
    let sim = Sim::start(&["--error-rate", "0.5", "--fault-seed", "3"]);
    let flags = ["--num-prompts", "20", "--random-input-len", "8", "--random-output-len", "3", "--retries", "30"];
    let run = bench(&sim, directory.path(), &flags);
    assert_eq!((run.output.status.code(), &run.result["completed"]), (Some(0), &json!(20)), "{}", run.stderr());
    let tacho = &run.result["tacho"];
    let retries: Vec<u64> = tacho["request_retries"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect();
    assert!(retries.iter().sum::<u64>() > 0 && tacho["retries"] == retries.iter().sum::<u64>());
    assert_eq!(tacho["retried_requests"], retries.iter().filter(|&&count| count > 0).count());
    let shown = String::from_utf8_lossy(&run.output.stdout).into_owned();
    assert!(shown.contains(" sent again ("), "{shown}");
    // Latency includes retries: a retried request took longer than the pause between attempts.
    for (at, _) in retries.iter().enumerate().filter(|(_, count)| **count > 1) {
        assert!(run.result["ttfts"][at].as_f64() > Some(0.05), "{}", run.result["ttfts"][at]);
    }
    let plain = bench(&sim, directory.path(), &flags[..6]);
    assert!(plain.result["failed"].as_u64() > Some(0) && plain.result["tacho"]["retries"] == 0);
}

#[test]
fn tokens_are_told_from_events() {
    let directory = tempfile::tempdir().unwrap();
    let sim = Sim::of_profile("tiny", &["--stream-interval", "4"]);
    let long = ["--num-prompts", "3", "--random-input-len", "8", "--random-output-len", "21"];
    let usage = r#"{"stream_options": {"include_usage": true, "continuous_usage_stats": true}}"#;
    for (flags, source) in
        [(&["--extra-body", usage][..], "usage"), (&["--logprobs", "1"], "logprobs"), (&[], "retokenised")]
    {
        let run = bench(&sim, directory.path(), &[&long[..], flags, &["--verbose"]].concat());
        let tacho = &run.result["tacho"];
        assert_eq!(tacho["itl_per_token_source"], source, "{}", run.stderr());
        let (by_event, by_token) =
            (run.result["mean_itl_ms"].as_f64().unwrap(), tacho["mean_itl_per_token_ms"].as_f64().unwrap());
        assert!((3.0..5.0).contains(&(by_event / by_token)), "{source}: {by_event} and {by_token}");
        let shown = String::from_utf8_lossy(&run.output.stdout).into_owned();
        assert!(shown.contains("Tokens per event counted by:"), "{shown}");
    }
    let plain = bench(&Sim::start(&[]), directory.path(), &long);
    assert_eq!(plain.result["tacho"].get("itl_per_token_source"), None);
}

#[test]
fn reasoning_is_distinguished_from_the_answer() {
    let directory = tempfile::tempdir().unwrap();
    let sim = Sim::of_profile("tiny", &["--reasoning-tokens", "12"]);
    let long = ["--num-prompts", "3", "--random-input-len", "8", "--random-output-len", "20"];
    for backend in ["openai-chat", "openai-responses"] {
        let run = bench(&sim, directory.path(), &[&long[..], &["--backend", backend, "--verbose"]].concat());
        let tacho = &run.result["tacho"];
        assert_eq!(
            (&tacho["reasoning_tokens"], &tacho["answer_tokens"]),
            (&json!(36), &json!(24)),
            "{backend}: {tacho}"
        );
        let (first, answer) =
            (run.result["mean_ttft_ms"].as_f64().unwrap(), tacho["mean_ttft_first_answer_ms"].as_f64().unwrap());
        assert!(answer > first, "{backend}: {first} and {answer}");
        let shown = String::from_utf8_lossy(&run.output.stdout).into_owned();
        for line in ["Reasoning tokens:", "Answer tokens:"] {
            assert!(shown.contains(line), "{line}: {shown}");
        }
    }
}

#[test]
fn answers_that_are_not_streamed_are_timed_whole() {
    let sim = Sim::start(&[]);
    let directory = tempfile::tempdir().unwrap();
    let whole = ["--extra-body", r#"{"stream": false, "stream_options": null}"#];
    for backend in ["openai", "openai-chat", "openai-responses", "llama.cpp"] {
        let run = bench(&sim, directory.path(), &with(&[&["--backend", backend], &whole[..]].concat()));
        assert_eq!(run.output.status.code(), Some(0), "{backend}: {}", run.stderr());
        assert_eq!(
            (&run.result["completed"], &run.result["output_lens"]),
            (&json!(4), &json!([5, 5, 5, 5])),
            "{backend}"
        );
        assert_eq!(run.result["itls"], json!([[], [], [], []]), "{backend}");
        assert!(run.result["mean_ttft_ms"].as_f64() > Some(0.0), "{backend}");
    }
    let strict = bench(&sim, directory.path(), &with(&[&["--strict-parity"], &whole[..]].concat()));
    assert_eq!(strict.result["completed"], 0, "upstream takes no such answer");
}

#[test]
fn a_run_begins_cold_when_asked_to() {
    let directory = tempfile::tempdir().unwrap();
    let sim = Sim::start(&[]);
    let one = ["--num-prompts", "1", "--random-input-len", "640", "--random-output-len", "2", "--num-warmups", "2"];
    let hits = |flags: &[&str]| {
        let run = bench(&sim, directory.path(), &[&one[..], flags].concat());
        assert_eq!(run.output.status.code(), Some(0), "{}", run.stderr());
        run.result["tacho"]["server_metrics"]["prefix_cache_hit_rate"].as_f64().unwrap()
    };
    assert!(hits(&[]) > 0.9);
    assert_eq!(hits(&["--reset-caches"]), 0.0);
    // The simulator is not an SGLang server.
    let output = Command::new(TACHO)
        .args([
            "serve",
            "--base-url",
            &sim.url,
            "--model",
            "gpt2",
            "--backend",
            "sglang",
            "--reset-caches",
            "--tokenizer",
        ])
        .arg(tokenizer())
        .args(one)
        .output()
        .unwrap();
    let shown = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(1) && shown.contains("/flush_cache"), "{shown}");
}

#[test]
fn the_servers_metrics_are_kept_as_series() {
    let directory = tempfile::tempdir().unwrap();
    let sim = Sim::of_profile("tiny", &[]);
    let flags =
        ["--num-prompts", "8", "--random-input-len", "64", "--random-output-len", "200", "--metrics-interval", "0.05"];
    let run = bench(&sim, directory.path(), &flags);
    let metrics = &run.result["tacho"]["server_metrics"];
    let count = metrics["times"].as_array().unwrap().len();
    assert!(count > 2 && metrics["samples"] == count, "{metrics}");
    let running = metrics["series"]["vllm:num_requests_running"].as_array().unwrap();
    assert_eq!(running.len(), count);
    assert_eq!(metrics["summary"]["vllm:num_requests_running"]["max"], 8.0);
    assert_eq!(metrics["summary"]["vllm:generation_tokens_total"]["delta"], 1600.0);
    let off = bench(&sim, directory.path(), &with(&["--metrics-interval", "0"]));
    assert_eq!(off.result["tacho"].get("server_metrics"), None);
}
