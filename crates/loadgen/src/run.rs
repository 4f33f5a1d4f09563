//! Runs a load against a target: one thread per worker; the rows are collected on the calling thread.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};
use std::{io, sync::atomic::AtomicUsize};

use tacho_core::{Mutex, Observation, RowSink, Timestamp};

use crate::drive::{Drive, share};
use crate::feed::{Feed, Schedule};
use crate::sessions::{LoadModel, SessionPlan, Sessions};
use crate::{Error, StopReason, Target, WorkerStats, event_loop::EventLoop, start_barrier::StartBarrier};

/// The limit on threads: more than any machine has cores for.
pub const MAX_WORKERS: usize = 1024;
/// Slots per worker before a sharded limit gets another worker: one thread has time to spare with this many.
const SLOTS_PER_WORKER: usize = 256;
/// Address space of a worker: its stack and its buffers.
const WORKER_BYTES: usize = 3 << 20;
/// Rows of several workers that arrive within this time go to the sink together.
const COLLECT_INTERVAL: Duration = Duration::from_millis(250);

/// The result of a run without its rows.
#[derive(Debug, Default)]
pub struct Driven {
    /// The origin of the schedule.
    pub origin: Timestamp,
    /// When the last request ended.
    pub end: Timestamp,
    /// Statistics of each worker.
    pub workers: Vec<WorkerStats>,
    /// Why the run ended before all requests were sent and complete; `None` if it did not.
    pub ended: Option<StopReason>,
}

impl Driven {
    /// Whether the run was interrupted.
    pub fn is_interrupted(&self) -> bool {
        self.ended == Some(StopReason::Interrupted)
    }
}

/// Sends every request of the timeline to `target`, waits for all of them, and passes one row for each dispatched
/// request to `sink`, in batches and on this thread. Fails if a worker cannot be started; nothing has been sent then.
pub fn drive<T: Target>(target: &T, plan: &Drive<'_>, sink: &mut dyn RowSink) -> Result<Driven, Error> {
    drive_all(target, plan, Load::Timeline, sink)
}

/// Sends the requests of sessions, which depend on one another; the timeline only counts them. Fails if a worker cannot
/// be started; nothing has been sent then.
pub fn drive_sessions<T: Target>(
    target: &T,
    plan: &Drive<'_>,
    sessions: &SessionPlan<'_>,
    sink: &mut dyn RowSink,
) -> Result<Driven, Error> {
    drive_all(target, plan, Load::Sessions(sessions), sink)
}

/// Sends the requests that `model` selects, with one worker; the timeline only counts them. Fails if the worker cannot
/// be started; nothing has been sent then.
pub fn drive_model<T: Target>(
    target: &T,
    plan: &Drive<'_>,
    model: &mut (dyn LoadModel + Send),
    sink: &mut dyn RowSink,
) -> Result<Driven, Error> {
    drive_all(target, plan, Load::Model(Mutex::new(Some(model))), sink)
}

/// The source of the requests.
enum Load<'a> {
    Timeline,
    Sessions(&'a SessionPlan<'a>),
    /// Taken by the only worker.
    Model(Mutex<Option<&'a mut (dyn LoadModel + Send)>>),
}

fn drive_all<T: Target>(target: &T, plan: &Drive<'_>, load: Load<'_>, sink: &mut dyn RowSink) -> Result<Driven, Error> {
    let sessions = if let Load::Sessions(sessions) = load { Some(sessions) } else { None };
    let dependent = !matches!(load, Load::Timeline);
    let schedule = Schedule::of(plan.timeline, plan.supply);
    let count = sessions.map_or(schedule.len(), |sessions| sessions.range.len().div_ceil(sessions.stride));
    let max = if plan.supply.is_some() { usize::MAX } else { count };
    let max = sessions.and_then(|sessions| sessions.max_sessions).unwrap_or(max).min(max);
    let max = plan.max_prefills.unwrap_or(max).min(if matches!(load, Load::Model(_)) { 1 } else { max });
    let workers =
        plan.workers.min(plan.max_concurrency.unwrap_or(max)).min(max).min(max_sharded_workers(plan, dependent)).max(1);
    check_memory(workers).map_err(|source| Error::Worker { id: workers - 1, of: workers, source })?;
    let first = sessions.map_or(0, |sessions| sessions.range.start);
    let (cursor, barrier) = (AtomicUsize::new(first), StartBarrier::new(workers));
    let crew = Crew { target, plan, load: &load, schedule: &schedule, cursor: &cursor, barrier: &barrier, workers };
    thread::scope(|scope| {
        let (sender, batches) = mpsc::channel();
        let threads: Vec<_> = (0..workers).map(|id| crew.spawn(scope, id, sender.clone())).collect();
        drop(sender);
        let mut driven =
            barrier.wait().map_or_else(Driven::default, |origin| collect(&batches, origin, plan, dependent, sink));
        for (id, thread) in threads.into_iter().enumerate() {
            let stats = thread.and_then(|thread| thread.join().expect("a worker does not panic"));
            let stats = stats.map_err(|source| Error::Worker { id, of: workers, source })?;
            driven.workers.extend(stats);
        }
        Ok(driven)
    })
}

