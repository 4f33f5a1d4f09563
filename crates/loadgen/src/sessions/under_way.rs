//! The sessions of one worker: which may start, which requests are ripe, what follows from an answer.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tacho_core::{Observation, Stamp};

use super::plan::{Answers, OnFailure, Said, SessionPlan};
use crate::Worker;
use crate::drive::share;

/// Which sessions a worker may start.
#[derive(Debug)]
enum Supply<'a> {
    /// Every `step`-th from `next` on.
    Own { next: usize, step: usize },
    /// Whatever is next for all workers, while there are slots.
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
    /// When the slot beyond `taken` of them opens, if there is one: evenly over the ramp, in turn among the workers.
    fn opens(&self, taken: usize, ramp: Duration) -> Option<Duration> {
        let place = self.id + taken * self.workers;
        (taken < self.own).then(|| ramp.mul_f64(place as f64 / self.all.saturating_sub(1).max(1) as f64))
    }
}

/// The sessions of one worker.
pub(crate) struct Sessions<'a> {
    plan: &'a SessionPlan<'a>,
    supply: Supply<'a>,
    /// Requests that may be under way at once.
    slots: usize,
    origin: Stamp,
    /// Steps whose parents have ended, by when they are due.
    ripe: BinaryHeap<Reverse<(Stamp, usize)>>,
    /// For steps of sessions under way: parents not ended yet, and the time that those that have ended allow.
    waits: HashMap<usize, (usize, Stamp)>,
    /// Sessions under way.
    alive: HashMap<usize, Alive>,
    answers: Answers,
}

#[derive(Debug)]
struct Alive {
    start: Stamp,
    left: usize,
    under_way: usize,
    ended: bool,
}

