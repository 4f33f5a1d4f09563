//! What a run's notes read like: upstream's sentences where upstream has one, ours elsewhere.

mod offline;
mod search;
mod serve;
mod suite;
mod sweep;
mod talk;
mod tune;

use tacho_core::event::{Note, Work};
use tacho_core::secret::redact_words;

use crate::style::command_lines;

/// A note in words, as upstream writes it; some take several lines.
pub fn of(note: &Note) -> String {
    told(note, &sweep::python_list)
}

/// The same for a person with a screen of this width, who can copy the commands in it.
pub fn for_person(note: &Note, width: usize) -> String {
    told(note, &|command| command_lines(&redact_words(command), width.saturating_sub(BEFORE)))
}

/// Room for what is said before a command.
const BEFORE: usize = 20;

fn told(note: &Note, command: &dyn Fn(&[String]) -> String) -> String {
    match note {
        Note::Serve(note) => serve::of(note),
        Note::Offline(note) => offline::of(note),
        Note::Sweep(note) => sweep::of(note, command),
        Note::Suite(note) => suite::of(note),
        Note::Tune(note) => tune::of(note, command),
        Note::Talk(note) => talk::of(note),
        Note::Text(text) => text.clone(),
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
        Work::Sweep | Work::Suite | Work::Settings => ("run/s", 1),
        _ => ("req/s", 1),
    }
}
