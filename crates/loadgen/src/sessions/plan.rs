//! The settings of a run with sessions, and the trait that builds requests from completions.

use std::{collections::HashMap, ops::Range, time::Duration};

use tacho_core::{Reply, Request, Timestamp};

use super::graph::Graph;

/// The settings of a run with sessions.
pub struct SessionPlan<'a> {
    /// The dependency graph.
    pub graph: &'a Graph,
    /// The sessions of this run.
    pub range: Range<usize>,
    /// Every n-th session is run; the others belong to other ranks.
    pub stride: usize,
    /// When each session may start, in seconds; ascending.
    pub starts: &'a [f64],
    /// Subtracted from the starts, so that a range in the middle of the workload starts at once.
    pub from: f64,
    /// Maximum number of concurrent sessions, each from its first to its last request.
    pub max_sessions: Option<usize>,
    /// Time over which the limit rises from one session to `max_sessions`.
    pub ramp: Duration,
    /// Effect of a failed request on its session.
    pub on_failure: OnFailure,
    /// Builds the requests that depend on completions.
    pub script: &'a dyn Script,
}

tacho_core::named! {
    /// Effect of a failed request on its session.
    #[derive(Default)]
    pub enum OnFailure {
        /// The session ends.
        #[default]
        End = "end",
        /// The session continues without the completion.
        Continue = "continue",
    }
}

/// The completion of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Completion {
    /// The text.
    pub text: Vec<u8>,
    /// Further parts that a later request refers to.
    pub reply: Option<Box<Reply>>,
    /// When it was complete.
    pub ended: Timestamp,
}

/// Completions by the index of their request.
pub type Completions = HashMap<usize, Completion>;

/// Builds requests from completions.
pub trait Script: Sync {
    /// Whether the completion of this request is part of a later request.
    fn keeps(&self, index: usize) -> bool;

    /// Builds the request from the completions so far; `None` keeps the request built before the run.
    fn request(&self, index: usize, completions: &Completions) -> Option<Request>;

    /// The completion that calls the tools whose results this request carries, and how long the tools take.
    fn tools(&self, _index: usize, _completions: &Completions) -> Option<(usize, Duration)> {
        None
    }
}
