//! End-to-end tests of the scenario commands against the simulator.

#![expect(clippy::unwrap_used, reason = "a broken set-up fails the test")]

use std::process::{Command, Output};
use std::{io::Write, path::Path};

use serde_json::Value;
use tacho_testkit::scripted::{Keep, Scripted};

fn tacho(directory: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tacho"));
    command.current_dir(directory).args(args).env_remove("PYTHONHASHSEED").env("HF_HUB_OFFLINE", "1");
    command.output().unwrap()
}

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn json(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn lines(path: &Path) -> Vec<Value> {
    std::fs::read_to_string(path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The number after a label.
fn number(text: &str, label: &str) -> f64 {
    let line = text.lines().find(|line| line.starts_with(label)).unwrap_or_else(|| panic!("no {label} in {text}"));
    line[label.len()..].trim().trim_end_matches(" %").parse().unwrap()
}

#[test]
fn structured_output_is_timed_judged_and_saved() {
    let directory = tempfile::tempdir().unwrap();
    let args = ["structured-output", "--sim", "--dataset", "choice", "--num-prompts", "12", "--output-len", "16"];
    let more = [
        "--structured-output-ratio",
        "0.5",
        "--goodput",
        "ttft:100000",
        "--save-results",
        "--result-filename",
        "r.json",
    ];
    let text = stdout(&tacho(directory.path(), &[&args[..], &more, &["--disable-tqdm"]].concat()));
    assert_eq!(number(&text, "Successful requests:"), 12.0);
    assert_eq!(number(&text, "Constrained answers:"), 6.0);
    assert!(text.contains("correct_rate(%) "), "{text}");
    let file = json(&directory.path().join("r.json"));
    assert_eq!(file["outputs"].as_array().unwrap().len(), 12);
    assert_eq!(file["tacho"]["constrained"]["judged"], 6);
    assert!(file["tacho"]["request_goodput"].as_f64().unwrap() > 0.0, "{}", file["tacho"]);
}

#[test]
fn a_test_request_that_fails_is_the_only_one() {
    let server = Scripted::start(|_, stream| {
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 3\r\n\r\nwhy");
        Keep::Open
    });
    let directory = tempfile::tempdir().unwrap();
    let args = ["structured-output", "--model", "gpt2", "--dataset", "choice", "--num-prompts", "2", "--save-results"];
    let port = server.address.port().to_string();
    let output = tacho(directory.path(), &[&args[..], &["--port", &port, "--disable-tqdm"]].concat());
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(told.contains("Starting initial") && !told.contains("Initial test run completed"), "{told}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("Bad Request"));
    assert_eq!(server.count("/v1/completions"), 1);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "a result of nothing");
}

#[test]
fn structured_workloads_are_written_without_a_server() {
    let directory = tempfile::tempdir().unwrap();
    let args = ["structured-output", "--model", "gpt2", "--dataset", "json", "--num-prompts", "3", "--dry-run"];
    stdout(&tacho(directory.path(), &[&args[..], &["--save-workload", "w.jsonl"]].concat()));
    let saved = lines(&directory.path().join("w.jsonl"));
    let keys: Vec<&String> = saved[0].as_object().unwrap().keys().collect();
    assert_eq!(keys.len(), 5, "{keys:?}");
    assert_eq!((saved.len(), saved[2]["index"].as_u64()), (3, Some(2)));
    assert_eq!(saved[0]["extra_body"]["structured_outputs"]["json"]["required"][0], "name");
    let refused = tacho(directory.path(), &["structured-output", "--structured-output-ratio", "1.5"]);
    assert!(
        !refused.status.success() && String::from_utf8_lossy(&refused.stderr).contains("--structured-output-ratio")
    );
}

#[test]
fn a_prefix_cache_makes_the_second_pass_find_its_prompts() {
    let directory = tempfile::tempdir().unwrap();
    let args = ["prefix-caching", "--backend", "sim", "--num-prompts", "4", "--repeat-count", "3"];
    let more = ["--input-length-range", "64:96", "--max-concurrency", "1", "--output-json", "o.json", "--quiet"];
    let text = stdout(&tacho(directory.path(), &[&args[..], &more].concat()));
    assert!(text.starts_with("Start to sample 4 prompts from random\nSampled 4 requests.\n"), "{text}");
    assert!(text.contains("cost time "), "{text}");
    let file = json(&directory.path().join("o.json"));
    for pass in file["passes"].as_array().unwrap() {
        let (observed, limit) =
            (pass["prefix_cache_hit_rate"].as_f64().unwrap(), pass["prefix_cache_hit_rate_limit"].as_f64().unwrap());
        assert!((observed - limit).abs() < 0.011, "one request at a time finds what is there: {pass}");
    }
}

#[test]
fn long_documents_are_found_again() {
    let directory = tempfile::tempdir().unwrap();
    let args = ["long-doc-qa", "--backend", "sim", "--num-documents", "3", "--document-length", "2000"];
    let text = stdout(&tacho(
        directory.path(),
        &[&args[..], &["--repeat-mode", "tile", "--max-concurrency", "1", "--quiet"]].concat(),
    ));
    assert!(text.starts_with("Repeat mode:  tile\n------warm up------\nTime to execute all requests: "), "{text}");
    // Three latencies of a few ms say little on a busy machine; the cache says what was found.
    assert!(
        number(&text, "Mean TTFT, new document (ms):") > 0.0 && number(&text, "Mean TTFT, cached document (ms):") > 0.0
    );
    let [observed, limit] = ["observed", "upper bound"].map(|what| number(&text, &format!("Cache hits, {what} (%):")));
    assert!(limit > 40.0 && (observed - limit).abs() < 0.1, "{text}");
    let args = ["long-doc-qa", "--backend", "sim", "--num-documents", "2", "--document-tokens", "100", "--dry-run"];
    stdout(&tacho(directory.path(), &[&args[..], &["--save-workload", "w.jsonl"]].concat()));
    let saved = lines(&directory.path().join("w.jsonl"));
    assert!(saved.iter().all(|request| request["prompt_len"] == 100), "{}", saved[0]["prompt_len"]);
}

#[test]
fn priorities_are_sent_and_told_apart() {
    let directory = tempfile::tempdir().unwrap();
    let args = ["prioritization", "--backend", "sim", "--input-len", "16", "--output-len", "8", "--num-prompts", "20"];
    let more = ["--output-json", "o.json", "--save-workload", "w.jsonl", "--quiet"];
    let text = stdout(&tacho(directory.path(), &[&args[..], &more].concat()));
    assert!(text.starts_with("Throughput: "), "{text}");
    let file = json(&directory.path().join("o.json"));
    assert_eq!(file["total_num_tokens"], 480);
    let classes = file["classes"].as_array().unwrap();
    assert_eq!(classes.iter().map(|class| class["requests"].as_u64().unwrap()).collect::<Vec<_>>(), [7, 13]);
    let saved = lines(&directory.path().join("w.jsonl"));
    assert_eq!(saved[2]["request_overrides"]["priority"], 0);
    for args in
        [&["prioritization", "--backend", "hf", "--input-len", "9", "--output-len", "9"][..], &["prioritization"]]
    {
        assert!(!tacho(directory.path(), args).status.success(), "{args:?}");
    }
}

/// A simulator in a separate process, stopped when dropped.
struct Sim(std::process::Child, String);

impl Sim {
    fn start() -> Sim {
        use std::io::BufRead;
        let mut command = Command::new(env!("CARGO_BIN_EXE_tacho"));
        command.args(["sim", "--port", "0", "--profile", "tiny"]).stdout(std::process::Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        std::io::BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        Sim(child, line.trim().rsplit(' ').next().unwrap().to_owned())
    }
}

impl Drop for Sim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_cache_that_was_warm_by_accident_is_told() {
    let (directory, sim) = (tempfile::tempdir().unwrap(), Sim::start());
    let doubted = |more: &[&str]| {
        let args = ["serve", "--base-url", &sim.1, "--num-prompts", "6", "--random-input-len", "64", "--quiet"];
        let file = ["--random-output-len", "2", "--save-result", "--result-filename", "r.json"];
        stdout(&tacho(directory.path(), &[&args[..], &file, more].concat()));
        let result = json(&directory.path().join("r.json"));
        let caveats = result["tacho"]["caveats"].as_array().unwrap().clone();
        caveats.iter().any(|caveat| caveat["kind"] == "warm_cache")
    };
    assert!(!doubted(&["--seed", "1"]), "the first run of these prompts is cold");
    assert!(doubted(&["--seed", "1"]), "the second is not");
    assert!(!doubted(&["--seed", "1", "--cache-salt", "random"]), "a salt rules it out");
    assert!(!doubted(&["--seed", "1", "--reset-prefix-cache"]), "and so does an empty cache");
    let shared = ["--seed", "2", "--random-prefix-len", "64", "--max-concurrency", "1"];
    assert!(!doubted(&shared), "what the prompts share themselves is no accident");
}

#[test]
fn the_simulator_serves_the_urgent_first() {
    let directory = tempfile::tempdir().unwrap();
    let args = ["prioritization", "--sim", "--sim-profile", "tiny", "--max-num-seqs", "2", "--num-prompts", "40"];
    let more = ["--input-len", "16", "--output-len", "8", "--output-json", "o.json", "--quiet"];
    stdout(&tacho(directory.path(), &[&args[..], &more].concat()));
    let file = json(&directory.path().join("o.json"));
    let ttft = |at: usize| file["classes"][at]["mean_ttft_ms"].as_f64().unwrap_or_else(|| panic!("{file}"));
    assert!(ttft(0) < ttft(1), "{file}");
    let refused = tacho(
        directory.path(),
        &["prioritization", "--sim", "--backend", "openai", "--input-len", "9", "--output-len", "9"],
    );
    assert_eq!(refused.status.code(), Some(2));
}

#[test]
fn sentences_of_a_grammar_are_judged() {
    let directory = tempfile::tempdir().unwrap();
    let args = ["structured-output", "--sim", "--dataset", "grammar", "--num-prompts", "8", "--output-len", "40"];
    let text = stdout(&tacho(
        directory.path(),
        &[&args[..], &["--structured-output-ratio", "0.5", "--disable-tqdm"]].concat(),
    ));
    let obeys: Vec<f64> = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("that obey the constraint:"))
        .map(|rest| rest.trim().trim_end_matches('%').parse().unwrap())
        .collect();
    assert_eq!(obeys, [100.0, 0.0], "constrained and unconstrained: {text}");
    assert!(text.contains("correct_rate(%) None"), "upstream has no score for grammars: {text}");
}

#[test]
#[ignore = "slow: a hundred runs"]
fn slow_group_fifty_warm_caches_all_are_found_and_of_fifty_clean_ones_none() {
    let (directory, sim) = (tempfile::tempdir().unwrap(), Sim::start());
    let (mut clean, mut warm) = (0, 0);
    for seed in 0..50 {
        let seed = seed.to_string();
        let doubted = |more: &[&str]| {
            let args =
                ["serve", "--base-url", &sim.1, "--num-prompts", "4", "--random-input-len", "48", "--seed", &seed];
            let few = ["--random-output-len", "1", "--quiet"];
            stdout(&tacho(directory.path(), &[&args[..], &few, more].concat())).contains("the prefix cache was warm")
        };
        clean += usize::from(doubted(&["--reset-prefix-cache"]));
        warm += usize::from(doubted(&[]));
    }
    assert_eq!((clean, warm), (0, 50), "told of clean and of warm caches");
}

#[test]
fn a_hit_rate_that_was_asked_for_is_seen_within_a_point() {
    let (directory, sim) = (tempfile::tempdir().unwrap(), Sim::start());
    for (fraction, ratio) in [(0.25, 0.75), (0.5, 0.5), (0.8, 0.75)] {
        let (asked, given) = (fraction * ratio, [fraction.to_string(), ratio.to_string()]);
        let args = ["serve", "--base-url", &sim.1, "--num-prompts", "200", "--random-input-len", "512", "--quiet"];
        let cache = ["--prompt-token-ids", "--random-cache-hit-fraction", &given[0], "--random-cache-ratio", &given[1]];
        let more = ["--random-output-len", "1", "--max-concurrency", "1", "--cache-salt", "random"];
        let file = ["--save-result", "--result-filename", "r.json", "--no-log"];
        stdout(&tacho(directory.path(), &[&args[..], &cache, &more, &file].concat()));
        let seen = json(&directory.path().join("r.json"))["tacho"]["server_metrics"]["prefix_cache_hit_rate"]
            .as_f64()
            .unwrap();
        assert!((seen - asked).abs() < 0.01, "{fraction} x {ratio}: {seen} for {asked}");
    }
}

#[test]
fn an_address_means_a_server() {
    let (directory, sim) = (tempfile::tempdir().unwrap(), Sim::start());
    let args = ["long-doc-qa", "--base-url", &sim.1, "--num-documents", "1", "--document-length", "100", "--quiet"];
    let text = stdout(&tacho(directory.path(), &[&args[..], &["--model", "tacho-sim"]].concat()));
    assert!(text.contains("Mean TTFT, cached document (ms):"), "{text}");
    for more in [&["--backend", "vllm"][..], &["--sim"]] {
        assert_eq!(tacho(directory.path(), &[&args[..], more].concat()).status.code(), Some(2), "{more:?}");
    }
}
