//! The hot loop: one, for all schedules and limits. It waits for due times, hands requests to the target and collects
//! rows on the thread they were made on; a few times a second they are handed over by moving the buffer they are in.

use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::time::Duration;

use tacho_core::{Observation, Stamp};

use crate::drive::Drive;
use crate::feed::{Due, Feed, Releases};
use crate::{Worker, WorkerStats};

/// A wait is cut short by this much and the rest is spun, because a timer wakes late and never early.
const SPIN: Duration = Duration::from_micros(40);
/// The longest wait, so that a stop is noticed.
const NAP: Duration = Duration::from_millis(20);
/// Between two batches of rows.
const BATCH: Duration = Duration::from_millis(250);

/// A worker's turn at the loop.
pub(crate) struct Turn<'a, W> {
    plan: &'a Drive<'a>,
    feed: Feed<'a>,
    worker: W,
    rows: Vec<Observation>,
    batches: Sender<Vec<Observation>>,
    in_flight: usize,
    /// Requests that may wait for their first token at once, where that is limited.
    prefills: Option<usize>,
}

impl<'a, W: Worker> Turn<'a, W> {
    /// The turn of a worker whose rows go to `batches`.
    pub(crate) fn new(
        plan: &'a Drive<'a>,
        feed: Feed<'a>,
        prefills: Option<usize>,
        mut worker: W,
        batches: Sender<Vec<Observation>>,
    ) -> Self {
        if prefills.is_some() {
            worker.watch_tokens();
        }
        Turn { plan, feed, worker, rows: Vec::new(), batches, in_flight: 0, prefills }
    }

    /// Sends this worker's requests from `origin` on and waits for all of them.
    pub(crate) fn run(mut self, releases: &Releases<'_>, origin: Stamp) -> WorkerStats {
        let due = releases.since(origin);
        let end = self.plan.until.map_or(Stamp::NEVER, |until| origin + until);
        if let Feed::Sessions(sessions) = &mut self.feed {
            sessions.begin(origin);
        }
        let (mut deadline, mut next_batch) = (Stamp::NEVER, origin + BATCH);
        let mut free = self.feed.free_slots(0);
        loop {
            let mut now = self.plan.clock.now();
            let draining = now >= end || self.plan.stop.draining();
            if draining {
                deadline = deadline.min(now + self.plan.patience());
                if self.plan.stop.immediate() || now >= deadline {
                    self.give_up();
                    break;
                }
            } else {
                now = self.release_ripe(due, free, now);
            }
            if self.in_flight == 0 && (draining || self.feed.exhausted(due)) {
                break;
            }
            if now >= next_batch {
                self.hand_over();
                next_batch = now + BATCH;
            }
            let full = self.prefills_full();
            let next = match draining {
                true => deadline,
                // A first token comes as an event; there is no moment to wait for.
                false if full => end,
                false => self.feed.next_release(due, self.in_flight).min(end),
            };
            free = if full { 0 } else { self.feed.free_slots(self.in_flight) };
            self.wait(next.min(now + NAP), now);
        }
        self.hand_over();
        self.worker.stats()
    }

    /// Lets all requests go whose time has come; `free` slots were there before the wait.
    fn release_ripe(&mut self, due: Due<'_>, mut free: usize, mut now: Stamp) -> Stamp {
        while !self.prefills_full()
            && let Some((index, release)) = self.feed.take(due, self.in_flight, now)
        {
            // A slot that was free before the wait means the request was not due before it; with a slot that has just
            // become free, it was let go when it was due and stood in the queue since.
            let released = if free > 0 { now } else { release };
            free = free.saturating_sub(1);
            self.in_flight += 1;
            self.plan.counters.in_flight.fetch_add(1, Ordering::Relaxed);
            self.worker.issue(Observation::released(index, release, released));
            now = self.plan.clock.now();
        }
        now
    }

    /// Whether no more requests may wait for their first token.
    fn prefills_full(&self) -> bool {
        self.prefills.is_some_and(|limit| self.worker.prefilling() >= limit)
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

    fn hand_over(&mut self) {
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
        let finished = self.rows.len() - before;
        if finished > 0 {
            self.in_flight -= finished;
            if let Feed::Sessions(sessions) = &mut self.feed {
                self.rows[before..].iter_mut().for_each(|row| sessions.ended(row, &mut self.worker));
            }
            let failed = self.rows[before..].iter().filter(|row| row.outcome.is_fault()).count();
            counters.finished.fetch_add(finished as u64, Ordering::Relaxed);
            counters.failed.fetch_add(failed as u64, Ordering::Relaxed);
            counters.in_flight.fetch_sub(finished as u64, Ordering::Relaxed);
        }
    }
}
