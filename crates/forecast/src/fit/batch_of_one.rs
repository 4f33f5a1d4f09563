//! Batch-1 decode: many accelerators use GEMV kernels for a single token. Such a step is faster than one of two tokens,
//! which is hardly faster than one of three.

use tacho_metrics::statistics::mean;

use super::{Found, Step, costs::robust, regress::Estimate, robust::median};

/// Least batch-1 steps of a run.
const MIN_SAMPLES: usize = 10;
const MIN_RUNS: usize = 2;
/// Least saving, as a fraction of a step.
const MIN_SAVING: f64 = 0.02;
/// Least saving, in standard deviations between runs.
const MIN_DEVIATIONS: f64 = 3.0;

/// Time that a batch-1 decode step saves. Removes the saving from these steps.
pub(super) fn detect(found: &mut [Found]) -> Estimate {
    let saved = seen(found).unwrap_or_default();
    found.iter_mut().flat_map(|run| &mut run.steps).for_each(|step| step.seconds += saved.value * step.singles);
    saved
}

fn seen(found: &[Found]) -> Option<Estimate> {
    let others: Vec<Step> =
        found.iter().flat_map(|run| &run.steps).filter(|step| step.singles == 0.0).copied().collect();
    let costs = robust(&others)?;
    let off = |step: &Step| costs.seconds(step) - step.seconds;
    // With a varying slowdown, the means of runs vary as much.
    let of_runs = |is_single: bool| -> Vec<f64> {
        let wanted = |step: &&Step| step.prefill == 0.0 && step.count == 1.0 && (step.singles > 0.0) == is_single;
        let steps = |run: &'_ Found| -> Vec<f64> { run.steps.iter().filter(wanted).map(off).collect() };
        found.iter().map(steps).filter(|off| off.len() >= MIN_SAMPLES).map(|off| median(off.into_iter())).collect()
    };
    let (single, several) = (of_runs(true), of_runs(false));
    if single.len().min(several.len()) < MIN_RUNS {
        return None;
    }
    let (saved, deviation) = mean_and_deviation(&single);
    let (_, deviation_others) = mean_and_deviation(&several);
    let min = MIN_DEVIATIONS * deviation.hypot(deviation_others);
    let half =
        1.96 * (deviation / (single.len() as f64).sqrt()).hypot(deviation_others / (several.len() as f64).sqrt());
    (saved > min.max(MIN_SAVING * costs.fixed.value)).then_some(Estimate { value: saved, half })
}

fn mean_and_deviation(values: &[f64]) -> (f64, f64) {
    let mean = mean(values);
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, (squares / (values.len() as f64 - 1.0)).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Six runs of one, four and twelve sequences; a step takes 8 ms and 20 us per sequence, and `saved` less for a
    /// single token.
    fn runs(saved: f64, slowdown: impl Fn(usize) -> f64) -> Vec<Found> {
        let step = |run: usize, at: usize| {
            let sequences = [1.0, 4.0, 12.0][run % 3];
            let singles = if sequences == 1.0 { 1.0 } else { 0.0 };
            let noise = 1.0 + 0.01 * ((at * 29 % 11) as f64 - 5.0) / 5.0;
            let seconds = (8e-3 + 2e-5 * sequences - saved * singles) * noise * slowdown(run);
            Step { at: at as f64, seconds, sequences, singles, ..Step::one() }
        };
        let run = |run: usize| Found { steps: (0..100).map(|at| step(run, at)).collect(), ..Found::default() };
        (0..6).map(run).collect()
    }

    #[test]
    fn fast_batch_1_steps_are_detected_only_in_steady_runs() {
        let mut found = runs(4e-4, |_| 1.0);
        let saved = detect(&mut found);
        assert!((saved.value - 4e-4).abs() < 2e-5, "{saved:?}");
        let single = median(found[0].steps.iter().map(|step| step.seconds));
        assert!((single - 8.02e-3).abs() < 1e-4, "{single}: as if it were not quicker");
        assert_eq!(detect(&mut runs(0.0, |_| 1.0)).value, 0.0);
        let quick = |run: usize| if run == 0 { 0.8 } else { 1.0 };
        assert_eq!(detect(&mut runs(0.0, quick)).value, 0.0, "one run was quick as a whole");
    }
}
