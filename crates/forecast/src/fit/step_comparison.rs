//! Measured and predicted steps compared by kind: errors of a model show in its steps before they show in a mean.

use super::steps::{Step, find};
use super::{error::MAX_HELD_OUT_ERROR, robust::median, trace::Traced};
use tacho_engine::EngineSpec;

/// Least steps of a kind, on either side.
const MIN_SAMPLES: usize = 8;

/// Steps of one kind on both sides.
#[derive(Debug, Clone, PartialEq)]
pub struct Kind {
    pub name: String,
    /// Measured and predicted number.
    pub count: (usize, usize),
    /// Median duration in seconds, measured and predicted.
    pub seconds: (f64, f64),
    /// Fraction of the measured time.
    pub share: f64,
}

impl Kind {
    /// Relative error of the predicted duration.
    pub fn error(&self) -> f64 {
        self.seconds.1 / self.seconds.0 - 1.0
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct StepComparison {
    /// Kinds with enough steps on both sides.
    pub kinds: Vec<Kind>,
    /// Total steps, measured and predicted.
    pub steps: (usize, usize),
    /// Sequences per step, weighted by time, measured and predicted.
    pub sequences: (f64, f64),
}

impl StepComparison {
    /// Returns whether the time-weighted error of the steps is small; `None` with too few steps.
    pub fn is_good(&self) -> Option<bool> {
        Some(self.off()? <= MAX_HELD_OUT_ERROR)
    }

    /// Time-weighted error of the steps.
    pub fn off(&self) -> Option<f64> {
        let seen: f64 = self.kinds.iter().map(|kind| kind.share).sum();
        let off = self.kinds.iter().map(|kind| kind.share * kind.error().abs()).sum::<f64>();
        (seen > 0.5).then_some(off / seen)
    }
}

pub fn compare_steps(measured: &[Traced], predicted: &[Traced]) -> StepComparison {
    // Chunks of prompts are steps too; here a step is identified by its tokens.
    let limits =
        EngineSpec { max_num_batched_tokens: usize::MAX >> 1, enable_chunked_prefill: false, ..EngineSpec::default() };
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
        (count.0.min(count.1) >= MIN_SAMPLES).then_some(Kind { name: wanted.1, count, seconds, share })
    };
    StepComparison {
        kinds: names.into_iter().filter_map(kind).collect(),
        steps: (real.len(), model.len()),
        sequences: (sequences(&real), sequences(&model)),
    }
}

/// The kind of a step, by powers of two, and its sort key.
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

    /// Two concurrent requests with steps of this duration.
    fn run(step: f64) -> Vec<Traced> {
        let tokens = |from: f64| (0..40).map(|place| from + f64::from(place) * step).collect();
        vec![Traced { sent: 0.0, prompt: 5, tokens: tokens(0.1) }, Traced { sent: 0.0, prompt: 5, tokens: tokens(0.1) }]
    }

    #[test]
    fn differing_steps_are_named_and_fail_the_comparison() {
        let same = compare_steps(&run(0.02), &run(0.0202));
        assert_eq!((same.is_good(), same.steps), (Some(true), (39, 39)));
        let other = compare_steps(&run(0.02), &run(0.03));
        assert_eq!(other.is_good(), Some(false));
        assert_eq!(other.kinds[0].name, "2 sequences, no prompt");
        assert!((other.kinds[0].error() - 0.5).abs() < 1e-6 && (other.sequences.0 - 2.0).abs() < 1e-9, "{other:?}");
        assert_eq!(compare_steps(&run(0.02)[..0], &run(0.02)).is_good(), None);
    }
}
