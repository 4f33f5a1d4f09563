//! Sentences about commands over parameter sets.

use tacho_core::event::{LevelNote, SweepNote};
use tacho_core::json::{Dict, Value, python_str, quoted, repr};
use tacho_core::secret::redact_words;

/// `shown` writes a command.
pub(super) fn of(note: &SweepNote, shown: &dyn Fn(&[String]) -> String) -> String {
    match note {
        SweepNote::ServerBegins { overrides, command } => {
            format!("[BEGIN SERVER]\nServer overrides: {}\nServer command: {}", python_dict(overrides), shown(command))
        }
        SweepNote::ServerEnds => "[END SERVER]".into(),
        SweepNote::ServerFailed { name, failure } => format!("[FAILED SERVER COMBINATION] {name}: {failure}"),
        SweepNote::FailureDetails(path) => format!("Failure details: {}", path.display()),
        SweepNote::Capacity { tokens, request, requests } => format!(
            "the server's KV cache holds {tokens} tokens: {requests} requests of {request} tokens at once; a \
             max_concurrency of {} to {} leaves it some room",
            (requests * 0.8).floor().max(1.0),
            (requests * 0.9).floor().max(1.0),
        ),
        SweepNote::ServerLog(path) => format!("what the server said is in {}", path.display()),
        SweepNote::BenchBegins { overrides, number, command, output } => {
            let overrides: String =
                overrides.iter().map(|(whose, set)| format!("{whose} overrides: {}\n", python_dict(set))).collect();
            let (command, output) = (shown(command), output.display());
            format!(
                "[BEGIN BENCHMARK]\n{overrides}Run Number: {number}\nBenchmark command: {command}\nOutput file: {output}"
            )
        }
        SweepNote::ResultFound => "Found existing results.\n[SKIPPED BENCHMARK]".into(),
        SweepNote::BenchEnds => "[END BENCHMARK]".into(),
        SweepNote::BenchFailed { number, failure } => format!("[FAILED BENCHMARK] run={number}: {failure}"),
        SweepNote::NoRuns => "[NO SUCCESSFUL MEASURED RUNS] leaving combination retryable".into(),
        SweepNote::Unlinked { serve, bench, link } => {
            format!("skipped {serve} with {bench}: --link-vars {link} does not hold")
        }
        SweepNote::ResettingCaches { address } => format!("Resetting caches at {address}"),
        SweepNote::Unsupported { set, keys } => format!("Ignoring unsupported startup params for {set}: {keys}"),
        SweepNote::Place { directory, dry_run } => {
            let when = if *dry_run { "will be" } else { "has been" };
            format!("Experiment {when} saved at: {}", directory.display())
        }
        SweepNote::Level(note) => level(note),
        SweepNote::Search(note) => super::search::of(note),
    }
}

fn level(note: &LevelNote) -> String {
    match note {
        LevelNote::Begins { label, serve, bench, iterations, size } => format!(
            "[{label} START]\nServe parameters: {serve}\nBench parameters: {bench}\n\
             Number of {} iterations: {iterations}\nDataset size: {size}",
            spoken(label).to_lowercase()
        ),
        LevelNote::Omitted { label } => format!("Omitting intermediate {} iterations.", spoken(label)),
        LevelNote::Ends { key, serial, batch } => {
            format!("Serial inference: {key}={}\nBatch inference: {key}={}", serial.ceil(), batch.floor())
        }
        LevelNote::Exploring { key, value } => format!("Exploring: {key}={}", python_str(value)),
        LevelNote::NoEnds { label } => {
            let what = spoken(label);
            format!(
                "Unable to establish both {what} Explorer endpoints; skipping intermediate {} levels.",
                what.to_lowercase()
            )
        }
        LevelNote::Over { label } => format!("[{label} END]"),
    }
}

/// What upstream calls a walk whose directories have this label.
fn spoken(label: &str) -> &'static str {
    if label == "SLA" { "SLA" } else { "Workload" }
}

fn python_dict(set: &Dict) -> String {
    repr(&Value::Dict(set.clone()))
}

/// A command as Python prints a list.
pub(super) fn python_list(command: &[String]) -> String {
    let words: Vec<String> = redact_words(command).iter().map(|word| quoted(word)).collect();
    format!("[{}]", words.join(", "))
}
