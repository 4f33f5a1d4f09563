//! Notes of a suite of tests.

use std::path::PathBuf;

/// Notes of a suite of tests.
#[derive(Debug, Clone, PartialEq)]
pub enum SuiteNote {
    /// A test is left out.
    Skipped {
        /// Its name.
        name: String,
        /// Why.
        reason: String,
    },
    /// A case's turn begins.
    Case {
        /// Its name.
        name: String,
    },
    /// What is run for it.
    Runs {
        /// `Server`, `Client` or `Benchmark`.
        who: &'static str,
        /// The command line.
        line: String,
    },
    /// Its result is there already.
    Found {
        /// Where.
        output: PathBuf,
    },
    /// It failed.
    Failed {
        /// Its name.
        name: String,
        /// Why.
        failure: String,
    },
    /// How far the limits are kept.
    Limits {
        /// The test.
        name: String,
        /// The rate.
        rate: String,
        /// The largest level that keeps them.
        last_pass: Option<u64>,
        /// The smallest that breaks them.
        first_fail: Option<u64>,
    },
}
