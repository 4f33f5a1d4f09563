//! The texts of a run's notes: in vLLM's wording for programs, and for people.

use tacho_core::event::{Note, Work};
use tacho_core::{json::quoted, secret::redact_args};

use crate::{style::command_lines, tables::markdown::Table};

/// The text of a note in vLLM's wording; may have several lines. Commands are as Python prints a list.
pub fn of(note: &Note) -> String {
    text(note, &|args| {
        let args: Vec<String> = args.iter().map(|word| quoted(word)).collect();
        format!("[{}]", args.join(", "))
    })
}

/// The text of a note for a terminal of this width, with commands that can be copied.
pub fn for_person(note: &Note, width: usize) -> String {
    text(note, &|args| command_lines(args, width.saturating_sub(BEFORE)))
}

/// Columns for the text before a command.
const BEFORE: usize = 20;

fn text(note: &Note, command: &dyn Fn(&[String]) -> String) -> String {
    match note {
        Note::Command(title, args) => format!("{title}{}", command(&redact_args(args))),
        Note::Table { headings, rows } => {
            Table { headings: headings.clone(), rows: rows.clone() }.markdown().trim_end().to_owned()
        }
        note => note.text().unwrap_or_default().to_owned(),
    }
}

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

/// The unit of a progress bar, and the number of counted pieces per unit.
pub(crate) fn unit(work: Work) -> (&'static str, u64) {
    match work {
        Work::Downloading => ("MB/s", 1_000_000),
        Work::Sweep | Work::Suite | Work::Settings => ("run/s", 1),
        _ => ("req/s", 1),
    }
}
