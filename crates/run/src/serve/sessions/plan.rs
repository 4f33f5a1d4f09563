//! Which sessions, and how they are held.

use std::path::PathBuf;
use std::time::Duration;

use tacho_loadgen::OnFailure;
use tacho_workload::SharedPrefixSpec;
use tacho_workload::sessions::{Format, Options, Scaling, SyntheticSpec, ThinkTime, TraceError};

use super::starts::SessionStart;

/// Which sessions, and how they are held.
#[derive(Debug, Clone)]
pub struct SessionsPlan {
    /// Where they come from.
    pub source: SessionSource,
    /// Which part of it, and how fast.
    pub scaling: Scaling,
    /// How long users think, where that is not left to the file.
    pub think: Option<ThinkTime>,
    /// How long a tool takes whose result is not recorded.
    pub tool_latency: Option<ThinkTime>,
    /// When sessions start.
    pub start: SessionStart,
    /// At most this many at once, each from its first request to its last.
    pub max_sessions: Option<usize>,
    /// Ramp-up: how long it takes to reach that limit, or the session rate.
    pub ramp: Duration,
    /// Sessions that are held before the measurement and are no part of it.
    pub warmup: usize,
    /// What a failed request does to its session.
    pub on_failure: OnFailure,
    /// Whether the server keeps the history and requests name the answer that they follow.
    pub server_history: bool,
    /// Tokens to generate where the file does not say.
    pub output_len: u64,
}

/// Where sessions come from.
#[derive(Debug, Clone)]
pub enum SessionSource {
    /// A file.
    File {
        /// Its path.
        path: PathBuf,
        /// Its format; detected from its rows where it is not set.
        format: Option<Format>,
        /// Settings of the reading.
        options: Options,
    },
    /// None: they are made up.
    Made(SyntheticSpec),
    /// The same behind system prompts that groups of them share.
    SharedPrefix(SharedPrefixSpec),
}

/// A complaint about a flag.
pub(super) fn setting(flag: &'static str, problem: String) -> TraceError {
    TraceError::Setting { flag, problem }
}
