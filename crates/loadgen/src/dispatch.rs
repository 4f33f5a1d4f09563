//! Driving a target: workers on threads of their own, and their rows gathered on the caller's.

use std::io;
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use tacho_core::{Clock, Counters, FailureKind, Observation, RowSink, Stamp};

use crate::feed::{Feed, Releases};
use crate::gate::Gate;
use crate::turn::Turn;
use crate::{Error, StopSignal, Target, Timeline, WorkerStats};

/// More threads than any machine has cores for; each takes memory and time to start.
pub const MOST_WORKERS: usize = 1024;
/// Rows of several workers that come within this time are handed on together.
const TOGETHER: Duration = Duration::from_millis(250);

/// Everything the loop needs besides the target.
pub struct Drive<'a> {
    /// When requests are due.
    pub timeline: &'a Timeline,
    /// At most this many requests under way.
    pub max_concurrency: Option<usize>,
    /// Threads to use; fewer are used when there is less to do.
    pub workers: usize,
    /// How long requests under way may go on after a stop.
    pub grace: Duration,
    /// The run's clock.
    pub clock: &'a dyn Clock,
    /// Told when to stop.
    pub stop: &'a StopSignal,
    /// Progress, for whoever watches.
    pub counters: &'a Counters,
}

/// What happened, beside the rows.
#[derive(Debug, Default)]
pub struct Driven {
    /// The moment due times count from.
    pub origin: Stamp,
    /// When the last request was over.
    pub end: Stamp,
    /// How each worker kept up.
    pub workers: Vec<WorkerStats>,
    /// Whether the run was stopped before all requests were sent and answered.
    pub interrupted: bool,
}

/// Sends every request of the timeline to `target`, waits for all of them, and hands one row for each that was
/// released to `sink`, in batches and on this thread.
///
/// # Errors
/// When a worker cannot be started; then nothing has been sent.
pub fn drive<T: Target>(target: &T, plan: &Drive<'_>, sink: &mut dyn RowSink) -> Result<Driven, Error> {
    let releases = Releases::of(plan.timeline);
    let count = releases.len();
    let workers = plan.workers.min(plan.max_concurrency.unwrap_or(count)).min(count).max(1);
    let (cursor, gate) = (AtomicUsize::new(0), Gate::new(workers));
    let crew = Crew { target, plan, releases: &releases, cursor: &cursor, gate: &gate, workers };
    thread::scope(|scope| {
        let (sender, batches) = mpsc::channel();
        let threads: Vec<_> = (0..workers).map(|id| crew.spawn(scope, id, sender.clone())).collect();
        drop(sender);
        let mut driven = gate.wait().map_or_else(Driven::default, |origin| gather(&batches, origin, count, sink));
        for (id, thread) in threads.into_iter().enumerate() {
            let stats = thread.and_then(|thread| thread.join().expect("a worker does not panic"));
            let stats = stats.map_err(|source| Error::Worker { id, of: workers, source })?;
            driven.workers.extend(stats);
        }
        Ok(driven)
    })
}

/// What all workers of a run share.
struct Crew<'a, T> {
    target: &'a T,
    plan: &'a Drive<'a>,
    releases: &'a Releases,
    cursor: &'a AtomicUsize,
    gate: &'a Gate,
    workers: usize,
}

/// What is left of a worker: nothing when the others could not be started.
type Left = io::Result<Option<WorkerStats>>;

impl<'a, T: Target> Crew<'a, T> {
    fn spawn<'scope, 'env>(
        &'env self,
        scope: &'scope Scope<'scope, 'env>,
        id: usize,
        batches: Sender<Vec<Observation>>,
    ) -> io::Result<ScopedJoinHandle<'scope, Left>> {
        let work = move || self.work(id, batches).inspect_err(|_| self.gate.shut());
        let thread = thread::Builder::new().name(format!("worker-{id}")).spawn_scoped(scope, work);
        thread.inspect_err(|_| self.gate.shut())
    }

    fn work(&self, id: usize, batches: Sender<Vec<Observation>>) -> Left {
        let feed = Feed::new(id, self.workers, self.plan.max_concurrency, self.cursor);
        let worker = self.target.worker(id, self.workers)?;
        self.gate.ready(self.plan.clock);
        let turn = Turn::new(self.plan, feed, worker, batches);
        Ok(self.gate.wait().map(|origin| turn.run(self.releases, origin)))
    }
}

/// Takes batches until the last worker has ended, and hands on together what comes together.
fn gather(batches: &Receiver<Vec<Observation>>, origin: Stamp, count: usize, sink: &mut dyn RowSink) -> Driven {
    let mut driven = Driven { origin, end: origin, ..Driven::default() };
    let mut gathered = 0;
    sink.began(origin);
    loop {
        let (rows, over) = next_rows(batches);
        gathered += rows.len();
        driven.add(&rows);
        if rows.is_empty() {
            sink.idle()
        } else {
            sink.rows(rows)
        }
        if over {
            driven.interrupted |= gathered < count;
            return driven;
        }
    }
}

/// The rows of all workers that come within [`TOGETHER`], and whether they are the last.
fn next_rows(batches: &Receiver<Vec<Observation>>) -> (Vec<Observation>, bool) {
    let (mut rows, until) = (Vec::new(), Instant::now() + TOGETHER);
    loop {
        match batches.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(first) if rows.is_empty() => rows = first,
            Ok(mut more) => rows.append(&mut more),
            Err(RecvTimeoutError::Timeout) => return (rows, false),
            Err(RecvTimeoutError::Disconnected) => return (rows, true),
        }
    }
}

impl Driven {
    /// What some rows say of the whole.
    fn add(&mut self, rows: &[Observation]) {
        let aborted = |row: &Observation| row.outcome.failure().is_some_and(|why| why.kind == FailureKind::Aborted);
        self.end = rows.iter().map(|row| row.done).fold(self.end, Stamp::max);
        self.interrupted |= rows.iter().any(aborted);
    }
}

#[cfg(test)]
mod tests;
