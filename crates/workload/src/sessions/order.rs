//! The order of a trace's steps: parents before children, and the earliest send time of each.

use super::model::Trace;

impl Trace {
    /// When each step was sent, or is eligible at the earliest if responses took no time, in milliseconds.
    pub fn earliest_ms(&self) -> Vec<f64> {
        let mut times = vec![0.0; self.steps.len()];
        for index in self.in_order() {
            let step = &self.steps[index];
            let own = step.at_ms.or(step.start_delay_ms).unwrap_or(0.0);
            let after = step.parents.iter().map(|edge| times[edge.parent] + edge.after_ms);
            let with = step.starts_with.map(|other| times[other]);
            let due = after.chain(with).fold(own, f64::max);
            times[index] = step.notes.recorded_start_ms.unwrap_or(due);
        }
        times
    }

    /// Steps with parents before children. Those on a cycle are skipped.
    pub fn in_order(&self) -> Vec<usize> {
        let before = |index: usize| {
            self.steps[index].parents.iter().map(|edge| edge.parent).chain(self.steps[index].starts_with)
        };
        let mut waits: Vec<usize> = (0..self.steps.len()).map(|index| before(index).count()).collect();
        let mut children: Vec<Vec<usize>> = vec![Vec::new(); self.steps.len()];
        for index in 0..self.steps.len() {
            before(index).for_each(|parent| children[parent].push(index));
        }
        let mut order: Vec<usize> = (0..self.steps.len()).filter(|&index| waits[index] == 0).collect();
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
}
