//! Invalid parameter files and suites: an error or a value, never a panic, an abort or unbounded memory.
//! `TACHO_FUZZ_COUNT=1000000 cargo test --release -p tacho-run fuzz -- --nocapture --test-threads=1` tries a million
//! of each kind on all cores.

use std::path::Path;

use tacho_run::experiment::{Links, parse_params};
use tacho_run::{suite::parse_tests, sweep::parse_targets};
use tacho_testkit::{Counted, fuzz};

#[global_allocator]
static COUNTED: Counted = Counted;

#[test]
fn fuzz_parameters() {
    let sets = [
        br#"[{"max_num_seqs": 16, "a.b": null, "extra": {"x": [1, 2.5, "t"]}}, {"_benchmark_name": "n", "flag": true}]"#
            .to_vec(),
        br#"{"one": {"request_rate": 2}, "two": {"request_rate": 1e400}}"#.to_vec(),
        b"[]".to_vec(),
    ];
    fuzz("parameters", &sets, |bytes| {
        let text = String::from_utf8_lossy(bytes);
        for set in parse_params(Path::new("p.json"), &text).unwrap_or_default() {
            let _ = (set.name(), set.as_text("-"), set.shown(), set.get_tolerant("max-num-seqs").is_some());
        }
    });
    fuzz("links", &[b"max_num_seqs=max_concurrency".to_vec(), b"a=b,c=d".to_vec()], |bytes| {
        let _ = Links::parse(&String::from_utf8_lossy(bytes)).is_ok();
    });
}

#[test]
fn fuzz_suites() {
    let serving =
        br#"{"defaults": {"qps_list": ["inf", 1], "max_concurrency_list": [2], "server_parameters": {"model": "m",
        "tensor_parallel_size": 1}, "client_parameters": {"num_prompts": 6, "ignore_eos": ""}},
        "tests": [{"test_name": "serving_a", "client_parameters": {"model": "b"}}]}"#;
    let offline = br#"[{"test_name": "latency_one", "parameters": {"model": "m", "num_iters": 3, "load_format": ""}},
        {"test_name": "throughput_one", "parameters": {"num_prompts": 4}, "environment_variables": {"A": 1}}]"#;
    fuzz("suites", &[serving.to_vec(), offline.to_vec()], |bytes| {
        let text = String::from_utf8_lossy(bytes);
        for test in parse_tests(Path::new("serving-tests.json"), &text).unwrap_or_default() {
            let _ = (test.name.len(), test.kind.name(), test.engine.len(), test.model.is_some());
        }
    });
}

#[test]
fn fuzz_targets() {
    let targets = br#"[{"p99_e2el_ms": "<=200", "mean_ttft_ms": "<50.5"}, {"request_throughput": ">1e3"}]"#;
    fuzz("targets", &[targets.to_vec()], |bytes| {
        let _ = parse_targets(Path::new("sla.json"), &String::from_utf8_lossy(bytes)).is_ok();
    });
}
