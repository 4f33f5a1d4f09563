//! The sessions of one worker: which may start, which requests are ready, and which follow a completion.

use std::collections::{BinaryHeap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{cmp::Reverse, time::Duration};

use tacho_core::{Observation, Timestamp, bounded::ScheduledTime};

use super::load_model::LoadModel;
use super::plan::{Completion, Completions, OnFailure, SessionPlan};
use crate::{Worker, drive::share};

/// The sessions that a worker may start.
#[derive(Debug)]
enum Supply<'a> {
    /// Every `step`-th from `next` on.
    Own { next: usize, step: usize },
    /// The next session of all workers, while there are slots.
    Shared { cursor: &'a AtomicUsize, slots: Slots },
}

/// A worker's share of the limit on sessions.
#[derive(Debug)]
struct Slots {
    own: usize,
    id: usize,
    workers: usize,
    all: usize,
}

impl Slots {
    /// When the slot after `taken` slots opens, if there is one: evenly over the ramp, in turn among the workers.
    fn opens(&self, taken: usize, ramp: Duration) -> Option<Duration> {
        let position = self.id + taken * self.workers;
        (taken < self.own).then(|| ramp.mul_f64(position as f64 / self.all.saturating_sub(1).max(1) as f64))
    }
}

pub(crate) struct Sessions<'a> {
    plan: &'a SessionPlan<'a>,
    supply: Supply<'a>,
    /// The limit on requests in flight.
    slots: usize,
    origin: Timestamp,
    /// Steps whose predecessors have ended, by when they become eligible.
    ready: BinaryHeap<Reverse<(Timestamp, usize)>>,
    /// Unfinished predecessors and the earliest start so far, for each step of the active sessions.
    waits: HashMap<usize, (usize, Timestamp)>,
    active: HashMap<usize, Active>,
    completions: Completions,
}

#[derive(Debug)]
struct Active {
    start: Timestamp,
    left: usize,
    in_flight: usize,
    ended: bool,
}

impl<'a> Sessions<'a> {
    /// The sessions of worker `id` of `of`; `limit` applies to requests.
    pub(crate) fn new(
        plan: &'a SessionPlan<'a>,
        id: usize,
        of: usize,
        limit: Option<usize>,
        cursor: &'a AtomicUsize,
    ) -> Self {
        let supply = match plan.max_sessions {
            None => Supply::Own { next: plan.range.start + id * plan.stride, step: of * plan.stride },
            Some(limit) => {
                Supply::Shared { cursor, slots: Slots { own: share(limit, id, of), id, workers: of, all: limit } }
            }
        };
        Sessions {
            plan,
            supply,
            slots: limit.map_or(usize::MAX, |limit| share(limit, id, of)),
            origin: Timestamp::ZERO,
            ready: BinaryHeap::new(),
            waits: HashMap::new(),
            active: HashMap::new(),
            completions: Completions::new(),
        }
    }

    fn complete_step(&mut self, index: usize, eligible: Timestamp, end: Timestamp, worker: &mut dyn Worker) {
        let graph = self.plan.graph;
        let session = graph.steps[index].session;
        let Some(active) = self.active.get_mut(&session) else { return };
        active.left -= 1;
        let (start, ended) = (active.start, active.ended);
        if active.left == 0 || (ended && active.in_flight == 0) {
            self.forget(session);
            return;
        }
        if ended {
            return;
        }
        for &(child, pause) in &graph.children[index] {
            let node = &graph.steps[child];
            let (left, latest) = self.waits.entry(child).or_insert((node.parents.len(), Timestamp::ZERO));
            *left -= 1;
            *latest = (*latest).max(end + pause).max(eligible + node.gap);
            if *left == 0 {
                let eligible = (*latest).max(start + node.at);
                self.waits.remove(&child);
                self.make_ready(child, eligible, worker);
            }
        }
    }

    fn make_ready(&mut self, index: usize, eligible: Timestamp, worker: &mut dyn Worker) {
        if !self.plan.graph.steps[index].sends {
            // The time of a join is known now: its successors are built with this worker.
            return self.complete_step(index, eligible, eligible, worker);
        }
        if let Some(request) = self.plan.script.request(index, &self.completions) {
            worker.supply(index, &request);
        }
        self.ready.push(Reverse((eligible.max(self.tools_done(index)), index)));
    }

