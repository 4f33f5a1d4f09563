//! The hot loop: one, for all schedules and limits. It waits for due times, hands requests to the target and collects
//! rows on the thread they were made on; rows of all threads are merged once, at the end.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tacho_core::{Clock, Counters, Observation, Stamp};

use crate::feed::Feed;
use crate::{StopSignal, Target, Timeline, Worker, WorkerStats};

/// A wait is cut short by this much and the rest is spun, because a timer wakes late and never early.
const SPIN: Duration = Duration::from_micros(40);
/// The longest wait, so that a stop is noticed.
const NAP: Duration = Duration::from_millis(20);
/// From the last thread's readiness to the first due time.
const LEAD: Duration = Duration::from_millis(1);

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

/// What happened.
#[derive(Debug, Default)]
pub struct Driven {
    /// One row per request that was released, in request order.
    pub rows: Vec<Observation>,
    /// The moment due times count from.
    pub origin: Stamp,
    /// When the last request was over.
    pub end: Stamp,
    /// How each worker kept up.
    pub workers: Vec<WorkerStats>,
    /// Whether the run was stopped before all requests were sent and answered.
    pub interrupted: bool,
}

/// Sends every request of the timeline to `target` and waits for all of them.
pub fn drive<T: Target>(target: &T, plan: &Drive<'_>) -> Driven {
    let count = plan.timeline.len();
    let workers = plan.workers.min(plan.max_concurrency.unwrap_or(count)).min(count).max(1);
    let cursor = AtomicUsize::new(0);
    let start = Start { ready: Barrier::new(workers), origin: AtomicU64::new(0), set: Barrier::new(workers) };
    let parts: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..workers)
            .map(|id| {
                let feed = Feed::new(id, workers, plan.max_concurrency, &cursor);
                let start = &start;
                std::thread::Builder::new()
                    .name(format!("worker-{id}"))
                    .spawn_scoped(scope, move || {
                        let worker = target.worker(id, workers);
                        Loop { plan, feed, worker, rows: Vec::new(), in_flight: 0 }.run(start)
                    })
                    .expect("a worker thread can be started")
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("a worker does not panic")).collect()
    });
    merge(parts, count, Stamp(start.origin.load(Ordering::Relaxed)))
}

fn merge(parts: Vec<(Vec<Observation>, WorkerStats)>, count: usize, origin: Stamp) -> Driven {
    let mut driven = Driven { origin, end: origin, ..Driven::default() };
    for (rows, stats) in parts {
        driven.rows.extend(rows);
        driven.workers.push(stats);
    }
    driven.rows.sort_unstable_by_key(|row| row.index);
    driven.end = driven.rows.iter().map(|row| row.done).max().unwrap_or(origin);
    let aborted = |row: &Observation| {
        row.outcome.failure().is_some_and(|failure| failure.kind == tacho_core::FailureKind::Aborted)
    };
    driven.interrupted = driven.rows.len() < count || driven.rows.iter().any(aborted);
    driven
}

/// Lets all workers begin at one origin, chosen when the last of them is ready.
struct Start {
    ready: Barrier,
    origin: AtomicU64,
    set: Barrier,
}

impl Start {
    fn wait(&self, clock: &dyn Clock) -> Stamp {
        if self.ready.wait().is_leader() {
            self.origin.store((clock.now() + LEAD).0, Ordering::Relaxed);
        }
        self.set.wait();
        Stamp(self.origin.load(Ordering::Relaxed))
    }
}

struct Loop<'a, W> {
    plan: &'a Drive<'a>,
    feed: Feed<'a>,
    worker: W,
    rows: Vec<Observation>,
    in_flight: usize,
}

impl<W: Worker> Loop<'_, W> {
    fn run(mut self, start: &Start) -> (Vec<Observation>, WorkerStats) {
        let releases = self.plan.timeline.releases();
        let origin = start.wait(self.plan.clock);
        let releases: Vec<Stamp> =
            releases.into_iter().map(|seconds| Stamp(origin.0 + Stamp::from_secs(seconds).0)).collect();
        let mut deadline = Stamp::NEVER;
        let mut free = self.feed.free_slots(0);
        loop {
            let mut now = self.plan.clock.now();
            let draining = self.plan.stop.draining();
            if draining {
                deadline = deadline.min(now + self.plan.grace);
                if self.plan.stop.immediate() || now >= deadline {
                    self.give_up();
                    break;
                }
            } else {
                while let Some(index) = self.feed.take(&releases, self.in_flight, now) {
                    // A slot that was free before the wait means the request was not due before it; with a slot
                    // that has just become free, it was let go when it was due and stood in the queue since.
                    let released = if free > 0 { now } else { releases[index] };
                    free = free.saturating_sub(1);
                    self.release(Observation::released(index, releases[index], released));
                    now = self.plan.clock.now();
                }
            }
            if self.in_flight == 0 && (draining || self.feed.exhausted(releases.len())) {
                break;
            }
            let next = if draining { deadline } else { self.feed.next_release(&releases, self.in_flight) };
            free = self.feed.free_slots(self.in_flight);
            self.wait(next.min(now + NAP), now);
        }
        let stats = self.worker.stats();
        (self.rows, stats)
    }

    fn release(&mut self, row: Observation) {
        self.in_flight += 1;
        self.plan.counters.in_flight.fetch_add(1, Ordering::Relaxed);
        self.worker.issue(row);
    }

    fn wait(&mut self, next: Stamp, now: Stamp) {
        let before = self.rows.len();
        // Within the spin window the target only polls; the loop itself is then the spin.
        let until = if next.since(now) > SPIN { next - SPIN } else { now };
        self.worker.turn(until, &mut self.rows);
        self.count(before);
    }

    fn give_up(&mut self) {
        let before = self.rows.len();
        self.worker.abort(&mut self.rows);
        self.count(before);
    }

    fn count(&mut self, before: usize) {
        let counters = self.plan.counters;
        let tokens = self.worker.take_tokens();
        if tokens > 0 {
            counters.tokens.fetch_add(tokens, Ordering::Relaxed);
        }
        let finished = self.rows.len() - before;
        if finished > 0 {
            self.in_flight -= finished;
            let failed = self.rows[before..].iter().filter(|row| !row.outcome.is_complete()).count();
            counters.finished.fetch_add(finished as u64, Ordering::Relaxed);
            counters.failed.fetch_add(failed as u64, Ordering::Relaxed);
            counters.in_flight.fetch_sub(finished as u64, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests;
