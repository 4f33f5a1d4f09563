//! Events of a run for its observers: phases of counted work, notes with their sentences (vLLM's where vLLM has one),
//! and progress counters. The report crate decides what is shown, and where.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::json::Value;

/// Progress of the requests, written by the workers and read by progress views.
#[derive(Debug, Default)]
pub struct Counters {
    /// Finished requests, including failed ones.
    pub finished: AtomicU64,
    /// Requests that failed.
    pub failed: AtomicU64,
    /// Token events received.
    pub tokens: AtomicU64,
    /// Requests in flight.
    pub in_flight: AtomicU64,
    /// Live metrics, filled from finished rows rather than by the workers.
    pub live: crate::live::LiveBoard,
}

impl Counters {
    /// Counts one finished request.
    pub fn finish_one(&self) {
        self.finished.fetch_add(1, Ordering::Relaxed);
    }

    /// Reads the finished, failed, token and in-flight counts.
    pub fn read(&self) -> (u64, u64, u64, u64) {
        (
            self.finished.load(Ordering::Relaxed),
            self.failed.load(Ordering::Relaxed),
            self.tokens.load(Ordering::Relaxed),
            self.in_flight.load(Ordering::Relaxed),
        )
    }
}

/// Counted or timed work that a progress bar can show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// Downloading files from the Hub; counted in bytes.
    Downloading,
    /// Sampling the requests of a workload.
    Sampling,
    /// Waiting until the server is ready.
    WaitingForServer,
    /// Sending warm-up requests.
    WarmUp,
    /// Sending the measured requests.
    Benchmark,
    /// Running the combinations of a sweep.
    Sweep,
    /// Running the cases of a suite.
    Suite,
    /// Measuring the candidates of a tuning.
    Settings,
    /// Measuring the load levels of a self-check.
    Selfcheck,
    /// Warm-up iterations of an offline benchmark.
    WarmupIterations,
    /// Measured iterations of an offline benchmark.
    BenchIterations,
    /// Engine starts with empty caches.
    ColdStarts,
    /// Engine starts with full caches.
    WarmStarts,
}

/// A note of a run. Those that a view treats differently are variants.
#[derive(Debug, Clone, PartialEq)]
pub enum Note {
    /// A sentence, possibly of several lines.
    Text(String),
    /// A line that vLLM prints before the requests. A terminal shows `brief` instead, or nothing if it is empty.
    Preamble {
        /// The line.
        vllm: String,
        /// What a terminal shows.
        brief: String,
    },
    /// The warm-up requests are complete.
    WarmupDone,
    /// The progress of a client of a multi-turn benchmark.
    Client(String),
    /// A line of a sweep. `tacho capacity` shows `brief` instead, or nothing if it is empty.
    Sweep {
        /// The line.
        text: String,
        /// What `tacho capacity` shows.
        brief: String,
    },
    /// A command after its title.
    Command(String, Vec<String>),
    /// A table of a sweep.
    Table {
        /// The names of the columns.
        headings: Vec<String>,
        /// A value for each column.
        rows: Vec<Vec<Value>>,
    },
}

impl Note {
    /// The sentence, possibly of several lines; `None` if the view lays it out.
    pub fn text(&self) -> Option<&str> {
        match self {
            Note::Text(text) | Note::Client(text) | Note::Preamble { vllm: text, .. } | Note::Sweep { text, .. } => {
                Some(text)
            }
            Note::WarmupDone => Some("Warmup run completed."),
            Note::Command(..) | Note::Table { .. } => None,
        }
    }
}

impl<T: Into<String>> From<T> for Note {
    fn from(text: T) -> Note {
        Note::Text(text.into())
    }
}

/// An event of a run that a view may show.
#[derive(Debug, Clone)]
pub enum RunEvent {
    /// A status message.
    Status(Note),
    /// A warning.
    Warning(Note),
    /// Counted work starts; `counters` holds its progress.
    Started {
        /// The kind of work.
        work: Work,
        /// The number of work items.
        total: u64,
        /// The progress counters.
        counters: Arc<Counters>,
    },
    /// A wait with a time limit starts.
    Waiting {
        /// What the run waits for.
        work: Work,
        /// The time limit in seconds.
        seconds: u64,
    },
    /// The most recently started work or wait is over.
    Finished,
}

impl RunEvent {
    /// Returns a status event.
    pub fn status(note: impl Into<Note>) -> Self {
        RunEvent::Status(note.into())
    }

    /// Returns a warning event.
    pub fn warning(note: impl Into<Note>) -> Self {
        RunEvent::Warning(note.into())
    }
}

/// Receives events; called from the thread that runs the plan.
pub trait EventSink {
    /// Handles one event.
    fn event(&self, event: RunEvent);
}

impl<F: Fn(RunEvent)> EventSink for F {
    fn event(&self, event: RunEvent) {
        self(event);
    }
}

/// Discards all events.
impl EventSink for () {
    fn event(&self, _event: RunEvent) {}
}
