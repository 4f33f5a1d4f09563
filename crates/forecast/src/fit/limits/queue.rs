//! A run as its steps, and the queue between them.

use std::collections::VecDeque;

use crate::fit::steps::{Cluster, clusters, quickest};
use crate::fit::trace::Traced;

pub(super) struct Run<'a> {
    pub(super) traced: &'a [Traced],
    pub(super) clusters: Vec<Cluster>,
    /// A request that was sent less than this before a step may not be in it.
    pub(super) lead: f64,
}

impl<'a> Run<'a> {
    pub(super) fn of(traced: &'a [Traced]) -> Self {
        Run { traced, clusters: clusters(traced), lead: quickest(traced) }
    }

    /// Most sequences of a step.
    pub(super) fn widest(&self) -> usize {
        self.clusters.iter().map(|cluster| cluster.tokens.len()).max().unwrap_or(0)
    }

    /// Number of requests whose last token is in this cluster.
    pub(super) fn ended(&self, cluster: &Cluster) -> usize {
        let is_last = |(request, index): &&(usize, usize)| index + 1 == self.traced[*request].tokens.len();
        cluster.tokens.iter().filter(is_last).count()
    }
}

/// Queued requests, from step to step.
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

    /// The first request that was sent before `before` and has no token until `until`; neither time decreases between
    /// calls.
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
