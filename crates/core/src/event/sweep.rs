//! Notes of sweeps over parameter sets and load levels.

use std::path::PathBuf;

use super::note::notes;
use super::search::SearchNote;
use crate::json::{Dict, Value, python_str, repr};

notes! {
    /// Notes of a sweep.
    SweepNote, layout;
    ServerBegins { overrides: Dict, command: Vec<String> } => {
        let (overrides, command) = (python_dict(overrides), layout.command(command));
        format!("[BEGIN SERVER]\nServer overrides: {overrides}\nServer command: {command}")
    };
    Capacity { tokens: u64, request: u64, requests: f64 } => format!(
        "the server's KV cache holds {tokens} tokens: {requests} requests of {request} tokens at once; a \
         max_concurrency of {} to {} leaves it some room",
        (requests * 0.8).floor().max(1.0),
        (requests * 0.9).floor().max(1.0),
    );
    Waiting { url: String, waited: u64, most: u64, log: PathBuf } => format!(
        "waiting for {url} ({waited}s of {most}s)…; what the server says is in {}",
        log.display()
    );
    ServerEnds => "[END SERVER]";
    ServerFailed { name: String, failure: String } => format!("[FAILED SERVER COMBINATION] {name}: {failure}");
    FailureDetails(path: PathBuf) => format!("Failure details: {}", path.display());
    ServerLog(path: PathBuf) => format!("what the server said is in {}", path.display());
    /// Each parameter set with its name.
    BenchBegins { overrides: Vec<(&'static str, Dict)>, number: i64, command: Vec<String>, output: PathBuf } => {
        let each = overrides.iter().map(|(whose, set)| format!("{whose} overrides: {}\n", python_dict(set)));
        let (overrides, command, output) = (each.collect::<String>(), layout.command(command), output.display());
        format!(
            "[BEGIN BENCHMARK]\n{overrides}Run Number: {number}\nBenchmark command: {command}\nOutput file: {output}"
        )
    };
    ResultFound => "Found existing results.\n[SKIPPED BENCHMARK]";
    BenchEnds => "[END BENCHMARK]";
    BenchFailed { number: i64, failure: String } => format!("[FAILED BENCHMARK] run={number}: {failure}");
    NoRuns => "[NO SUCCESSFUL MEASURED RUNS] leaving combination retryable";
    Unlinked { serve: String, bench: String, link: String } =>
        format!("skipped {serve} with {bench}: --link-vars {link} does not hold");
    ResettingCaches { address: String } => format!("Resetting caches at {address}");
    Unsupported { set: String, keys: String } => format!("Ignoring unsupported startup params for {set}: {keys}");
    Place { directory: PathBuf, dry_run: bool } => {
        let when = if *dry_run { "will be" } else { "has been" };
        format!("Experiment {when} saved at: {}", directory.display())
    };
    Level(note: LevelNote) => note.text(layout);
    Search(note: SearchNote) => note.text(layout);
}

notes! {
    /// Notes of a walk over load levels; `label` is `WL` or `SLA`.
    LevelNote, layout;
    Begins { label: &'static str, serve: String, bench: String, iterations: usize, size: i64 } => format!(
        "[{label} START]\nServe parameters: {serve}\nBench parameters: {bench}\n\
         Number of {} iterations: {iterations}\nDataset size: {size}",
        spoken(label).to_lowercase()
    );
    Omitted { label: &'static str } => format!("Omitting intermediate {} iterations.", spoken(label));
    /// The loads with one request at a time and with all requests at once.
    Ends { key: &'static str, serial: f64, batch: f64 } =>
        format!("Serial inference: {key}={}\nBatch inference: {key}={}", serial.ceil(), batch.floor());
    Exploring { key: &'static str, value: Value } => format!("Exploring: {key}={}", python_str(value));
    NoEnds { label: &'static str } => {
        let (what, levels) = (spoken(label), spoken(label).to_lowercase());
        format!("Unable to establish both {what} Explorer endpoints; skipping intermediate {levels} levels.")
    };
    Over { label: &'static str } => format!("[{label} END]");
}

/// vLLM's name for a walk with this label.
fn spoken(label: &str) -> &'static str {
    if label == "SLA" { "SLA" } else { "Workload" }
}

fn python_dict(set: &Dict) -> String {
    repr(&Value::Dict(set.clone()))
}
