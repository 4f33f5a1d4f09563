//! What a run's notes read like: upstream's sentences where upstream has one, ours elsewhere.

mod offline;
mod search;
mod serve;
mod suite;
mod sweep;
mod tune;

use tacho_core::event::{Note, Work};

/// A note in words; some take several lines.
pub fn of(note: &Note) -> String {
    match note {
        Note::Serve(note) => serve::of(note),
        Note::Offline(note) => offline::of(note),
        Note::Sweep(note) => sweep::of(note),
        Note::Suite(note) => suite::of(note),
        Note::Tune(note) => tune::of(note),
        Note::Told(text) => text.clone(),
    }
}

/// What a bar is called.
pub(crate) fn title(work: Work) -> &'static str {
    match work {
        Work::Downloading => "downloading",
        Work::Sampling => "sampling",
        Work::WaitingForServer => "waiting for the server",
        Work::WarmUp => "warm-up",
        Work::Benchmark => "benchmark",
        Work::Sweep => "sweep",
        Work::Suite => "suite",
        Work::Settings => "settings",
        Work::Selfcheck => "selfcheck",
        Work::WarmupIterations => "Warmup iterations",
        Work::BenchIterations => "Bench iterations",
        Work::ColdStarts => "Cold startup iterations",
        Work::WarmStarts => "Warm startup iterations",
    }
}

/// What a bar counts per second, and how many of the counted pieces make one of those.
pub(crate) fn unit(work: Work) -> (&'static str, u64) {
    match work {
        Work::Downloading => ("MB/s", 1_000_000),
        Work::Sweep => ("run/s", 1),
        _ => ("req/s", 1),
    }
}
