//! Sentences about a suite of tests.

use tacho_core::event::SuiteNote;

pub(super) fn of(note: &SuiteNote) -> String {
    match note {
        SuiteNote::Skipped { name, reason } => format!("Skipping {name}: {reason}"),
        SuiteNote::Case { name } => format!("Running test case {name}"),
        SuiteNote::Runs { who, line } => format!("{who} command: {line}"),
        SuiteNote::Found { output } => format!("Found existing results in {}.", output.display()),
        SuiteNote::Failed { name, failure } => format!("{name}: {failure}"),
        SuiteNote::Limits { name, rate, last_pass, first_fail } => {
            let level = |level: &Option<u64>| level.map_or("none".to_owned(), |level| level.to_string());
            let (pass, fail) = (level(last_pass), level(first_fail));
            format!("{name} at qps {rate}: the limits are kept up to {pass}, first broken at {fail}")
        }
    }
}
