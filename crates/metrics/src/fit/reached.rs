//! The scheduler's limits, where runs have reached them. What a disturbed machine makes of a run must not pass for a
//! limit: it is told only where many steps are full at the very same number while others wait, else only what was seen.

use std::collections::VecDeque;

use super::budget::Budget;
pub use super::budget::Held;
use super::steps::{Cluster, clusters, quickest};
use super::trace::Traced;

/// Ends of sequences after which the batch must have been as wide as before.
const REFILLS: usize = 5;

/// What runs tell of limits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reached {
    /// Most sequences in a step.
    pub sequences: Option<usize>,
    /// Most tokens in a step.
    pub tokens: Option<Held>,
    /// Whether prompts are split to fill a step.
    pub splits: Option<bool>,
    /// The most sequences that had a token at once: no limit is below.
    pub widest: usize,
    /// The most tokens that a step held for certain: no limit is below.
    pub fullest: usize,
}

/// What is known without looking at runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Told {
    /// Most sequences in a step.
    pub sequences: Option<usize>,
    /// Whether prompts are split to fill a step.
    pub splits: Option<bool>,
}

/// What several runs against one server tell together.
pub fn reached(runs: &[Vec<Traced>], told: Told) -> Reached {
    let runs: Vec<Run> = runs.iter().map(|traced| Run::of(traced)).collect();
    let widest = runs.iter().map(Run::widest).max().unwrap_or(0);
    let sequences = sequences(&runs, widest);
    let limit = told.sequences.or(sequences).unwrap_or(usize::MAX);
    let mut all = Budget::default();
    runs.iter().for_each(|run| all.look(run, limit));
    let (tokens, splits) = match all.told(told.splits) {
        (None, _) => agreed(&runs, limit, &all, told),
        found => found,
    };
    Reached { sequences, tokens, splits, widest, fullest: all.fullest() }
}

/// What the runs that tell a limit each for itself agree on: a disturbed one among them contradicts all together.
fn agreed(runs: &[Run], limit: usize, all: &Budget, told: Told) -> (Option<Held>, Option<bool>) {
    let alone = |run: &Run| {
        let mut budget = Budget::default();
        budget.look(run, limit);
        let (held, splits) = budget.told(told.splits);
        held.map(|held| (held, splits))
    };
    let found: Vec<(Held, Option<bool>)> = runs.iter().filter_map(alone).collect();
    let same = |(held, _): &(Held, Option<bool>)| held.limit == found[0].0.limit && held.limit >= all.fullest();
    match found.first() {
        Some((held, splits)) if found.iter().all(same) => (Some(*held), *splits),
        _ => (None, None),
    }
}

/// A run as its steps.
pub(super) struct Run<'a> {
    pub(super) traced: &'a [Traced],
    pub(super) clusters: Vec<Cluster>,
    /// A request that was sent less than this before a step may not have reached it.
    pub(super) lead: f64,
}

impl<'a> Run<'a> {
    fn of(traced: &'a [Traced]) -> Self {
        Run { traced, clusters: clusters(traced), lead: quickest(traced) }
    }

    fn widest(&self) -> usize {
        self.clusters.iter().map(|cluster| cluster.tokens.len()).max().unwrap_or(0)
    }

    /// How many requests have their last token in these.
    pub(super) fn ended(&self, cluster: &Cluster) -> usize {
        let is_last = |(request, place): &&(usize, usize)| place + 1 == self.traced[*request].tokens.len();
        cluster.tokens.iter().filter(is_last).count()
    }
}

/// Who waits, from one step to the next.
pub(super) struct Queue<'a> {
    traced: &'a [Traced],
    order: VecDeque<usize>,
    waiting: VecDeque<usize>,
}

impl<'a> Queue<'a> {
    pub(super) fn new(traced: &'a [Traced]) -> Self {
        let mut order: Vec<usize> = (0..traced.len()).filter(|at| !traced[*at].tokens.is_empty()).collect();
        order.sort_by(|one, other| traced[*one].sent.total_cmp(&traced[*other].sent));
        Queue { traced, order: order.into(), waiting: VecDeque::new() }
    }

    /// The first of those that were sent before and have no token until; neither time ever goes back.
    pub(super) fn first(&mut self, before: f64, until: f64) -> Option<&'a Traced> {
        while let Some(at) = self.order.front().copied().filter(|at| self.traced[*at].sent < before) {
            self.order.pop_front();
            self.waiting.push_back(at);
        }
        while let Some(at) = self.waiting.front().copied() {
            if self.traced[at].tokens[0] > until {
                return Some(&self.traced[at]);
            }
            self.waiting.pop_front();
        }
        None
    }
}

/// The most sequences of any step, where that is a limit: while others wait a batch is mostly as wide, and when some of it
/// end it is as wide again. A front end that hands requests over slowly does neither.
fn sequences(runs: &[Run], widest: usize) -> Option<usize> {
    let (mut waited, mut full, mut ends, mut refills) = (0, 0, 0, 0);
    for run in runs.iter().filter(|run| run.widest() == widest) {
        let mut queue = Queue::new(run.traced);
        for steps in run.clusters.windows(3) {
            let [end, next, later] = steps else { continue };
            if queue.first(end.at - run.lead, later.until).is_none() {
                continue;
            }
            waited += 1;
            if end.tokens.len() < widest {
                continue;
            }
            full += 1;
            if run.ended(end) == 0 {
                continue;
            }
            ends += 1;
            // An engine that schedules ahead fills a place one step later.
            let refilled = |cluster: &Cluster| cluster.tokens.len() == widest && cluster.began().next().is_some();
            refills += usize::from(refilled(next) || refilled(later));
        }
    }
    (widest > 1 && refills >= REFILLS && 3 * refills >= 2 * ends && 2 * full >= waited).then_some(widest)
}
