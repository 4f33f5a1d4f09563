//! Tokens that a step takes along for nothing: while an accelerator reads its weights it computes some tokens in the same
//! time, and only what is beyond them makes a step longer. The two overlap the less the nearer they are to each other.

use super::{Found, Step, robust};

/// How many that may be.
const SIZES: [f64; SIZE_COUNT] =
    [0.0, 16.0, 32.0, 48.0, 64.0, 96.0, 128.0, 160.0, 192.0, 256.0, 320.0, 384.0, 512.0, 640.0, 768.0, 1024.0];
const SIZE_COUNT: usize = 16;
/// How much smaller the errors of steps with prompts must be for it to be believed.
const BETTER: f64 = 0.9;
/// What is hidden in a step takes no longer than it, or not much.
const MOST: f64 = 1.25;
/// Fewer of these tell nothing.
const FEWEST: usize = 20;

/// The prompt tokens beyond those that are free, for each number that these may be; several steps add up.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Beyond([f64; SIZE_COUNT]);

impl Beyond {
    /// Of a step with so many prompt tokens, and so many sequences beside them.
    pub(super) fn of(prefill: f64, beside: f64) -> Beyond {
        Beyond(SIZES.map(|free| beyond(prefill, beside, free)))
    }

    /// When so many are free, one of the numbers that are looked at.
    pub(super) fn when(&self, free: usize) -> f64 {
        SIZES.iter().position(|size| *size as usize == free).map_or(self.0[0], |at| self.0[at])
    }

    pub(super) fn add(&mut self, other: &Beyond) {
        self.0.iter_mut().zip(other.0).for_each(|(one, other)| *one += other);
    }
}

/// Prompt tokens that make a step longer, when so many tokens of any kind take as long as reading the weights.
pub(super) fn beyond(prefill: f64, beside: f64, free: f64) -> f64 {
    let longer = |tokens: f64| (free.powi(3) + tokens.powi(3)).cbrt() - free;
    if prefill == 0.0 { 0.0 } else { longer(beside + prefill) - longer(beside) }
}

/// How many tokens are free, by which number tells steps with prompts best; counts the others in each step.
pub(super) fn detect(found: &mut [Found]) -> usize {
    let all: Vec<Step> = found.iter().flat_map(|run| run.steps.iter().copied()).collect();
    if all.iter().filter(|step| step.prefill > 0.0).count() < FEWEST {
        return 0;
    }
    let errors: Vec<f64> = (0..SIZE_COUNT).map(|at| error(&all, at).unwrap_or(f64::INFINITY)).collect();
    let best = (0..SIZE_COUNT).min_by(|one, other| errors[*one].total_cmp(&errors[*other])).unwrap_or(0);
    if errors[best] > BETTER * errors[0] {
        return 0;
    }
    found.iter_mut().flat_map(|run| &mut run.steps).for_each(|step| *step = counted(step, best));
    SIZES[best] as usize
}

fn counted(step: &Step, at: usize) -> Step {
    Step { computed: step.beyond.0[at], ..*step }
}

/// By how much of their time steps with prompts are off; none where so many tokens would take longer than the step that they
/// are to be hidden in.
fn error(steps: &[Step], at: usize) -> Option<f64> {
    let steps: Vec<Step> = steps.iter().map(|step| counted(step, at)).collect();
    let costs = robust(&steps).filter(|costs| SIZES[at] * costs.prefill.value <= MOST * costs.fixed.value)?;
    let with_prompts = || steps.iter().filter(|step| step.prefill > 0.0);
    let off: f64 = with_prompts().map(|step| (step.seconds - costs.seconds(step)).abs()).sum();
    Some(off / with_prompts().map(|step| step.seconds).sum::<f64>())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Steps of 8 ms, and 50 us for each token beyond so many, as many of them beside prompts as not.
    fn run(free: f64) -> Vec<Found> {
        let step = |at: usize| {
            let (prefill, beside) = if at.is_multiple_of(2) { (0.0, 4.0) } else { ((at * 37 % 900) as f64 + 1.0, 4.0) };
            let noise = 1.0 + 0.01 * ((at * 29 % 11) as f64 - 5.0) / 5.0;
            let seconds = (8e-3 + 5e-5 * beyond(prefill, beside, free)) * noise;
            let sequences = beside + f64::from(u8::from(prefill > 0.0));
            let beyond = Beyond::of(prefill, beside);
            Step { at: at as f64, seconds, prefill, computed: prefill, sequences, beyond, ..Step::one() }
        };
        vec![Found { steps: (0..400).map(step).collect(), ..Found::default() }]
    }

    #[test]
    fn tokens_that_cost_nothing_are_found_and_none_where_there_are_none() {
        assert_eq!(detect(&mut run(0.0)), 0);
        assert_eq!(detect(&mut run(192.0)), 192);
        let mut between = run(140.0);
        assert!((128..=160).contains(&detect(&mut between)), "none of the sizes that are tried");
        assert!(between[0].steps.iter().all(|step| step.computed <= step.prefill));
    }
}
