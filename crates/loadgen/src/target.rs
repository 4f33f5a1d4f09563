//! What requests are sent to: a server, an engine, or nothing at all to find our own ceiling.

use std::io;

use tacho_core::{Observation, Request, Stamp};

/// Makes one worker per thread.
pub trait Target: Sync {
    /// The part that lives on one thread.
    type Worker<'t>: Worker
    where
        Self: 't;

    /// Makes worker `id` of `of`; called on the thread it will live on, before the clock starts.
    ///
    /// # Errors
    /// When the system has not what the worker needs.
    fn worker(&self, id: usize, of: usize) -> io::Result<Self::Worker<'_>>;
}

/// Carries requests on one thread. Nothing here may block but [`Worker::turn`].
pub trait Worker {
    /// Begins the request of `row.index` and takes over its row.
    fn issue(&mut self, row: Observation);

    /// Takes the request of `index`, which could be made only now that others have ended; it replaces the one made
    /// before the run.
    fn supply(&mut self, _index: usize, _request: &Request) {}

    /// Requests under way that have not brought a token yet.
    fn prefilling(&self) -> usize {
        0
    }

    /// From now on [`Worker::turn`] also comes back when tokens have come, for whoever counts first ones.
    fn watch_tokens(&mut self) {}

    /// Lets things happen until something is finished or `until` has come; appends the finished rows.
    fn turn(&mut self, until: Stamp, done: &mut Vec<Observation>);

    /// Gives up on everything under way.
    fn abort(&mut self, done: &mut Vec<Observation>);

    /// Token events received since the last call.
    fn take_tokens(&mut self) -> u64;

    /// How well this worker kept up; asked once, after the run.
    fn stats(&self) -> WorkerStats;
}

/// How well a worker kept up.
#[derive(Debug, Clone, Default)]
pub struct WorkerStats {
    /// Nanoseconds from a read's kernel stamp to its user-space stamp, a sample in order of arrival.
    pub wake_lags_ns: Vec<u64>,
    /// Nanoseconds spent working rather than waiting.
    pub busy_ns: u64,
    /// Nanoseconds from the start to the end of the worker's run.
    pub total_ns: u64,
    /// Token events received.
    pub events: u64,
    /// Token events whose bytes came together with a later one's.
    pub coalesced: u64,
    /// Those of them that came together because the worker was late.
    pub late_coalesced: u64,
    /// Connections that could not be opened.
    pub connect_failures: u64,
    /// Connections opened.
    pub connections: u64,
    /// Whether stamps came from the kernel.
    pub kernel_stamps: bool,
    /// Reads whose kernel stamp could not be, so that their own time was taken.
    pub odd_stamps: u64,
}
