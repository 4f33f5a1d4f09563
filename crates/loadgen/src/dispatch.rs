//! Driving a target: workers on threads of their own, and their rows gathered on the caller's.

use std::io;
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use tacho_core::{Observation, RowSink, Stamp};

use crate::drive::{Drive, share};
use crate::feed::{Feed, Releases};
use crate::gate::Gate;
use crate::sessions::{SessionPlan, Sessions};
use crate::turn::Turn;
use crate::{Error, StopReason, Target, WorkerStats};

/// More threads than any machine has cores for; each takes memory and time to start.
pub const MOST_WORKERS: usize = 1024;
/// Slots that one worker has of a limit that is dealt out, before there is another: one thread is idle with as many.
const POOL: usize = 256;
/// Rows of several workers that come within this time are handed on together.
const TOGETHER: Duration = Duration::from_millis(250);

/// What happened, beside the rows.
#[derive(Debug, Default)]
pub struct Driven {
    /// The moment due times count from.
    pub origin: Stamp,
    /// When the last request was over.
    pub end: Stamp,
    /// How each worker kept up.
    pub workers: Vec<WorkerStats>,
    /// Why the run ended before all requests were sent and answered; nothing when they were.
    pub ended: Option<StopReason>,
}

impl Driven {
    /// Whether somebody stopped the run.
    pub fn is_interrupted(&self) -> bool {
        self.ended == Some(StopReason::Asked)
    }
}

/// Sends every request of the timeline to `target`, waits for all of them, and hands one row for each that was
/// released to `sink`, in batches and on this thread.
///
/// # Errors
/// When a worker cannot be started; then nothing has been sent.
pub fn drive<T: Target>(target: &T, plan: &Drive<'_>, sink: &mut dyn RowSink) -> Result<Driven, Error> {
    drive_all(target, plan, None, sink)
}

/// The same for requests that wait for one another; the timeline then says only how many there are.
///
/// # Errors
/// When a worker cannot be started; then nothing has been sent.
pub fn drive_sessions<T: Target>(
    target: &T,
    plan: &Drive<'_>,
    sessions: &SessionPlan<'_>,
    sink: &mut dyn RowSink,
) -> Result<Driven, Error> {
    drive_all(target, plan, Some(sessions), sink)
}

fn drive_all<T: Target>(
    target: &T,
    plan: &Drive<'_>,
    sessions: Option<&SessionPlan<'_>>,
    sink: &mut dyn RowSink,
) -> Result<Driven, Error> {
    let releases = Releases::of(plan.timeline, plan.more);
    let count = sessions.map_or(releases.len(), |sessions| sessions.range.len().div_ceil(sessions.stride));
    let most = if plan.more.is_some() { usize::MAX } else { count };
    let most = sessions.and_then(|sessions| sessions.max_sessions).unwrap_or(most).min(most);
    let most = plan.max_prefills.unwrap_or(most).min(most);
    let workers =
        plan.workers.min(plan.max_concurrency.unwrap_or(most)).min(most).min(poolable(plan, sessions.is_some())).max(1);
    let first = sessions.map_or(0, |sessions| sessions.range.start);
    let (cursor, gate) = (AtomicUsize::new(first), Gate::new(workers));
    let crew = Crew { target, plan, sessions, releases: &releases, cursor: &cursor, gate: &gate, workers };
    thread::scope(|scope| {
        let (sender, batches) = mpsc::channel();
        let threads: Vec<_> = (0..workers).map(|id| crew.spawn(scope, id, sender.clone())).collect();
        drop(sender);
        let mut driven =
            gate.wait().map_or_else(Driven::default, |origin| gather(&batches, origin, plan, sessions.is_some(), sink));
        for (id, thread) in threads.into_iter().enumerate() {
            let stats = thread.and_then(|thread| thread.join().expect("a worker does not panic"));
            let stats = stats.map_err(|source| Error::Worker { id, of: workers, source })?;
            driven.workers.extend(stats);
        }
        Ok(driven)
    })
}

/// The most workers among whom limits may be dealt out. Requests in order come from one counter, so that no slot is idle
/// while one waits; those of sessions, and those that wait for a first token, belong to a worker, and what it has no
/// slot for waits though another has one. So each worker has many.
fn poolable(plan: &Drive<'_>, sessions: bool) -> usize {
    let of_sessions = plan.max_concurrency.filter(|_| sessions);
    let limits = of_sessions.into_iter().chain(plan.max_prefills);
    limits.min().map_or(usize::MAX, |limit| limit.div_ceil(POOL))
}

/// What all workers of a run share.
struct Crew<'a, T> {
    target: &'a T,
    plan: &'a Drive<'a>,
    sessions: Option<&'a SessionPlan<'a>>,
    releases: &'a Releases<'a>,
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
        let limit = self.plan.max_concurrency;
        let feed = match self.sessions {
            None => Feed::new(id, self.workers, limit, self.cursor),
            Some(sessions) => Feed::Sessions(Box::new(Sessions::new(sessions, id, self.workers, limit, self.cursor))),
        };
        let worker = self.target.worker(id, self.workers)?;
        self.gate.ready(self.plan.clock, self.plan.start);
        let prefills = self.plan.max_prefills.map(|limit| share(limit, id, self.workers));
        let turn = Turn::new(self.plan, feed, prefills, worker, batches);
        Ok(self.gate.wait().map(|origin| turn.run(self.releases, origin)))
    }
}

/// Takes batches until the last worker has ended, and hands on together what comes together.
fn gather(
    batches: &Receiver<Vec<Observation>>,
    origin: Stamp,
    plan: &Drive<'_>,
    dependent: bool,
    sink: &mut dyn RowSink,
) -> Driven {
    let mut driven = Driven { origin, end: origin, ..Driven::default() };
    let (mut gathered, mut cut_off) = (0, false);
    sink.began(origin);
    loop {
        let (rows, over) = next_rows(batches);
        gathered += rows.len();
        driven.end = rows.iter().map(|row| row.done).fold(driven.end, Stamp::max);
        cut_off |= rows.iter().any(Observation::is_cut_off);
        if rows.is_empty() {
            sink.idle()
        } else {
            sink.rows(rows)
        }
        if over {
            // Of a session that failed the rest is not sent: a number alone does not tell that the time was over.
            let over = plan.until.is_some_and(|until| plan.clock.now() >= origin + until) || plan.stop.draining();
            let short = gathered < plan.timeline.len() && (over || !dependent) || plan.more.is_some();
            driven.ended = plan.ended().filter(|_| short || cut_off);
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

#[cfg(test)]
mod tests;
