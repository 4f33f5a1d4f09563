//! Steps of a single token: many accelerators multiply by one vector with other kernels than by several, so that such a step
//! is quicker than those of two, which themselves are hardly quicker than those of three.

use super::regress::Estimate;
use super::{Found, Step, median, robust};

/// Fewer of them in a run tell nothing,
const FEWEST: usize = 10;
/// nor do fewer runs.
const FEWEST_RUNS: usize = 2;
/// They are quicker by at least so much of a step,
const QUICKER: f64 = 0.02;
/// and by so many times of how far runs are apart.
const SURELY: f64 = 3.0;

/// By how many seconds a step of a single token is quicker than others say; makes those steps as long as if they were not.
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
    // A machine that changes its pace has runs that are as far apart.
    let of_runs = |is_single: bool| -> Vec<f64> {
        let wanted = |step: &&Step| step.prefill == 0.0 && step.count == 1.0 && (step.singles > 0.0) == is_single;
        let steps = |run: &'_ Found| -> Vec<f64> { run.steps.iter().filter(wanted).map(off).collect() };
        found.iter().map(steps).filter(|off| off.len() >= FEWEST).map(|off| median(off.into_iter())).collect()
    };
    let (single, several) = (of_runs(true), of_runs(false));
    if single.len().min(several.len()) < FEWEST_RUNS {
        return None;
    }
    let (saved, apart) = mean(&single);
    let (_, apart_others) = mean(&several);
    let surely = SURELY * apart.hypot(apart_others);
    let half = 1.96 * (apart / (single.len() as f64).sqrt()).hypot(apart_others / (several.len() as f64).sqrt());
    (saved > surely.max(QUICKER * costs.fixed.value)).then_some(Estimate { value: saved, half })
}

/// The mean with how far values are from it.
fn mean(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    (mean, (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0)).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Six runs of one, four and twelve sequences; a step takes 8 ms and 20 us a sequence, one of a single token so much less.
    fn runs(saved: f64, pace: impl Fn(usize) -> f64) -> Vec<Found> {
        let step = |run: usize, at: usize| {
            let sequences = [1.0, 4.0, 12.0][run % 3];
            let singles = if sequences == 1.0 { 1.0 } else { 0.0 };
            let noise = 1.0 + 0.01 * ((at * 29 % 11) as f64 - 5.0) / 5.0;
            let seconds = (8e-3 + 2e-5 * sequences - saved * singles) * noise * pace(run);
            Step { at: at as f64, seconds, sequences, singles, ..Step::one() }
        };
        let run = |run: usize| Found { steps: (0..100).map(|at| step(run, at)).collect(), ..Found::default() };
        (0..6).map(run).collect()
    }

    #[test]
    fn quick_steps_of_a_single_token_are_found_and_none_where_there_are_none_or_nothing_is_steady() {
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
