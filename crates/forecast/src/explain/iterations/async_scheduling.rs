//! Asynchronous scheduling: an iteration is scheduled when the one before it starts, so that a request has its first part of
//! one an iteration later, and the place of a sequence is free an iteration after its last token.

use tacho_metrics::attribution::QueueLimit;

use super::Timeline;

/// How many more requests have to agree with asynchronous scheduling: a part of those that agree with synchronous, and a number.
const MIN_MORE: (f64, f64) = (0.01, 4.0);
/// Tolerance of the start of an idle engine, as a part of its first iteration.
const START: f64 = 0.02;

impl Timeline<'_> {
    /// When an iteration was scheduled. An idle engine with asynchronous scheduling schedules two at once.
    pub(in crate::explain) fn scheduled(&self, at: usize) -> f64 {
        self.scheduled_by(self.is_async, at)
    }

    fn scheduled_by(&self, is_async: bool, at: usize) -> f64 {
        match at.checked_sub(1).map(|before| &self.iterations[before]) {
            Some(before) if is_async && !self.iterations[at].met_idle_engine() => match before.is_idle {
                true => before.start.max(before.end - before.last_s),
                // It is scheduled when the tokens before are out.
                false => before.start + at.checked_sub(2).map_or(0.0, |at| self.iterations[at].late_s),
            },
            _ => self.iterations[at].start,
        }
    }

    /// Counts sequences in the batch until the iteration after their last token is scheduled.
    pub(super) fn keep_ended(&mut self) {
        for last in &self.last {
            let next = self.iterations.get_mut(last + 1).filter(|next| !next.is_idle);
            next.into_iter().for_each(|next| next.running += 1.0);
        }
    }

    /// Whether more requests agree with asynchronous scheduling, for a run that was read as of synchronous scheduling.
    pub(in crate::explain) fn seems_async(&self) -> bool {
        let refilled = self.refilled();
        let [sync, with_async] =
            [false, true].map(|is_async| self.agreeing(is_async) + refilled[usize::from(is_async)]);
        f64::from(with_async - sync) > (MIN_MORE.0 * f64::from(sync)).max(MIN_MORE.1)
    }

    /// How many requests agree on the time to the engine: it is between the scheduling of the last iteration that would have
    /// admitted a request and that of its first one.
    fn agreeing(&self, is_async: bool) -> i32 {
        let mut ends: Vec<(f64, i32)> = Vec::new();
        for (one, &at) in self.streams.iter().zip(&self.admitted) {
            let wait = |at: usize| self.scheduled_by(is_async, at) - one.traced.sent;
            let (low, high) = match &self.iterations[at] {
                idle if idle.met_idle_engine() => {
                    (wait(at) - START * idle.seconds(), wait(at) + START * idle.seconds())
                }
                _ if at > 1 && self.iterations[at - 1].blocked.is_none() => (wait(at - 1), wait(at)),
                _ => continue,
            };
            ends.extend([(low, 1), (high, -1)]);
        }
        ends.sort_unstable_by(|one, other| one.0.total_cmp(&other.0));
        let depths = ends.iter().scan(0, |depth, (_, change)| {
            *depth += change;
            Some(*depth)
        });
        depths.max().unwrap_or(0)
    }

    /// How often a full batch was refilled in the iteration after one in which a sequence ended, and how often one later.
    fn refilled(&self) -> [i32; 2] {
        let (mut refilled, mut has_ended) = ([0; 2], vec![false; self.iterations.len()]);
        self.last.iter().for_each(|at| has_ended[*at] = true);
        for at in 1..self.iterations.len().saturating_sub(2) {
            let is_full =
                self.iterations[at].blocked == Some(QueueLimit::Sequences) && !self.iterations[at + 1].is_idle;
            if is_full && has_ended[at] && !has_ended[at - 1] {
                let after = (1..3).find(|after| !self.began[at + after].is_empty());
                after.into_iter().for_each(|after| refilled[after - 1] += 1);
            }
        }
        refilled
    }
}
