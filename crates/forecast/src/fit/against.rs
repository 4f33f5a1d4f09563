//! A run beside its prediction, step by step: where a model is wrong shows in the steps before it shows in a mean.

use super::profile::Limits;
use super::steps::{Step, find};
use super::trace::Traced;
use super::{MAX_HELD_OUT_ERROR, median};

/// Fewer steps of a kind than this, on either side, say nothing.
const FEWEST: usize = 8;

/// Steps of one kind on both sides.
#[derive(Debug, Clone, PartialEq)]
pub struct Kind {
    /// What they have in common.
    pub name: String,
    /// How many were measured and predicted.
    pub count: (usize, usize),
    /// Their middle length in seconds, measured and predicted.
    pub seconds: (f64, f64),
    /// Their share of the measured time.
    pub share: f64,
}

impl Kind {
    /// By how much of the measured length the predicted one is off.
    pub fn error(&self) -> f64 {
        self.seconds.1 / self.seconds.0 - 1.0
    }
}

/// What differs.
#[derive(Debug, Clone, PartialEq)]
pub struct Against {
    /// Kinds of steps that both sides have enough of.
    pub kinds: Vec<Kind>,
    /// Steps in all, measured and predicted.
    pub steps: (usize, usize),
    /// Sequences in a step, weighted by time, measured and predicted.
    pub sequences: (f64, f64),
}

impl Against {
    /// Whether the steps are as predicted, by how far they are off weighted by the time they take; none where there are too
    /// few to say.
    pub fn is_good(&self) -> Option<bool> {
        Some(self.off()? <= MAX_HELD_OUT_ERROR)
    }

    /// How far the steps are off, weighted by the time they take.
    pub fn off(&self) -> Option<f64> {
        let seen: f64 = self.kinds.iter().map(|kind| kind.share).sum();
        let off = self.kinds.iter().map(|kind| kind.share * kind.error().abs()).sum::<f64>();
        (seen > 0.5).then_some(off / seen)
    }
}

/// Sets the steps of two runs beside each other.
pub fn against(measured: &[Traced], predicted: &[Traced]) -> Against {
    // Prompts that are split show as steps of their own; here a step is what its tokens tell.
    let limits = Limits { max_num_batched_tokens: usize::MAX >> 1, chunked_prefill: false, ..Limits::default() };
    let (real, model) = (find(measured, &limits).steps, find(predicted, &limits).steps);
    let total: f64 = real.iter().map(|step| step.seconds).sum();
    let mut names: Vec<(usize, String)> = real.iter().map(name).collect();
    names.sort();
    names.dedup();
    let kind = |wanted: (usize, String)| {
        let of = |steps: &[Step]| -> Vec<f64> {
            steps.iter().filter(|step| name(step) == wanted).map(|step| step.seconds).collect()
        };
        let (ours, theirs) = (of(&real), of(&model));
        let share = ours.iter().sum::<f64>() / total.max(f64::MIN_POSITIVE);
        let count = (ours.len(), theirs.len());
        let seconds = (median(ours.into_iter()), median(theirs.into_iter()));
        (count.0.min(count.1) >= FEWEST).then_some(Kind { name: wanted.1, count, seconds, share })
    };
    Against {
        kinds: names.into_iter().filter_map(kind).collect(),
        steps: (real.len(), model.len()),
        sequences: (sequences(&real), sequences(&model)),
    }
}

/// The kind of a step, by doubling sizes, with its place among all.
fn name(step: &Step) -> (usize, String) {
    let (offset, size, of) = match step.prefill > 0.0 {
        true => (100, step.prefill as usize, "prompt tokens"),
        false => (0, step.sequences as usize, "sequences, no prompt"),
    };
    let to = size.max(1).next_power_of_two();
    let from = to / 2 + 1;
    let range = if from >= to { format!("{to}") } else { format!("{from} to {to}") };
    (offset + to.ilog2() as usize, format!("{range} {of}"))
}

fn sequences(steps: &[Step]) -> f64 {
    let time: f64 = steps.iter().map(|step| step.seconds).sum();
    steps.iter().map(|step| step.sequences * step.seconds).sum::<f64>() / time.max(f64::MIN_POSITIVE)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two requests that go on together, each step so long.
    fn run(step: f64) -> Vec<Traced> {
        let tokens = |from: f64| (0..40).map(|place| from + f64::from(place) * step).collect();
        vec![Traced { sent: 0.0, prompt: 5, tokens: tokens(0.1) }, Traced { sent: 0.0, prompt: 5, tokens: tokens(0.1) }]
    }

    #[test]
    fn steps_that_differ_are_named_and_do_not_hold() {
        let same = against(&run(0.02), &run(0.0202));
        assert_eq!((same.is_good(), same.steps), (Some(true), (39, 39)));
        let other = against(&run(0.02), &run(0.03));
        assert_eq!(other.is_good(), Some(false));
        assert_eq!(other.kinds[0].name, "2 sequences, no prompt");
        assert!((other.kinds[0].error() - 0.5).abs() < 1e-6 && (other.sequences.0 - 2.0).abs() < 1e-9, "{other:?}");
        assert_eq!(against(&run(0.02)[..0], &run(0.02)).is_good(), None);
    }
}
