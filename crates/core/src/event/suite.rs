//! Notes of a test suite.

use std::path::PathBuf;

use super::note::notes;

notes! {
    /// Notes of a test suite.
    SuiteNote, layout;
    Skipped { name: String, reason: String } => format!("Skipping {name}: {reason}");
    Case { name: String } => format!("Running test case {name}");
    /// `who` is `Server`, `Client` or `Benchmark`.
    Runs { who: &'static str, line: String } => format!("{who} command: {line}");
    Found { output: PathBuf } => format!("Found existing results in {}.", output.display());
    Failed { name: String, failure: String } => format!("{name}: {failure}");
    /// The highest level that meets the limits, and the lowest that violates them.
    Limits { name: String, rate: String, last_pass: Option<u64>, first_fail: Option<u64> } => {
        let (pass, fail) = (level(*last_pass), level(*first_fail));
        format!("{name} at qps {rate}: the limits are kept up to {pass}, first broken at {fail}")
    };
}

fn level(level: Option<u64>) -> String {
    level.map_or("none".to_owned(), |level| level.to_string())
}
