//! What a run tells whoever watches it: phases as events, progress as counters.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Progress of the requests, written by the workers and read by whoever draws a bar.
#[derive(Debug, Default)]
pub struct Counters {
    /// Requests that are over, failed or not.
    pub finished: AtomicU64,
    /// Requests that failed.
    pub failed: AtomicU64,
    /// Token events received.
    pub tokens: AtomicU64,
    /// Requests under way.
    pub in_flight: AtomicU64,
}

impl Counters {
    /// Finished, failed, tokens, in flight: each as it is now.
    pub fn read(&self) -> (u64, u64, u64, u64) {
        (
            self.finished.load(Ordering::Relaxed),
            self.failed.load(Ordering::Relaxed),
            self.tokens.load(Ordering::Relaxed),
            self.in_flight.load(Ordering::Relaxed),
        )
    }
}

/// A moment in the life of a run that a watcher may want to show.
#[derive(Debug, Clone)]
pub enum RunEvent {
    /// A status line in vLLM's words.
    Status(String),
    /// Something to be wary of.
    Warning(String),
    /// Counted work begins (sampling, warm-up, the main run); a bar may be drawn from `counters`.
    Started {
        /// What is being done.
        what: &'static str,
        /// How many pieces of work there are.
        total: u64,
        /// Where progress is read.
        counters: Arc<Counters>,
    },
    /// A wait of known length begins (the ready check).
    Waiting {
        /// What is waited for.
        what: &'static str,
        /// Seconds after which the wait is given up.
        seconds: u64,
    },
    /// The work or wait begun last is over.
    Finished,
}

/// Receives events; called from the thread that runs the plan.
pub trait EventSink {
    /// Takes one event.
    fn event(&self, event: RunEvent);
}

/// Discards everything.
impl EventSink for () {
    fn event(&self, _event: RunEvent) {}
}
