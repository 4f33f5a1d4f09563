//! Flags that several commands have.

pub(crate) mod engine;
pub(crate) mod history;
pub(crate) mod live;
pub(crate) mod ranks;
pub(crate) mod sign_in;

use tacho_core::dict;
use tacho_core::json::{Dict, Value};

/// Properties of flags, for [`Flag::tags`](tacho_args::flag::Flag::tags).
pub(crate) mod tags {
    /// Requires a server or a real run, which a prediction does not have.
    pub(crate) const NEEDS_SERVER: u32 = 1;
    pub(crate) const SETS_LOAD: u32 = 1 << 1;
    /// Delays or cancels requests, or changes their rate: a plan simulates all arrivals.
    pub(crate) const SHAPES_LOAD: u32 = 1 << 2;
    /// Names one file or one run, and does not apply to commands that make several.
    pub(crate) const ONE_RUN: u32 = 1 << 3;
    /// A class of traffic or a stage can set it.
    pub(crate) const PER_STAGE: u32 = 1 << 4;
    /// A class of traffic can set it, but not a stage.
    pub(crate) const PER_CLASS: u32 = 1 << 5;
    /// Concerns the whole run, unlike others of its section.
    pub(crate) const WHOLE_RUN: u32 = 1 << 6;
    /// Determines requests or their times: a saved workload has its value.
    pub(crate) const SAVED: u32 = 1 << 7;
    /// A limit, or how responses are read: a saved workload has its default.
    pub(crate) const SAVED_DEFAULT: u32 = 1 << 8;
    pub(crate) const UNUSED_BY_WORKLOAD: u32 = 1 << 9;
    pub(crate) const WINDOW: u32 = 1 << 10;
    /// Shows the progress of a command, whatever runs it makes.
    pub(crate) const SCREEN: u32 = 1 << 11;
    /// Sets the load of a run: its rate, its concurrency, or all send times.
    pub(crate) const SETS_LEVEL: u32 = 1 << 12;
    pub(crate) const SETS_LENGTH: u32 = 1 << 13;
    /// Names a file that the command writes. It must not be one that another flag names.
    pub(crate) const WRITES: u32 = 1 << 14;
}

/// The first entries of vLLM's argument dump.
pub(super) fn first_entries(bench_type: &str) -> Dict {
    dict! {
        "subparser": "bench",
        "bench_type": bench_type,
        "dispatch_function": "<function is not JSON serializable>",
    }
}

/// Entries that vLLM's logging adds after its own flags.
pub(super) fn logging_entries() -> Dict {
    dict! { "log_config_file": Value::Null, "logging_config": "<LoggingConfig is not JSON serializable>" }
}
