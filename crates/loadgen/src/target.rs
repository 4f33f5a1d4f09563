//! Targets of requests: a server, an engine, or a null target that measures the client's own ceiling.

use std::io;

use tacho_core::{Observation, Request, Timestamp};

/// Creates one worker per thread.
///
/// ```
/// use std::io;
/// use std::time::Duration;
/// use tacho_core::{Clock, Counters, Kept, Observation, Outcome, SystemClock, Timestamp};
/// use tacho_loadgen::{Drive, ScheduleSpec, StopSignal, Target, Worker, drive};
/// use tacho_pyrand::RandomState;
///
/// /// Completes every request at once.
/// struct Null(SystemClock);
///
/// struct NullWorker(SystemClock, Vec<Observation>);
///
/// impl Target for Null {
///     type Worker<'t> = NullWorker;
///
///     fn worker(&self, _id: usize, _of: usize) -> io::Result<NullWorker> {
///         Ok(NullWorker(self.0, Vec::new()))
///     }
/// }
///
/// impl Worker for NullWorker {
///     fn issue(&mut self, mut row: Observation) {
///         row.sent = self.0.now();
///         row.done = row.sent;
///         row.outcome = Outcome::Complete;
///         self.1.push(row);
///     }
///
///     fn poll(&mut self, until: Timestamp, done: &mut Vec<Observation>) {
///         if self.1.is_empty() {
///             std::thread::sleep(until.since(self.0.now()));
///         }
///         done.append(&mut self.1);
///     }
///
///     fn abort(&mut self, done: &mut Vec<Observation>) {
///         done.append(&mut self.1);
///     }
/// }
///
/// let clock = SystemClock::start();
/// let schedule = ScheduleSpec::Rate { rate: 1000.0, burstiness: 1.0 };
/// let timeline = schedule.plan(20, &mut RandomState::new(0))?;
/// let (stop, counters, mut rows) = (StopSignal::default(), Counters::default(), Kept::default());
/// let driven = drive(&Null(clock), &Drive::of(&timeline, &clock, &stop, &counters), &mut rows)?;
/// assert_eq!(rows.into_rows().len(), 20);
/// assert!(driven.end.since(driven.origin) >= Duration::from_millis(19));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Target: Sync {
    /// The worker of one thread.
    type Worker<'t>: Worker
    where
        Self: 't;

    /// Creates worker `id` of `of`; called on its thread before the clock starts.
    fn worker(&self, id: usize, of: usize) -> io::Result<Self::Worker<'_>>;
}

/// Sends requests on one thread. Only [`Worker::poll`] may block.
pub trait Worker {
    /// Starts the request of `row.index` and takes over its row.
    fn issue(&mut self, row: Observation);

    /// Replaces the request `index` by one that could be built only after its predecessors had ended.
    fn supply(&mut self, _index: usize, _request: &Request) {}

    /// Replaces the request `index` by an encoded body and a header.
    fn supply_body(
        &mut self,
        _index: usize,
        _body: &[u8],
        _header: Option<(&str, &str)>,
        _output_len: usize,
        _unstreamed: bool,
    ) {
    }

    /// Number of requests in flight without a token so far.
    fn prefilling(&self) -> usize {
        0
    }

    /// Makes [`Worker::poll`] also return when tokens have arrived.
    fn watch_tokens(&mut self) {}

    /// Processes events until a request ends or `until` is reached; appends the finished rows.
    fn poll(&mut self, until: Timestamp, done: &mut Vec<Observation>);

    /// Aborts all requests in flight.
    fn abort(&mut self, done: &mut Vec<Observation>);

    /// Token events received since the last call; none for a target without tokens.
    fn take_tokens(&mut self) -> u64 {
        0
    }

    /// The run starts: statistics count from here, without the time spent waiting for other ranks.
    fn begin(&mut self) {}

    /// Statistics of this worker; called once, after the run.
    fn stats(&self) -> WorkerStats {
        WorkerStats::default()
    }
}

tacho_core::record! {
    /// Statistics of a worker that show whether it kept up.
    #[derive(Debug, Clone, Default, PartialEq)]
    pub struct WorkerStats {
        /// Nanoseconds from a read's kernel timestamp to its user-space timestamp, a sample in order of arrival.
        pub wake_lags_ns: Vec<u64> = Vec::new(),
        /// Nanoseconds spent working rather than waiting.
        pub busy_ns: u64 = 0,
        /// Nanoseconds from the start to the end of the worker's run.
        pub total_ns: u64 = 0,
        /// Token events received.
        pub events: u64 = 0,
        /// Token events read together with a later one.
        pub coalesced: u64 = 0,
        /// Coalesced events that were read late, so that they may have arrived one by one.
        pub late_coalesced: u64 = 0,
        /// Upper bounds, in nanoseconds, of how much earlier than its timestamp such an event may have arrived (a sample):
        /// the kernel timestamp of a read is that of its last packet.
        pub late_spans_ns: Vec<u64> = Vec::new(),
        /// Connections that could not be opened.
        pub connect_failures: u64 = 0,
        /// Connections opened.
        pub connections: u64 = 0,
        /// Whether timestamps came from the kernel.
        pub kernel_timestamps as "kernel_stamps": bool = false,
        /// Reads with an invalid kernel timestamp; their user-space timestamp was used.
        pub timestamp_anomalies: u64 = 0,
    }
}
