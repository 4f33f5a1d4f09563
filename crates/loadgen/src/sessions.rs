//! The second source of releases: a request goes when its own time has come and the requests it waits for have ended. A
//! session stays on one worker, and what follows from an answer is made ready before its pause is over.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tacho_core::{Observation, Request, Stamp};

use crate::Worker;

/// What a run with sessions does beside its timeline.
pub struct SessionPlan<'a> {
    /// Who waits for whom.
    pub graph: &'a Graph,
    /// When each session may start, in seconds after the origin; ascending.
    pub starts: &'a [f64],
    /// At most this many sessions at once, each from its first request to its last.
    pub max_sessions: Option<usize>,
    /// What a failed request does to its session.
    pub on_failure: OnFailure,
    /// Makes the requests that depend on answers.
    pub script: &'a dyn Script,
}

/// What a failed request does to its session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// Nothing more of it is sent.
    #[default]
    End,
    /// It goes on without the answer.
    Continue,
}

/// Makes requests of answers.
pub trait Script: Sync {
    /// Whether the answer of this request is part of a later one.
    fn keeps(&self, index: usize) -> bool;

    /// The request, given the answers so far; none where the one made before the run stands.
    fn request(&self, index: usize, answers: &HashMap<usize, Vec<u8>>) -> Option<Request>;
}

/// Who waits for whom.
#[derive(Debug, Clone, Default)]
pub struct Graph {
    steps: Vec<Node>,
    /// Who waits for each step, and the pause.
    children: Vec<Vec<(usize, Duration)>>,
    /// Steps of each session.
    sessions: Vec<Vec<usize>>,
}

/// A step of a session.
#[derive(Debug, Clone, Default)]
pub struct Node {
    /// The session.
    pub session: usize,
    /// Not before this long after the session's start.
    pub at: Duration,
    /// Steps that must have ended, and the pause after each.
    pub parents: Vec<(usize, Duration)>,
    /// Whether anything is sent; a gate only lets others go.
    pub sends: bool,
}

impl Graph {
    /// A graph of these steps; sessions are numbered from 0 without gaps, and nobody waits for itself.
    pub fn new(steps: Vec<Node>) -> Self {
        let count = steps.iter().map(|step| step.session + 1).max().unwrap_or(0);
        let mut sessions = vec![Vec::new(); count];
        let mut children = vec![Vec::new(); steps.len()];
        for (place, step) in steps.iter().enumerate() {
            sessions[step.session].push(place);
            step.parents.iter().for_each(|(parent, pause)| children[*parent].push((place, *pause)));
        }
        Graph { steps, children, sessions }
    }

    /// How many sessions there are.
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }
}

/// Which sessions a worker may start.
#[derive(Debug)]
enum Supply<'a> {
    /// Every `step`-th from `next` on.
    Own { next: usize, step: usize },
    /// Whatever is next for all workers, while there are slots.
    Shared { cursor: &'a AtomicUsize, slots: usize },
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
    /// Sessions under way: when each started, how many steps are left, whether it has failed.
    alive: HashMap<usize, Alive>,
    answers: HashMap<usize, Vec<u8>>,
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
        let share = |limit: usize| limit / of + usize::from(id < limit % of);
        let supply = match plan.max_sessions {
            None => Supply::Own { next: id, step: of },
            Some(limit) => Supply::Shared { cursor, slots: share(limit) },
        };
        Sessions {
            plan,
            supply,
            slots: limit.map_or(usize::MAX, share),
            origin: Stamp::ZERO,
            ripe: BinaryHeap::new(),
            waits: HashMap::new(),
            alive: HashMap::new(),
            answers: HashMap::new(),
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
            let session = self.plan.graph.steps[index].session;
            let Some(alive) = self.alive.get_mut(&session).filter(|alive| !alive.ended) else { continue };
            if self.plan.graph.steps[index].sends {
                alive.under_way += 1;
                return Some((index, due));
            }
            // A gate is over when it is due. What waits for it is made ready when it is taken, since nobody answers.
            self.step_over(index, due, &mut None::<&mut NoWorker>);
            self.start_sessions(now);
        }
        None
    }

    /// A request is over: what waited for it alone is made ready, with the worker that will send it.
    pub(crate) fn ended<W: Worker>(&mut self, row: &Observation, worker: &mut W) {
        let session = self.plan.graph.steps[row.index].session;
        let Some(alive) = self.alive.get_mut(&session) else { return };
        alive.under_way -= 1;
        if !row.outcome.is_complete() && self.plan.on_failure == OnFailure::End {
            alive.ended = true;
        }
        if row.outcome.is_complete() && self.plan.script.keeps(row.index) {
            self.answers.insert(row.index, row.text.clone());
        }
        self.step_over(row.index, row.done, &mut Some(worker));
    }

    fn step_over<W: Worker>(&mut self, index: usize, end: Stamp, worker: &mut Option<&mut W>) {
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
            let (left, latest) = self.waits.entry(child).or_insert((graph.steps[child].parents.len(), Stamp::ZERO));
            *left -= 1;
            *latest = (*latest).max(end + pause);
            if *left == 0 {
                let due = (*latest).max(start + graph.steps[child].at);
                self.waits.remove(&child);
                self.ready(child, due, worker);
            }
        }
    }

    fn ready<W: Worker>(&mut self, index: usize, due: Stamp, worker: &mut Option<&mut W>) {
        if let (Some(worker), Some(request)) = (worker, self.plan.script.request(index, &self.answers)) {
            worker.supply(index, &request);
        }
        self.ripe.push(Reverse((due, index)));
    }

    fn start_sessions(&mut self, now: Stamp) {
        while let Some((session, start)) = self.next_start().filter(|(_, start)| *start <= now) {
            let session = match &mut self.supply {
                Supply::Own { next, step } => {
                    *next += *step;
                    session
                }
                Supply::Shared { cursor, .. } => {
                    let count = self.plan.graph.sessions();
                    let taken =
                        cursor.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |at| (at < count).then_some(at + 1));
                    let Ok(session) = taken else { return };
                    session
                }
            };
            // With a limit on sessions the start is when a slot was free; without one it is as planned.
            let start = if matches!(self.supply, Supply::Shared { .. }) { now } else { start };
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
        let session = match &self.supply {
            Supply::Own { next, .. } => *next,
            Supply::Shared { slots, .. } if self.alive.len() >= *slots => return None,
            Supply::Shared { cursor, .. } => cursor.load(Ordering::Relaxed),
        };
        let start = self.plan.starts.get(session)?;
        Some((session, self.origin + Duration::from_secs_f64(start.max(0.0))))
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
