//! Interference: times in which all steps of a run were slower than its others because of a noisy neighbor on the
//! machine.

use super::robust::{median, spread};
use super::{Costs, Step};

/// Steps on each side of the moving window.
const HALF_WINDOW: usize = 10;
/// Slowdown of a window, against the fast windows of the run, that counts as interference.
const MIN_SLOWDOWN: f64 = 1.15;
/// Fraction of windows that count as fast.
const FAST_FRACTION: f64 = 0.2;

/// Returns for each step whether it fell into a window with interference.
pub(super) fn interfered(steps: &[Step], costs: &Costs) -> Vec<bool> {
    let ratios: Vec<f64> = steps.iter().map(|step| step.seconds / costs.seconds(step)).collect();
    let around = |at: usize| {
        let (from, to) = (at.saturating_sub(HALF_WINDOW), (at + HALF_WINDOW + 1).min(ratios.len()));
        median(ratios[from..to].iter().copied())
    };
    let windows: Vec<f64> = (0..ratios.len()).map(around).collect();
    let mut sorted = windows.clone();
    sorted.sort_by(f64::total_cmp);
    let Some(quick) = sorted.get((sorted.len() as f64 * FAST_FRACTION) as usize) else { return Vec::new() };
    // Standard error of a window's median by the noise of its steps.
    let own = spread(ratios.iter().zip(&windows).map(|(ratio, window)| ratio / window));
    let limit = MIN_SLOWDOWN.max(1.0 + 5.0 * 1.25 * own / ((2 * HALF_WINDOW + 1) as f64).sqrt());
    windows.iter().map(|window| *window > limit * quick).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fit::Estimate;

    #[test]
    fn slow_periods_are_detected_and_a_steady_run_has_none() {
        let costs = Costs { fixed: Estimate { value: 0.01, half: 0.0 }, ..Costs::default() };
        let step = |at: usize, times: f64| {
            let noise = 1.0 + 0.05 * ((at * 37 % 11) as f64 - 5.0) / 5.0;
            Step { at: at as f64, seconds: 0.01 * noise * times, ..Step::one() }
        };
        let steady: Vec<Step> = (0..300).map(|at| step(at, 1.0)).collect();
        assert!(interfered(&steady, &costs).iter().all(|interfered| !interfered));
        let slow: Vec<Step> = (0..300).map(|at| step(at, if (100..180).contains(&at) { 1.5 } else { 1.0 })).collect();
        let found = interfered(&slow, &costs);
        let count = found.iter().filter(|interfered| **interfered).count();
        assert!((75..=85).contains(&count) && found[140] && !found[50], "{count}");
    }
}
