//! Settings of sessions.

use std::{path::PathBuf, time::Duration};

use tacho_loadgen::OnFailure;
use tacho_workload::SharedPrefixSpec;
use tacho_workload::sessions::{Format, InProgress, Options, Scaling, SyntheticSpec, ThinkTime, TraceError};

use super::starts::SessionStart;

#[derive(Debug, Clone)]
pub struct SessionsPlan {
    pub source: SessionSource,
    /// The part of the source to use, and its time scale.
    pub scaling: Scaling,
    /// Think time, if it overrides the file's.
    pub think: Option<ThinkTime>,
    /// Latency of tools whose results are not recorded.
    pub tool_latency: Option<ThinkTime>,
    pub start: SessionStart,
    /// Most concurrent sessions, each from its first request to its last.
    pub max_sessions: Option<usize>,
    /// Time to ramp up to that limit, or to the session rate.
    pub ramp: Duration,
    /// Number of warm-up sessions, which are not measured.
    pub warmup: usize,
    pub in_progress: Option<InProgress>,
    /// How a failed request affects its session.
    pub on_failure: OnFailure,
    /// Whether the server stores the history and requests refer to the previous response.
    pub server_history: bool,
    /// Tokens to generate if the file does not state them.
    pub output_len: u64,
}

#[derive(Debug, Clone)]
pub enum SessionSource {
    File {
        path: PathBuf,
        /// Its format; detected if not set.
        format: Option<Format>,
        options: Options,
    },
    Made(SyntheticSpec),
    /// Synthetic sessions in groups with a common system prompt.
    SharedPrefix(SharedPrefixSpec),
}

pub(super) fn setting(flag: &'static str, problem: String) -> TraceError {
    TraceError::Setting { flag, problem }
}
