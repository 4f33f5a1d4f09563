//! The hot loop: one for all schedules and limits. It waits for scheduled times, hands requests to the target and
//! collects rows on the worker's own thread. Four times a second it passes its rows on by moving their buffer.

use std::{sync::atomic::Ordering, sync::mpsc::Sender, time::Duration};

use tacho_core::{Observation, Timestamp};

use crate::feed::{EligibleTimes, Feed, Schedule};
use crate::{Worker, WorkerStats, drive::Drive};

/// A wait is shortened by this much and the rest is spun, because a timer wakes late and never early.
const SPIN: Duration = Duration::from_micros(40);
/// The longest wait, so that a stop request is noticed.
const MAX_WAIT: Duration = Duration::from_millis(20);
/// Time between two batches of rows.
const BATCH_INTERVAL: Duration = Duration::from_millis(250);

pub(crate) struct EventLoop<'a, W> {
    plan: &'a Drive<'a>,
    feed: Feed<'a>,
    worker: W,
    rows: Vec<Observation>,
    batches: Sender<Vec<Observation>>,
    in_flight: usize,
    /// The limit on requests that wait for their first token.
    max_prefills: Option<usize>,
    /// Changes of this worker's slots, in seconds after the origin; the next one is last.
    limits: Vec<(f64, usize)>,
}

impl<'a, W: Worker> EventLoop<'a, W> {
    /// An event loop whose rows go to `batches`.
    pub(crate) fn new(
        plan: &'a Drive<'a>,
        feed: Feed<'a>,
        max_prefills: Option<usize>,
        mut worker: W,
        batches: Sender<Vec<Observation>>,
    ) -> Self {
        if max_prefills.is_some() {
            worker.watch_tokens();
        }
        EventLoop { plan, feed, worker, rows: Vec::new(), batches, in_flight: 0, max_prefills, limits: Vec::new() }
    }

    /// The event loop with slots that change over time.
    pub(crate) fn with_limits(mut self, mut limits: Vec<(f64, usize)>) -> Self {
        limits.reverse();
        self.limits = limits;
        self
    }

    /// Sends this worker's requests from `origin` on and waits for all of them.
    pub(crate) fn run(mut self, schedule: &Schedule<'_>, origin: Timestamp) -> WorkerStats {
        self.worker.begin();
        let times = schedule.since(origin);
        let end = self.plan.duration.map_or(Timestamp::NEVER, |duration| origin + duration);
        if let Feed::Dependent(model) = &mut self.feed {
            model.begin(origin);
        }
        let (mut deadline, mut next_batch) = (Timestamp::NEVER, self.change_slots(origin, origin));
        let mut free = self.feed.free_slots(0);
        loop {
            let mut now = self.plan.clock.now();
            let draining = now >= end || self.plan.stop.draining();
            if draining {
                deadline = deadline.min(now + self.plan.current_drain_timeout());
                if self.plan.stop.immediate() || now >= deadline {
                    self.abort_in_flight();
                    break;
                }
            } else {
                now = self.dispatch_eligible(times, free, now);
            }
            if self.in_flight == 0 && (draining || self.feed.exhausted(times)) {
                break;
            }
            if now >= next_batch {
                self.flush();
                next_batch = self.change_slots(now, origin);
            }
            let full = self.prefills_full();
            let next = match draining {
                true => deadline,
                // A first token arrives as an event, so there is no time to wait for.
                false if full => end,
                false => self.feed.next_eligible(times, self.in_flight).min(end),
            };
            free = if full { 0 } else { self.feed.free_slots(self.in_flight) };
            self.wait(next.min(now + MAX_WAIT), now);
        }
        self.flush();
        self.worker.stats()
    }

    /// Applies the changes of the limit up to now. Returns when to look again: at the next change or the next batch.
    fn change_slots(&mut self, now: Timestamp, origin: Timestamp) -> Timestamp {
        let next_batch = now + BATCH_INTERVAL;
        while let Some(&(seconds, slots)) = self.limits.last() {
            let change = Timestamp(origin.0.saturating_add(Timestamp::from_secs(seconds).0));
            if change > now {
                return change.min(next_batch);
            }
            self.feed.set_slots(slots);
            self.limits.pop();
        }
        next_batch
    }

    /// Dispatches all eligible requests; `free` slots were available before the wait.
    fn dispatch_eligible(&mut self, times: EligibleTimes<'_>, mut free: usize, mut now: Timestamp) -> Timestamp {
        while !self.prefills_full()
            && let Some((index, eligible)) = self.feed.take(times, self.in_flight, now, &mut self.worker)
        {
            // If a slot was free before the wait, the request became eligible during it. If the slot has just become
            // free, the request was eligible earlier and has queued since.
            let dispatched = if free > 0 { now } else { eligible };
            free = free.saturating_sub(1);
            self.in_flight += 1;
            self.plan.counters.in_flight.fetch_add(1, Ordering::Relaxed);
            self.worker.issue(Observation::dispatched(index, eligible, dispatched));
            now = self.plan.clock.now();
        }
        now
    }

    /// Whether the limit on requests without a first token is reached.
    fn prefills_full(&self) -> bool {
        self.max_prefills.is_some_and(|limit| self.worker.prefilling() >= limit)
    }

    fn wait(&mut self, next: Timestamp, now: Timestamp) {
        let before = self.rows.len();
        // Within the spin window the target only polls; the loop itself is then the spin.
        let until = if next.since(now) > SPIN { next - SPIN } else { now };
        self.worker.poll(until, &mut self.rows);
        self.count(before);
    }

    fn abort_in_flight(&mut self) {
        let before = self.rows.len();
        self.worker.abort(&mut self.rows);
        self.count(before);
    }

    fn flush(&mut self) {
        if !self.rows.is_empty() {
            // The receiver outlives the workers.
            let _ = self.batches.send(std::mem::take(&mut self.rows));
        }
    }

    fn count(&mut self, before: usize) {
        let counters = self.plan.counters;
        let tokens = self.worker.take_tokens();
        if tokens > 0 {
            counters.tokens.fetch_add(tokens, Ordering::Relaxed);
        }
        let ended = self.rows.len() - before;
        if ended > 0 {
            self.in_flight -= ended;
            let (mut finished, mut failed) = (0, 0);
            for row in &mut self.rows[before..] {
                let last = match &mut self.feed {
                    Feed::Dependent(model) => model.ended(row, &mut self.worker),
                    _ => true,
                };
                finished += u64::from(last);
                failed += u64::from(last && row.outcome.is_fault());
            }
            counters.finished.fetch_add(finished, Ordering::Relaxed);
            counters.failed.fetch_add(failed, Ordering::Relaxed);
            counters.in_flight.fetch_sub(ended as u64, Ordering::Relaxed);
        }
    }
}
