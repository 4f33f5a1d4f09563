//! Memory-bound region of the roofline: while an accelerator reads its weights it computes some tokens at no cost; only
//! tokens beyond the ridge point make a step longer. The transition is smooth, because the two overlap less near the
//! ridge point.

use super::{Found, Step, costs::robust};

/// Candidates for the ridge point, in tokens.
const SIZES: [f64; SIZE_COUNT] =
    [0.0, 16.0, 32.0, 48.0, 64.0, 96.0, 128.0, 160.0, 192.0, 256.0, 320.0, 384.0, 512.0, 640.0, 768.0, 1024.0];
const SIZE_COUNT: usize = 16;
/// Least improvement of the errors of prefill steps to accept a ridge point.
const MIN_IMPROVEMENT: f64 = 0.9;
/// Longest time of the hidden tokens, as a multiple of the step.
const MAX_HIDDEN: f64 = 1.25;
/// Least prefill steps.
const MIN_SAMPLES: usize = 20;

/// The compute-bound prefill tokens for each candidate; sums over several steps.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ComputeBound([f64; SIZE_COUNT]);

impl ComputeBound {
    /// Of a step with these prefill tokens and decode sequences.
    pub(super) fn of(prefill: f64, decodes: f64) -> ComputeBound {
        ComputeBound(SIZES.map(|free| compute_bound(prefill, decodes, free)))
    }

    /// For a candidate ridge point.
    pub(super) fn when(&self, free: usize) -> f64 {
        SIZES.iter().position(|size| *size as usize == free).map_or(self.0[0], |at| self.0[at])
    }

    pub(super) fn add(&mut self, other: &ComputeBound) {
        self.0.iter_mut().zip(other.0).for_each(|(one, other)| *one += other);
    }
}

/// Compute-bound prefill tokens, if `free` tokens of any kind take as long as reading the weights.
pub(super) fn compute_bound(prefill: f64, decodes: f64, free: f64) -> f64 {
    let longer = |tokens: f64| (free.powi(3) + tokens.powi(3)).cbrt() - free;
    if prefill == 0.0 { 0.0 } else { longer(decodes + prefill) - longer(decodes) }
}

/// The ridge point in tokens that fits prefill steps best; sets the compute-bound tokens of each step.
pub(super) fn detect(found: &mut [Found]) -> usize {
    let all: Vec<Step> = found.iter().flat_map(|run| run.steps.iter().copied()).collect();
    if all.iter().filter(|step| step.prefill > 0.0).count() < MIN_SAMPLES {
        return 0;
    }
    let errors: Vec<f64> = (0..SIZE_COUNT).map(|at| error(&all, at).unwrap_or(f64::INFINITY)).collect();
    let best = (0..SIZE_COUNT).min_by(|one, other| errors[*one].total_cmp(&errors[*other])).unwrap_or(0);
    if errors[best] > MIN_IMPROVEMENT * errors[0] {
        return 0;
    }
    found.iter_mut().flat_map(|run| &mut run.steps).for_each(|step| *step = counted(step, best));
    SIZES[best] as usize
}

fn counted(step: &Step, at: usize) -> Step {
    Step { computed: step.compute_bound.0[at], ..*step }
}

/// Relative error of prefill steps; `None` where that many tokens would take longer than the step that hides them.
fn error(steps: &[Step], at: usize) -> Option<f64> {
    let steps: Vec<Step> = steps.iter().map(|step| counted(step, at)).collect();
    let costs = robust(&steps).filter(|costs| SIZES[at] * costs.prefill.value <= MAX_HIDDEN * costs.fixed.value)?;
    let with_prompts = || steps.iter().filter(|step| step.prefill > 0.0);
    let off: f64 = with_prompts().map(|step| (step.seconds - costs.seconds(step)).abs()).sum();
    Some(off / with_prompts().map(|step| step.seconds).sum::<f64>())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Steps of 8 ms, and 50 us for each token beyond the ridge point; half of them with prefill.
    fn run(free: f64) -> Vec<Found> {
        let step = |at: usize| {
            let (prefill, decodes) =
                if at.is_multiple_of(2) { (0.0, 4.0) } else { ((at * 37 % 900) as f64 + 1.0, 4.0) };
            let noise = 1.0 + 0.01 * ((at * 29 % 11) as f64 - 5.0) / 5.0;
            let seconds = (8e-3 + 5e-5 * compute_bound(prefill, decodes, free)) * noise;
            let sequences = decodes + f64::from(u8::from(prefill > 0.0));
            let compute_bound = ComputeBound::of(prefill, decodes);
            Step { at: at as f64, seconds, prefill, computed: prefill, sequences, compute_bound, ..Step::one() }
        };
        vec![Found { steps: (0..400).map(step).collect(), ..Found::default() }]
    }

    #[test]
    fn the_memory_bound_region_is_detected_only_if_present() {
        assert_eq!(detect(&mut run(0.0)), 0);
        assert_eq!(detect(&mut run(192.0)), 192);
        let mut between = run(140.0);
        assert!((128..=160).contains(&detect(&mut between)), "none of the sizes that are tried");
        assert!(between[0].steps.iter().all(|step| step.computed <= step.prefill));
    }
}