/// Checks that the address space has room for the workers: a failed allocation in one of them would abort the process.
fn check_memory(workers: usize) -> io::Result<()> {
    // Reserved, never touched: it takes no memory.
    let mut memory = Vec::<u8>::new();
    let reserved = memory.try_reserve_exact(workers.saturating_mul(WORKER_BYTES));
    std::hint::black_box(&memory);
    reserved.map_err(|_| io::ErrorKind::OutOfMemory.into())
}

/// Maximum number of workers among which limits may be sharded. Independent requests come from one counter, so no slot
/// is idle while a request waits. Requests of sessions, and requests limited by prefills, belong to one worker and wait
/// for its slots even if another worker has free ones; so each worker gets many slots.
fn max_sharded_workers(plan: &Drive<'_>, sessions: bool) -> usize {
    let of_sessions = plan.max_concurrency.filter(|_| sessions);
    let limits = of_sessions.into_iter().chain(plan.max_prefills);
    limits.min().map_or(usize::MAX, |limit| limit.div_ceil(SLOTS_PER_WORKER))
}

/// The state that all workers of a run share.
struct Crew<'a, 'l, T> {
    target: &'a T,
    plan: &'a Drive<'a>,
    load: &'a Load<'l>,
    schedule: &'a Schedule<'a>,
    cursor: &'a AtomicUsize,
    barrier: &'a StartBarrier,
    workers: usize,
}

/// A worker's statistics; `None` if another worker could not be started.
type WorkerResult = io::Result<Option<WorkerStats>>;

impl<T: Target> Crew<'_, '_, T> {
    fn spawn<'scope, 'env>(
        &'env self,
        scope: &'scope Scope<'scope, 'env>,
        id: usize,
        batches: Sender<Vec<Observation>>,
    ) -> io::Result<ScopedJoinHandle<'scope, WorkerResult>> {
        let work = move || self.work(id, batches).inspect_err(|_| self.barrier.fail());
        let thread = thread::Builder::new().name(format!("worker-{id}")).spawn_scoped(scope, work);
        thread.inspect_err(|_| self.barrier.fail())
    }

    fn work(&self, id: usize, batches: Sender<Vec<Observation>>) -> WorkerResult {
        let limit = self.plan.max_concurrency;
        let mut sessions;
        let feed = match self.load {
            Load::Timeline => Feed::new(id, self.workers, limit, self.cursor),
            Load::Sessions(plan) => {
                sessions = Sessions::new(plan, id, self.workers, limit, self.cursor);
                Feed::Dependent(&mut sessions)
            }
            Load::Model(model) => {
                let model = model.lock().take();
                Feed::Dependent(model.expect("the model has one worker"))
            }
        };
        let worker = self.target.worker(id, self.workers)?;
        self.barrier.ready(self.plan.clock, self.plan.start);
        let prefills = self.plan.max_prefills.map(|limit| share(limit, id, self.workers));
        let limits = self.plan.limits.iter().map(|&(seconds, limit)| (seconds, share(limit, id, self.workers)));
        let event_loop = EventLoop::new(self.plan, feed, prefills, worker, batches).with_limits(limits.collect());
        Ok(self.barrier.wait().map(|origin| event_loop.run(self.schedule, origin)))
    }
}

/// Receives batches until the last worker has ended, and passes batches on together if they arrive together.
fn collect(
    batches: &Receiver<Vec<Observation>>,
    origin: Timestamp,
    plan: &Drive<'_>,
    dependent: bool,
    sink: &mut dyn RowSink,
) -> Driven {
    let mut driven = Driven { origin, end: origin, ..Driven::default() };
    let (mut received, mut aborted) = (0, false);
    sink.began(origin);
    loop {
        let (rows, over) = next_rows(batches);
        received += rows.len();
        driven.end = rows.iter().map(|row| row.done).fold(driven.end, Timestamp::max);
        aborted |= rows.iter().any(Observation::is_aborted);
        if rows.is_empty() {
            sink.idle()
        } else {
            sink.rows(rows)
        }
        if over {
            // The rest of a failed session is not sent, so a missing row alone does not mean that the run was cut
            // short.
            let timed_out = plan.duration.is_some_and(|duration| plan.clock.now() >= origin + duration);
            let over = timed_out || plan.stop.draining();
            let short = received < plan.timeline.len() && (over || !dependent) || plan.supply.is_some();
            driven.ended =
                plan.stop.reason().or(plan.duration.map(|_| StopReason::Duration)).filter(|_| short || aborted);
            return driven;
        }
    }
}

/// The rows of all workers within [`COLLECT_INTERVAL`], and whether they are the last.
fn next_rows(batches: &Receiver<Vec<Observation>>) -> (Vec<Observation>, bool) {
    let (mut rows, until) = (Vec::new(), Instant::now() + COLLECT_INTERVAL);
    loop {
        match batches.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(first) if rows.is_empty() => rows = first,
            Ok(mut more) => rows.append(&mut more),
            Err(RecvTimeoutError::Timeout) => return (rows, false),
            Err(RecvTimeoutError::Disconnected) => return (rows, true),
        }
    }
}

#[cfg(test)]
mod tests;
