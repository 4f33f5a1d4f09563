//! The order of a trace's steps: parents before children, and the earliest send time of each.

use super::model::{Step, Trace};

impl Trace {
    /// The earliest time at which each step is eligible, in milliseconds, if responses took no time.
    pub fn earliest_ms(&self) -> Vec<f64> {
        earliest(self)
    }

    /// The steps with parents before children.
    pub fn in_order(&self) -> Vec<usize> {
        in_order(self)
    }
}

/// When each step was sent, or is eligible at the earliest if responses took no time, in milliseconds.
pub(crate) fn earliest(trace: &Trace) -> Vec<f64> {
    let mut times: Vec<Option<f64>> = vec![None; trace.steps.len()];
    for place in in_order(trace) {
        let step = &trace.steps[place];
        let own = step.at_ms.or(step.start_delay_ms).unwrap_or(0.0);
        let after = step.parents.iter().map(|edge| times[edge.parent].unwrap_or(0.0) + edge.after_ms);
        let with = step.starts_with.and_then(|other| times[other]);
        let due = after.chain(with).fold(own, f64::max);
        times[place] = Some(step.notes.recorded_start_ms.unwrap_or(due));
    }
    times.into_iter().map(|time| time.unwrap_or(0.0)).collect()
}

/// Steps with parents before children. Those on a cycle are skipped.
pub(crate) fn in_order(trace: &Trace) -> Vec<usize> {
    let before = |place: usize| {
        let step: &Step = &trace.steps[place];
        step.parents.iter().map(|edge| edge.parent).chain(step.starts_with)
    };
    let mut waits: Vec<usize> = (0..trace.steps.len()).map(|place| before(place).count()).collect();
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); trace.steps.len()];
    for place in 0..trace.steps.len() {
        before(place).for_each(|parent| children[parent].push(place));
    }
    let mut order: Vec<usize> = (0..trace.steps.len()).filter(|&place| waits[place] == 0).collect();
    let mut at = 0;
    while at < order.len() {
        for child in std::mem::take(&mut children[order[at]]) {
            waits[child] -= 1;
            if waits[child] == 0 {
                order.push(child);
            }
        }
        at += 1;
    }
    order
}
