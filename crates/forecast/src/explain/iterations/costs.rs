//! The costs of iterations, estimated from a run itself.

use super::{Iteration, MAX_GROUP, Timeline};
use crate::explain::model::Load;
use crate::fit::costs::robust;
use crate::fit::robust::{median, spread};
use crate::fit::{Costs, Estimate, Step};

const MAX_STEPS: usize = 20_000;
/// Fewest and most requests to an idle engine whose prompts are compared, and least difference of two in tokens.
const MIN_PAIRED: usize = 5;
const MAX_PAIRED: usize = 500;
const MIN_APART_TOKENS: f64 = 16.0;

impl Timeline<'_> {
    /// Regresses durations on contents. A refused prompt may have a part in each iteration until its first token: these
    /// are only known together.
    pub(super) fn estimate(&self) -> Costs {
        let (mut steps, mut group): (Vec<Step>, Vec<Iteration>) = (Vec::new(), Vec::new());
        for (at, one) in self.iterations.iter().enumerate() {
            group.push(*one);
            if (one.head.is_some() && one.blocked.is_none()) || self.has_unknown_end(at) {
                continue;
            }
            if group.len() <= MAX_GROUP && group.iter().all(|one| one.is_clear && !one.is_idle && one.seconds() > 0.0) {
                steps.push(step(&group));
            }
            group.clear();
        }
        let stride = steps.len().div_ceil(MAX_STEPS).max(1);
        let steps: Vec<Step> = steps.into_iter().step_by(stride).collect();
        let only = |steps: &[Step]| {
            let each = || steps.iter().map(|step| step.seconds / step.count);
            let fixed = Estimate { value: median(each()), half: 1.96 * spread(each()) };
            Costs { fixed, ..Costs::default() }
        };
        // Stalls would hide the few steps with prompts from a regression of all: a rough one leaves them out.
        let (prompts, decodes): (Vec<Step>, Vec<Step>) = steps.iter().partition(|step| step.prefill > 0.0);
        let mut rough = robust(&decodes).unwrap_or_else(|| only(&steps));
        rough.prefill.value = median(prompts.iter().map(|step| (step.seconds - rough.seconds(step)) / step.prefill));
        let is_near = |step: &&Step| (0.3..2.5).contains(&(step.seconds / rough.seconds(step)));
        let near: Vec<Step> = steps.iter().filter(is_near).copied().collect();
        let mut found = robust(&near).unwrap_or_else(|| only(&steps));
        if prompts.is_empty() {
            found.prefill = self.idle_prefill();
        }
        found
    }

    /// The cost of a prompt token where every prompt met an idle engine: how much later the first token of longer prompts
    /// came (the median of all pairs).
    fn idle_prefill(&self) -> Estimate {
        let alone = (0..self.streams.len()).filter(|stream| {
            let one = &self.iterations[self.first[*stream]];
            one.is_idle && one.prompts.prompts == 1.0
        });
        let point = |stream: usize| {
            let wait = self.iterations[self.first[stream]].end - self.streams[stream].traced.sent;
            (self.streams[stream].computed(), wait)
        };
        let mut points: Vec<(f64, f64)> = alone.map(point).collect();
        points.truncate(MAX_PAIRED);
        let pairs = points.iter().enumerate().flat_map(|(at, one)| points[at + 1..].iter().map(move |two| (one, two)));
        let slopes: Vec<f64> = pairs
            .filter(|(one, two)| (one.0 - two.0).abs() >= MIN_APART_TOKENS)
            .map(|(one, two)| (one.1 - two.1) / (one.0 - two.0))
            .collect();
        let value = median(slopes.iter().copied());
        if points.len() < MIN_PAIRED || value.is_nan() || value < 0.0 {
            return Estimate::default();
        }
        let half = 1.96 * spread(slopes.iter().copied()) / (points.len() as f64).sqrt();
        Estimate { value, half }
    }
}

fn step(group: &[Iteration]) -> Step {
    let load = group.iter().fold(Load::default(), |sum, one| sum + one.contents());
    let (first, last) = (&group[0], &group[group.len() - 1]);
    Step {
        at: last.end,
        seconds: last.end - first.start,
        count: group.len() as f64,
        prefill: load.prefill,
        computed: load.prefill,
        sequences: load.decodes + load.prompts,
        kv: load.context,
        attention: load.attention,
        ..Step::default()
    }
}
