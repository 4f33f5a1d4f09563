//! Notes of commands over parameter sets and levels of load.

use std::path::PathBuf;

use super::search::SearchNote;
use crate::json::{Dict, Value};

/// A command as it is run.
pub type Command = Vec<String>;

/// Notes of commands over parameter sets.
#[derive(Debug, Clone, PartialEq)]
pub enum SweepNote {
    /// A server's turn begins.
    ServerBegins {
        /// Its parameters.
        overrides: Dict,
        /// What starts it.
        command: Command,
    },
    /// How much it holds, as it says itself.
    Capacity {
        /// Tokens of its KV cache.
        tokens: u64,
        /// Tokens of a request of the greatest length.
        request: u64,
        /// How many of those fit at once.
        requests: f64,
    },
    /// It is over.
    ServerEnds,
    /// It could not be measured.
    ServerFailed {
        /// Its parameters' name.
        name: String,
        /// Why.
        failure: String,
    },
    /// More about the failure is there.
    FailureDetails(PathBuf),
    /// What it said is there.
    ServerLog(PathBuf),
    /// A benchmark's turn begins.
    BenchBegins {
        /// Its parameters, each with what they are called.
        overrides: Vec<(&'static str, Dict)>,
        /// Which run of it this is.
        number: i64,
        /// What is run.
        command: Command,
        /// Where the result goes.
        output: PathBuf,
    },
    /// Its result is there already.
    ResultFound,
    /// It is over.
    BenchEnds,
    /// It failed.
    BenchFailed {
        /// Which run of it.
        number: i64,
        /// Why.
        failure: String,
    },
    /// None of a combination's runs succeeded.
    NoRuns,
    /// Two sets do not belong together.
    Unlinked {
        /// The server's.
        serve: String,
        /// The client's.
        bench: String,
        /// What keeps them apart.
        link: String,
    },
    /// The server forgets what it has cached.
    ResettingCaches {
        /// Where it is.
        address: String,
    },
    /// Parameters that the benchmark does not have.
    Unsupported {
        /// Of which set.
        set: String,
        /// Which.
        keys: String,
    },
    /// Where everything is, or would be.
    Place {
        /// The directory.
        directory: PathBuf,
        /// Whether nothing was run.
        dry_run: bool,
    },
    /// About levels of load.
    Level(LevelNote),
    /// Of a search among them.
    Search(SearchNote),
}

/// Notes of a walk over levels of load.
#[derive(Debug, Clone, PartialEq)]
pub enum LevelNote {
    /// A pair's turn begins.
    Begins {
        /// `WL` or `SLA`.
        label: &'static str,
        /// The server's parameters.
        serve: String,
        /// The client's.
        bench: String,
        /// How many levels.
        iterations: usize,
        /// How many prompts.
        size: i64,
    },
    /// Only the ends are shown.
    Omitted {
        /// As above.
        label: &'static str,
    },
    /// The loads of one request at a time and of all at once.
    Ends {
        /// What is varied.
        key: &'static str,
        /// One at a time.
        serial: f64,
        /// All at once.
        batch: f64,
    },
    /// A level's turn begins.
    Exploring {
        /// What is varied.
        key: &'static str,
        /// The level.
        value: Value,
    },
    /// The ends could not be found.
    NoEnds {
        /// As above.
        label: &'static str,
    },
    /// The pair's turn is over.
    Over {
        /// As above.
        label: &'static str,
    },
}
