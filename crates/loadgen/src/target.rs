//! What requests are sent to: a server, an engine, or a null target that measures the client's own ceiling.

use std::io;

use tacho_core::{Observation, Request, Timestamp};

/// Makes one worker per thread.
pub trait Target: Sync {
    /// The part that lives on one thread.
    type Worker<'t>: Worker
    where
        Self: 't;

    /// Makes worker `id` of `of`; called on the thread it will live on, before the clock starts.
    ///
    /// # Errors
    /// When the system lacks what the worker needs.
    fn worker(&self, id: usize, of: usize) -> io::Result<Self::Worker<'_>>;
}

/// Carries requests on one thread. Only [`Worker::poll`] may block.
pub trait Worker {
    /// Begins the request of `row.index` and takes over its row.
    fn issue(&mut self, row: Observation);

    /// Replaces the request of `index` by one that could be built only after its predecessors had ended.
    fn supply(&mut self, _index: usize, _request: &Request) {}

    /// Replaces the request of `index` by an encoded body and a header.
    fn supply_body(
        &mut self,
        _index: usize,
        _body: &[u8],
        _header: Option<(&str, &str)>,
        _output_len: usize,
        _unstreamed: bool,
    ) {
    }

    /// Requests in flight without a token so far.
    fn prefilling(&self) -> usize {
        0
    }

    /// Makes [`Worker::poll`] also return when tokens have arrived.
    fn watch_tokens(&mut self) {}

    /// Processes events until a request has finished or `until` is reached; appends the finished rows.
    fn poll(&mut self, until: Timestamp, done: &mut Vec<Observation>);

    /// Aborts all requests in flight.
    fn abort(&mut self, done: &mut Vec<Observation>);

    /// Token events received since the last call.
    fn take_tokens(&mut self) -> u64;

    /// The start is known: the statistics count from here. What a worker waited for other ranks before is not load.
    fn begin(&mut self) {}

    /// How well this worker kept up; called once, after the run.
    fn stats(&self) -> WorkerStats;
}

/// How well a worker kept up.
#[derive(Debug, Clone, Default)]
pub struct WorkerStats {
    /// Nanoseconds from a read's kernel timestamp to its user-space timestamp, a sample in order of arrival.
    pub wake_lags_ns: Vec<u64>,
    /// Nanoseconds spent working rather than waiting.
    pub busy_ns: u64,
    /// Nanoseconds from the start to the end of the worker's run.
    pub total_ns: u64,
    /// Token events received.
    pub events: u64,
    /// Token events whose bytes came in the same read as a later one's.
    pub coalesced: u64,
    /// Coalesced events that were read late, so that they may have arrived one by one.
    pub late_coalesced: u64,
    /// Nanoseconds by which the arrival of such an event may lie before its timestamp, a sample: the kernel's timestamp of a
    /// read is that of its last packet.
    pub late_spans_ns: Vec<u64>,
    /// Connections that could not be opened.
    pub connect_failures: u64,
    /// Connections opened.
    pub connections: u64,
    /// Whether timestamps came from the kernel.
    pub kernel_timestamps: bool,
    /// Reads whose kernel timestamp was impossible; their user-space time was taken.
    pub timestamp_anomalies: u64,
}
