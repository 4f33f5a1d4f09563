//! What a run with sessions is told, and who makes its requests of answers.

use std::collections::HashMap;
use std::ops::Range;
use std::time::Duration;

use tacho_core::{Reply, Request, Stamp};

use super::graph::Graph;

/// What a run with sessions does beside its timeline.
pub struct SessionPlan<'a> {
    /// Who waits for whom.
    pub graph: &'a Graph,
    /// Which of its sessions.
    pub range: Range<usize>,
    /// Every n-th of them; the others are somebody else's.
    pub stride: usize,
    /// When each session may start, in seconds; ascending.
    pub starts: &'a [f64],
    /// What is taken off these: when what came before the range is over, nobody waits for its time.
    pub from: f64,
    /// At most this many sessions at once, each from its first request to its last.
    pub max_sessions: Option<usize>,
    /// How long it takes until there may be so many; there may be one from the beginning.
    pub ramp: Duration,
    /// What a failed request does to its session.
    pub on_failure: OnFailure,
    /// Makes the requests that depend on answers.
    pub script: &'a dyn Script,
}

/// What a failed request does to its session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// Nothing more of it is sent.
    #[default]
    End,
    /// It goes on without the answer.
    Continue,
}

/// What was answered.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Said {
    /// The text.
    pub text: Vec<u8>,
    /// What else a later request needs of it.
    pub reply: Option<Box<Reply>>,
    /// When it was whole.
    pub ended: Stamp,
}

/// Answers by the place of their request.
pub type Answers = HashMap<usize, Said>;

/// Makes requests of answers.
pub trait Script: Sync {
    /// Whether the answer of this request is part of a later one.
    fn keeps(&self, index: usize) -> bool;

    /// The request, given the answers so far; none where the one made before the run stands.
    fn request(&self, index: usize, answers: &Answers) -> Option<Request>;

    /// The answer that calls the tools whose results this request brings, and how long they take. Only the answers so far
    /// tell of them.
    fn tools(&self, _index: usize, _answers: &Answers) -> Option<(usize, Duration)> {
        None
    }
}
