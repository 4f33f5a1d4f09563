//! Compatibility with scripts that grep: each label of vLLM's report occurs once per run, whatever tacho adds.

use crate::tacho::{Place, each, stderr, stdout};

const RUN: [&str; 8] = ["serve", "--sim", "--num-prompts", "30", "--random-input-len", "8", "--random-output-len", "8"];

/// Labels of every report of generated text.
const ALWAYS: [&str; 18] = [
    "Successful requests:",
    "Failed requests:",
    "Benchmark duration (s):",
    "Total input tokens:",
    "Total generated tokens:",
    "Request throughput (req/s):",
    "Output token throughput (tok/s):",
    "Peak output token throughput (tok/s):",
    "Peak concurrent requests:",
    "Total token throughput (tok/s):",
    "Mean TTFT",
    "Median TTFT",
    "P99 TTFT",
    "Mean TPOT",
    "Median TPOT",
    "P99 TPOT",
    "Mean ITL",
    "Serving Benchmark Result",
];

/// Labels that occur on request, and then once.
const SOMETIMES: [&str; 7] = [
    "Request goodput (req/s):",
    "Request rate configured (RPS):",
    "Mean E2EL",
    "Median E2EL",
    "P99 E2EL",
    "Acceptance rate (%):",
    "End-to-end Latency",
];

/// The output without the argument dump.
fn printed(place: &Place, more: &[&str]) -> String {
    let output = place.run(&[&RUN[..], more].concat());
    assert!(matches!(output.status.code(), Some(0 | 3)), "{more:?}: {}", stderr(&output));
    stdout(&output).lines().filter(|line| !line.starts_with("Namespace(")).map(|line| format!("{line}\n")).collect()
}

fn check(text: &str, runs: usize, what: &str) {
    for label in ALWAYS {
        assert_eq!(text.matches(label).count(), runs, "{label:?} with {what}\n{text}");
    }
    for label in SOMETIMES {
        let count = text.matches(label).count();
        assert!(count == 0 || count == runs, "{label:?} {count} times with {what}\n{text}");
    }
}

#[test]
fn each_label_of_vllms_report_occurs_once_in_every_mode() {
    let modes: [&[&str]; 14] = [
        &[],
        &["--request-rate", "60"],
        &["--request-rate", "60", "--max-concurrency", "3", "--burstiness", "0.5"],
        &["--max-concurrency", "4", "--steady-state-min-window", "0.001"],
        &["--goodput", "ttft:100", "e2el:2000"],
        &["--percentile-metrics", "ttft,tpot,itl,e2el", "--metric-percentiles", "25,99"],
        &["--duration", "0.5", "--request-rate", "60"],
        &["--duration", "1", "--until", "mean_ttft_ms:90%", "--request-rate", "60"],
        &["--probe-request-rate", "20", "--request-rate", "30"],
        &["--multi-turn", "--multi-turn-num-turns", "2"],
        &["--ramp-up-strategy", "linear", "--ramp-up-start-rps", "20", "--ramp-up-end-rps", "80"],
        &["--fail-if", "p99_ttft_ms>10000", "--allow-inconclusive"],
        &["--reset-prefix-cache", "--random-prefix-len", "16", "--num-warmups", "2"],
        &["--strict-parity"],
    ];
    each(&modes, |more| check(&printed(&Place::new(), more), 1, &more.join(" ")));
}

#[test]
fn each_label_occurs_once_for_each_of_several_runs() {
    let place = Place::new();
    let text = printed(&place, &["--num-runs", "2", "--request-rate", "100"]);
    // The summary table below the reports has the labels of vLLM's table, which do not end in a colon.
    let reports = text.split("Multi-Run Summary").next().unwrap_or_default();
    check(reports, 2, "--num-runs 2");
}

#[test]
fn a_report_of_a_log_has_each_label_once() {
    let place = Place::new();
    printed(&place, &["--save-result", "--result-filename", "r.json", "--log", "r.rows", "--request-rate", "80"]);
    let output = place.run(&["report", "r.rows"]);
    assert!(output.status.success(), "{}", stderr(&output));
    check(&stdout(&output), 1, "report");
}
