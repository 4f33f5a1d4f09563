//! Times in which all steps of a run were slower than its others: another tenant of the machine, not the server's own cost.

use super::{Costs, Step, median, spread};

/// Steps on each side that a moment is judged by.
const BESIDE: usize = 10;
/// A moment is disturbed when its steps take this much more than those of the run's quick moments.
const SLOWER: f64 = 1.15;
/// The share of moments that stand for the quick ones.
const QUICK: f64 = 0.2;

/// For each step of a run whether it fell into a disturbed moment.
pub(super) fn disturbed(steps: &[Step], costs: &Costs) -> Vec<bool> {
    let ratios: Vec<f64> = steps.iter().map(|step| step.seconds / costs.seconds(step)).collect();
    let around = |at: usize| {
        let (from, to) = (at.saturating_sub(BESIDE), (at + BESIDE + 1).min(ratios.len()));
        median(ratios[from..to].iter().copied())
    };
    let moments: Vec<f64> = (0..ratios.len()).map(around).collect();
    let mut sorted = moments.clone();
    sorted.sort_by(f64::total_cmp);
    let Some(quick) = sorted.get((sorted.len() as f64 * QUICK) as usize) else { return Vec::new() };
    // How far the median of so many steps strays by their own noise.
    let own = spread(ratios.iter().zip(&moments).map(|(ratio, moment)| ratio / moment));
    let limit = SLOWER.max(1.0 + 5.0 * 1.25 * own / ((2 * BESIDE + 1) as f64).sqrt());
    moments.iter().map(|moment| *moment > limit * quick).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fit::Estimate;

    #[test]
    fn slow_seconds_are_found_and_a_steady_run_has_none() {
        let costs = Costs { fixed: Estimate { value: 0.01, half: 0.0 }, ..Costs::default() };
        let step = |at: usize, times: f64| {
            let noise = 1.0 + 0.05 * ((at * 37 % 11) as f64 - 5.0) / 5.0;
            Step { at: at as f64, seconds: 0.01 * noise * times, ..Step::one() }
        };
        let steady: Vec<Step> = (0..300).map(|at| step(at, 1.0)).collect();
        assert!(disturbed(&steady, &costs).iter().all(|disturbed| !disturbed));
        let slow: Vec<Step> = (0..300).map(|at| step(at, if (100..180).contains(&at) { 1.5 } else { 1.0 })).collect();
        let found = disturbed(&slow, &costs);
        let count = found.iter().filter(|disturbed| **disturbed).count();
        assert!((75..=85).contains(&count) && found[140] && !found[50], "{count}");
    }
}