impl<'a> Sessions<'a> {
    /// The share of worker `id` of `of`; `limit` is on requests.
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
            origin: Stamp::ZERO,
            ripe: BinaryHeap::new(),
            waits: HashMap::new(),
            alive: HashMap::new(),
            answers: Answers::new(),
        }
    }

    /// The moment that starts count from.
    pub(crate) fn begin(&mut self, origin: Stamp) {
        self.origin = origin;
    }

    /// How many more requests this worker could have under way.
    pub(crate) fn free_slots(&self, in_flight: usize) -> usize {
        self.slots.saturating_sub(in_flight)
    }

    /// When something can be done next, unless an answer comes before.
    pub(crate) fn next_release(&self, in_flight: usize) -> Stamp {
        let ripe = self.ripe.peek().map(|Reverse((due, _))| *due);
        let ripe = ripe.filter(|_| in_flight < self.slots);
        ripe.unwrap_or(Stamp::NEVER).min(self.next_start().map_or(Stamp::NEVER, |(_, start)| start))
    }

    /// Whether nothing is left that could be sent.
    pub(crate) fn exhausted(&self) -> bool {
        self.alive.is_empty() && self.next_start().is_none()
    }

    /// Takes the next request if its time has come.
    pub(crate) fn take(&mut self, in_flight: usize, now: Stamp) -> Option<(usize, Stamp)> {
        self.start_sessions(now);
        while let Some(&Reverse((due, index))) = self.ripe.peek() {
            if due > now || in_flight >= self.slots {
                return None;
            }
            self.ripe.pop();
            let step = &self.plan.graph.steps[index];
            let Some(alive) = self.alive.get_mut(&step.session).filter(|alive| !alive.ended) else { continue };
            if step.sends {
                alive.under_way += 1;
                return Some((index, due));
            }
            // A gate that a session begins with: no answer can be part of what waits behind it.
            self.step_over(index, due, due, &mut None::<&mut NoWorker>);
            self.start_sessions(now);
        }
        None
    }

    /// A request is over: what waited for it alone is made ready, with the worker that will send it.
    pub(crate) fn ended<W: Worker>(&mut self, row: &mut Observation, worker: &mut W) {
        let session = self.plan.graph.steps[row.index].session;
        let Some(alive) = self.alive.get_mut(&session) else { return };
        alive.under_way -= 1;
        if !row.outcome.is_complete() && self.plan.on_failure == OnFailure::End {
            alive.ended = true;
        }
        let reply = row.reply.take();
        if row.outcome.is_complete() && self.plan.script.keeps(row.index) {
            self.answers.insert(row.index, Said { text: row.text.clone(), reply, ended: row.done });
        }
        self.step_over(row.index, row.due, row.done, &mut Some(worker));
    }

    fn step_over<W: Worker>(&mut self, index: usize, due: Stamp, end: Stamp, worker: &mut Option<&mut W>) {
        let graph = self.plan.graph;
        let session = graph.steps[index].session;
        let Some(alive) = self.alive.get_mut(&session) else { return };
        alive.left -= 1;
        let (start, ended) = (alive.start, alive.ended);
        if alive.left == 0 || (ended && alive.under_way == 0) {
            self.forget(session);
            return;
        }
        if ended {
            return;
        }
        for &(child, pause) in &graph.children[index] {
            let node = &graph.steps[child];
            let (left, latest) = self.waits.entry(child).or_insert((node.parents.len(), Stamp::ZERO));
            *left -= 1;
            *latest = (*latest).max(end + pause).max(due + node.gap);
            if *left == 0 {
                let due = (*latest).max(start + node.at);
                self.waits.remove(&child);
                self.ready(child, due, worker);
            }
        }
    }

    fn ready<W: Worker>(&mut self, index: usize, due: Stamp, worker: &mut Option<&mut W>) {
        if !self.plan.graph.steps[index].sends {
            // When a gate opens is known as soon as it may: what waits behind it is made ready with the worker at hand.
            return self.step_over(index, due, due, worker);
        }
        let script = self.plan.script;
        if let (Some(worker), Some(request)) = (worker, script.request(index, &self.answers)) {
            worker.supply(index, &request);
        }
        self.ripe.push(Reverse((due.max(self.tools_done(index)), index)));
    }

    /// When the tools are through whose results a step brings: they run from the answer that calls them, beside all else
    /// that the step waits for.
    fn tools_done(&self, index: usize) -> Stamp {
        let Some((caller, time)) = self.plan.script.tools(index, &self.answers) else { return Stamp::ZERO };
        let edge = self.plan.graph.steps[index].parents.iter().find(|(parent, _)| *parent == caller);
        let pause = edge.map_or(Duration::ZERO, |(_, pause)| *pause);
        self.answers.get(&caller).map_or(Stamp::ZERO, |said| said.ended + pause + time)
    }

    fn start_sessions(&mut self, now: Stamp) {
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
                    // With a limit on sessions the start is when a slot was free; without one it is as planned.
                    (session, now)
                }
            };
            self.start(session, start);
        }
    }

    fn start(&mut self, session: usize, start: Stamp) {
        let graph = self.plan.graph;
        let steps = &graph.sessions[session];
        self.alive.insert(session, Alive { start, left: steps.len(), under_way: 0, ended: false });
        for &step in steps.iter().filter(|&&step| graph.steps[step].parents.is_empty()) {
            self.ripe.push(Reverse((start + graph.steps[step].at, step)));
        }
    }

    /// The next session that may start, and when.
    fn next_start(&self) -> Option<(usize, Stamp)> {
        let (session, opens) = match &self.supply {
            Supply::Own { next, .. } => (*next, Duration::ZERO),
            Supply::Shared { cursor, slots } => {
                (cursor.load(Ordering::Relaxed), slots.opens(self.alive.len(), self.plan.ramp)?)
            }
        };
        let start = self.plan.starts.get(session).filter(|_| session < self.plan.range.end)?;
        Some((session, self.origin + Duration::from_secs_f64((start - self.plan.from).max(0.0)).max(opens)))
    }

    fn forget(&mut self, session: usize) {
        self.alive.remove(&session);
        for step in &self.plan.graph.sessions[session] {
            self.answers.remove(step);
            self.waits.remove(step);
        }
    }
}

/// Stands for the worker where none is at hand.
enum NoWorker {}

impl Worker for NoWorker {
    fn issue(&mut self, _: Observation) {
        match *self {}
    }

    fn turn(&mut self, _: Stamp, _: &mut Vec<Observation>) {
        match *self {}
    }

    fn abort(&mut self, _: &mut Vec<Observation>) {
        match *self {}
    }

    fn take_tokens(&mut self) -> u64 {
        match *self {}
    }

    fn stats(&self) -> crate::WorkerStats {
        match *self {}
    }
}

#[cfg(test)]
mod tests;
