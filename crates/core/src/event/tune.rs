//! Notes of a tuning.

use std::path::PathBuf;

use super::sweep::Command;

/// Notes of a tuning.
#[derive(Debug, Clone, PartialEq)]
pub enum TuneNote {
    /// The 99th percentile rests on few prompts.
    FewPrompts {
        /// How many there are.
        prompts: u64,
    },
    /// What would be run.
    Would {
        /// `Server` or `Benchmark`.
        who: &'static str,
        /// The command.
        command: Command,
    },
    /// Where results will be.
    Place {
        /// The directory.
        directory: PathBuf,
    },
    /// Settings' turn begins.
    Candidate {
        /// Which.
        at: usize,
        /// Of how many.
        of: u64,
        /// The settings.
        title: String,
    },
    /// What they came to, as the result file has it.
    Measured {
        /// The line.
        line: String,
    },
    /// They failed.
    Failed {
        /// The settings.
        title: String,
        /// Why.
        failure: String,
        /// Where the server's words are.
        log: PathBuf,
    },
    /// A share of the device's memory is tried.
    TryingShare {
        /// The share.
        share: String,
    },
    /// It is used.
    UsingShare {
        /// The share.
        share: String,
    },
    /// It is too large.
    ShareFailed {
        /// The share.
        share: String,
        /// What happened.
        failure: String,
    },
    /// A level was measured.
    Level {
        /// The load.
        rate: String,
        /// Requests per second.
        throughput: f64,
        /// Each criterion's metric, its mean, its condition, and whether it is met.
        criteria: Vec<(String, f64, String, bool)>,
        /// How many runs.
        runs: usize,
    },
    /// Some of its requests failed.
    LevelFailures {
        /// The load.
        rate: String,
        /// How many.
        failed: i64,
    },
    /// Nothing keeps the limit.
    NoneMeets,
    /// The answer.
    Best {
        /// In words, which the result file has too.
        sentence: String,
    },
    /// Other settings may be as good.
    AsGood {
        /// The settings.
        title: String,
        /// Requests per second.
        throughput: f64,
    },
    /// The best settings are profiled.
    Profiling {
        /// The settings.
        title: String,
    },
    /// That failed.
    ProfileFailed {
        /// Why.
        failure: String,
    },
}
