//! Slowdown over time: step times are autocorrelated, so that each window of steps has its own factor.

use std::collections::BTreeMap;

use tacho_engine::Slowdown;

use super::{Costs, Found, Step, robust::spread};

/// Steps of a window.
const STEPS: usize = 16;
/// Number of slowdown factors (deciles).
const VALUES: usize = 10;
/// Smallest relative standard deviation of windows that counts as a slowdown.
const MIN_DEVIATION: f64 = 0.02;
const MIN_SAMPLES: usize = 20;
/// Longest duration of a factor, seconds; a fit does not see longer ones.
const MAX_SECONDS: f64 = 30.0;

/// Assigns windows to steps and to the first tokens before them.
pub(super) fn assign_windows(found: &mut [Found]) {
    let mut first = 0;
    for run in found {
        run.steps.iter_mut().enumerate().for_each(|(at, step)| step.window = first + at / STEPS);
        let last = first + run.steps.len().div_ceil(STEPS);
        for one in &mut run.idle_ttfts {
            let next = run.steps.partition_point(|step| step.at <= one.at);
            one.window = run.steps.get(next).map_or(last, |step| step.window);
        }
        first = last + 1;
    }
}

/// Relative standard deviation of steps within their windows.
pub(super) fn noise(steps: &[Step], costs: &Costs) -> f64 {
    let means: BTreeMap<usize, Window> = windows(steps, costs);
    let has_others = |step: &&Step| means[&step.window].steps > 1.0;
    let off = |step: &Step| {
        let window = &means[&step.window];
        // The mean of the window includes the step itself.
        let own = (window.steps / (window.steps - 1.0)).sqrt();
        (step.seconds / costs.seconds(step) / window.times()).ln() * own
    };
    spread(steps.iter().filter(has_others).map(off))
}

/// Sums over the steps of a window.
#[derive(Clone, Copy, Default)]
struct Window {
    steps: f64,
    took: f64,
    expected: f64,
}

impl Window {
    fn times(&self) -> f64 {
        self.took / self.expected.max(f64::MIN_POSITIVE)
    }
}

fn windows(steps: &[Step], costs: &Costs) -> BTreeMap<usize, Window> {
    let mut windows: BTreeMap<usize, Window> = BTreeMap::new();
    for step in steps {
        let window = windows.entry(step.window).or_default();
        window.steps += 1.0;
        window.took += step.seconds;
        window.expected += costs.seconds(step);
    }
    windows
}

/// The slowdown over time from all steps; `None` if windows differ by no more than their noise.
pub(super) fn estimate(found: &[Found], costs: &Costs, noise: f64) -> Option<Slowdown> {
    let runs: Vec<Vec<Window>> = found.iter().map(|run| windows(&run.steps, costs).into_values().collect()).collect();
    let all: Vec<Window> = runs.iter().flatten().copied().filter(|window| window.steps > 4.0).collect();
    let time: f64 = all.iter().map(|window| window.took).sum();
    let over = |value: &dyn Fn(&Window) -> f64| all.iter().map(|one| one.took * value(one)).sum::<f64>() / time;
    let mean = over(&Window::times);
    let seen = over(&|window| (window.times() - mean).powi(2));
    let own = over(&|window| (noise * mean).powi(2) / window.steps);
    let true_share = ((seen - own) / seen).max(0.0);
    if all.len() < MIN_SAMPLES || seen * true_share < (MIN_DEVIATION * mean).powi(2) || true_share < 0.5 {
        return None;
    }
    let seconds = lasting(&runs, mean, time / all.len() as f64, seen * true_share);
    // Shrunk by the variance that is noise.
    let shrunk = |times: f64| mean + (times - mean) * true_share.sqrt();
    Some(Slowdown { factors: values(&all).map(shrunk).collect(), seconds })
}

/// Means of the deciles of time, fastest first.
fn values(windows: &[Window]) -> impl Iterator<Item = f64> {
    let mut sorted = windows.to_vec();
    sorted.sort_by(|one, other| one.times().total_cmp(&other.times()));
    let all: f64 = sorted.iter().map(|window| window.took).sum();
    let (mut sums, mut before) = ([0.0; VALUES], 0.0);
    for window in &sorted {
        let (from, to) = (before / all * VALUES as f64, (before + window.took) / all * VALUES as f64);
        for (at, sum) in sums.iter_mut().enumerate() {
            let within = (to.min(at as f64 + 1.0) - from.max(at as f64)).max(0.0);
            *sum += within * window.times();
        }
        before += window.took;
    }
    sums.into_iter()
}

/// Mean duration of a factor, from the lag-1 autocorrelation of windows.
fn lasting(runs: &[Vec<Window>], mean: f64, length: f64, variance: f64) -> f64 {
    let pairs = runs.iter().flat_map(|run| run.windows(2)).map(|pair| [pair[0].times() - mean, pair[1].times() - mean]);
    let products: Vec<f64> = pairs.map(|[one, other]| one * other).collect();
    let alike = products.iter().sum::<f64>() / products.len().max(1) as f64 / variance;
    let max = (-length / MAX_SECONDS).exp();
    (-length / alike.clamp(0.05, max).ln()).clamp(0.05, MAX_SECONDS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fit::Estimate;

    /// Runs of 200 steps each, with a slowdown per step.
    fn runs(times: impl Fn(usize) -> f64) -> Vec<Found> {
        let step = |at: usize| {
            let noise = 1.0 + 0.05 * ((at * 37 % 11) as f64 - 5.0) / 5.0;
            Step { at: at as f64 * 0.01, seconds: 0.01 * noise * times(at), ..Step::one() }
        };
        let mut found: Vec<Found> = (0..8)
            .map(|run| Found { steps: (200 * run..200 * run + 200).map(step).collect(), ..Found::default() })
            .collect();
        assign_windows(&mut found);
        found
    }

    #[test]
    fn slow_windows_are_a_slowdown_and_noise_is_not() {
        let costs = Costs { fixed: Estimate { value: 0.01, half: 0.0 }, ..Costs::default() };
        let of = |found: &[Found]| {
            let steps: Vec<Step> = found.iter().flat_map(|run| run.steps.iter().copied()).collect();
            let noise = noise(&steps, &costs);
            assert!((0.02..0.06).contains(&noise), "{noise}");
            estimate(found, &costs, noise)
        };
        assert_eq!(of(&runs(|_| 1.0)), None);
        // A quarter of the steps, in runs of a hundred, which is a second or more.
        let slowdown = of(&runs(|at| if at / 100 % 4 == 3 { 1.6 } else { 1.0 })).unwrap();
        let mean = slowdown.factors.iter().sum::<f64>() / slowdown.factors.len() as f64;
        // They take a third of the time.
        assert!((mean - 1.21).abs() < 0.03 && slowdown.factors[9] > 1.4 && slowdown.factors[4] < 1.1, "{slowdown:?}");
        assert!((0.3..4.0).contains(&slowdown.seconds), "{slowdown:?}");
    }
}
