//! What a run tells those who watch it: work as counted phases, notes as types with their sentences, progress as
//! counters. Whether and where any of it is shown is the report's business.

mod note;
mod offline;
mod search;
mod serve;
mod suite;
mod sweep;
mod talk;
mod tune;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub use note::{Layout, Note};
pub use offline::OfflineNote;
pub use search::{Load, Most, SearchNote, SearchRow};
pub use serve::{ProfilerNote, ServeNote};
pub use suite::SuiteNote;
pub use sweep::{LevelNote, SweepNote};
pub use talk::{Response, TalkNote};
pub use tune::TuneNote;

/// Progress of the requests, written by the workers and read by those who draw a bar.
#[derive(Debug, Default)]
pub struct Counters {
    /// Requests that are over, failed or not.
    pub finished: AtomicU64,
    /// Requests that failed.
    pub failed: AtomicU64,
    /// Token events received.
    pub tokens: AtomicU64,
    /// Requests in flight.
    pub in_flight: AtomicU64,
    /// What is finished so far; filled from rows, not by the workers.
    pub live: crate::live::LiveBoard,
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

/// Counted or timed work that a bar may be drawn of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// Files from the Hub; counted in bytes.
    Downloading,
    /// Requests of a workload.
    Sampling,
    /// The wait until the server answers.
    WaitingForServer,
    /// Requests before the run.
    WarmUp,
    /// The requests that are measured.
    Benchmark,
    /// Runs of a sweep.
    Sweep,
    /// Cases of a suite.
    Suite,
    /// Settings of a tuning.
    Settings,
    /// Loads of a self-check.
    Selfcheck,
    /// Unmeasured iterations of an offline benchmark.
    WarmupIterations,
    /// Measured ones.
    BenchIterations,
    /// Starts with empty caches.
    ColdStarts,
    /// Starts with full caches.
    WarmStarts,
}

/// A moment in the life of a run that a watcher may want to show.
#[derive(Debug, Clone)]
pub enum RunEvent {
    /// What goes on.
    Status(Note),
    /// Something to be wary of.
    Warning(Note),
    /// Counted work begins; a bar may be drawn from `counters`.
    Started {
        /// What is being done.
        work: Work,
        /// How many pieces of work there are.
        total: u64,
        /// Where progress is read.
        counters: Arc<Counters>,
    },
    /// A wait of known length begins.
    Waiting {
        /// What is waited for.
        work: Work,
        /// Seconds after which the wait is given up.
        seconds: u64,
    },
    /// The work or wait begun last is over.
    Finished,
}

impl RunEvent {
    /// A note on what goes on.
    pub fn status(note: impl Into<Note>) -> Self {
        RunEvent::Status(note.into())
    }

    /// A note to be wary of.
    pub fn warning(note: impl Into<Note>) -> Self {
        RunEvent::Warning(note.into())
    }
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