    /// When the tools finish whose results a step carries. They run from the completion that calls them, concurrently
    /// with everything else that the step waits for.
    fn tools_done(&self, index: usize) -> Timestamp {
        let Some((caller, time)) = self.plan.script.tools(index, &self.completions) else { return Timestamp::ZERO };
        let edge = self.plan.graph.steps[index].parents.iter().find(|(parent, _)| *parent == caller);
        let pause = edge.map_or(Duration::ZERO, |(_, pause)| *pause);
        self.completions.get(&caller).map_or(Timestamp::ZERO, |completion| completion.ended + pause + time)
    }

    fn start_sessions(&mut self, now: Timestamp, worker: &mut dyn Worker) {
        while let Some((session, start)) = self.next_start().filter(|(_, start)| *start <= now) {
            let (session, start) = match &mut self.supply {
                Supply::Own { next, step } => {
                    *next += *step;
                    (session, start)
                }
                Supply::Shared { cursor, .. } => {
                    let (end, stride) = (self.plan.range.end, self.plan.stride);
                    let next = |at: usize| (at < end).then_some(at + stride);
                    let taken = cursor.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
                    let Ok(session) = taken else { return };
                    // With a limit on sessions, the session starts when a slot becomes free; otherwise as scheduled.
                    (session, now)
                }
            };
            self.start(session, start, worker);
        }
    }

    fn start(&mut self, session: usize, start: Timestamp, worker: &mut dyn Worker) {
        let graph = self.plan.graph;
        let steps = &graph.sessions[session];
        self.active.insert(session, Active { start, left: steps.len(), in_flight: 0, ended: false });
        for &step in steps.iter().filter(|&&step| graph.steps[step].parents.is_empty()) {
            self.make_ready(step, start + graph.steps[step].at, worker);
        }
    }

    fn next_start(&self) -> Option<(usize, Timestamp)> {
        let (session, opens) = match &self.supply {
            Supply::Own { next, .. } => (*next, Duration::ZERO),
            Supply::Shared { cursor, slots } => {
                (cursor.load(Ordering::Relaxed), slots.opens(self.active.len(), self.plan.ramp)?)
            }
        };
        let start = self.plan.starts.get(session).filter(|_| session < self.plan.range.end)?;
        Some((session, self.origin + ScheduledTime::clamped(start - self.plan.from).max(opens)))
    }

    fn forget(&mut self, session: usize) {
        self.active.remove(&session);
        for step in &self.plan.graph.sessions[session] {
            self.completions.remove(step);
            self.waits.remove(step);
        }
    }
}

impl LoadModel for Sessions<'_> {
    fn begin(&mut self, origin: Timestamp) {
        self.origin = origin;
    }

    fn free_slots(&self, in_flight: usize) -> usize {
        self.slots.saturating_sub(in_flight)
    }

    fn next_eligible(&self, in_flight: usize) -> Timestamp {
        let ready = self.ready.peek().map(|Reverse((eligible, _))| *eligible);
        let ready = ready.filter(|_| in_flight < self.slots);
        ready.unwrap_or(Timestamp::NEVER).min(self.next_start().map_or(Timestamp::NEVER, |(_, start)| start))
    }

    fn exhausted(&self) -> bool {
        self.active.is_empty() && self.next_start().is_none()
    }

    fn take(&mut self, in_flight: usize, now: Timestamp, worker: &mut dyn Worker) -> Option<(usize, Timestamp)> {
        self.start_sessions(now, worker);
        while let Some(&Reverse((eligible, index))) = self.ready.peek() {
            if eligible > now || in_flight >= self.slots {
                return None;
            }
            self.ready.pop();
            let step = &self.plan.graph.steps[index];
            let Some(active) = self.active.get_mut(&step.session).filter(|active| !active.ended) else { continue };
            active.in_flight += 1;
            return Some((index, eligible));
        }
        None
    }

    /// Builds the successors that waited for this request only, with the worker that will send them.
    fn ended(&mut self, row: &mut Observation, worker: &mut dyn Worker) -> bool {
        let session = self.plan.graph.steps[row.index].session;
        let Some(active) = self.active.get_mut(&session) else { return true };
        active.in_flight -= 1;
        if !row.outcome.is_complete() && self.plan.on_failure == OnFailure::End {
            active.ended = true;
        }
        let reply = row.reply.take();
        if row.outcome.is_complete() && self.plan.script.keeps(row.index) {
            self.completions.insert(row.index, Completion { text: row.text.clone(), reply, ended: row.done });
        }
        self.complete_step(row.index, row.scheduled, row.done, worker);
        true
    }
}

#[cfg(test)]
mod tests;
