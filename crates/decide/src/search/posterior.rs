//! A Bayesian posterior of the load at which the target is met, by grid evaluation: each curve of a prior grid counts by
//! the likelihood of all runs under it (Student's t, so that an outlier run has little weight).
//!
//! The grids and error constants of this search have one source: they were chosen on the simulated queues of
//! `run/tests/sla_search.rs` (seeds 1 to 100) and checked on seeds from 30001 on; `docs/explanation/validation.md` has both tables.

use super::Measurement;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Posterior {
    pub(super) median: f64,
    /// 2.5%.
    pub(super) low: f64,
    /// 97.5%.
    pub(super) high: f64,
    /// 33%: below the median, where the next run gives the most information.
    pub(super) below: f64,
    /// 67%.
    pub(super) above: f64,
    /// 10%: a load that very likely meets the target.
    pub(super) safe: f64,
}

impl Posterior {
    /// The same, if all loads up to this one meet the target.
    pub(super) fn at_least(self, load: f64) -> Self {
        let [median, low, high, below, above, safe] =
            [self.median, self.low, self.high, self.below, self.above, self.safe].map(|value| value.max(load));
        Posterior { median, low, high, below, above, safe }
    }
}

/// Prior grid of the true error over the claimed one, with log weights.
pub(super) const ERROR_SCALE_GRID: [(f64, f64); 4] = [(0.65, -0.7), (1.0, 0.0), (1.4, -0.2), (2.0, -1.0)];
/// Degrees of freedom of the likelihood: few, for heavy tails.
pub(super) const DEGREES_OF_FREEDOM: f64 = 5.0;
/// Misfit of a curve far from the target, as a fraction of the log distance.
pub(super) const CURVE_MISFIT: f64 = 0.2;
/// Relative error of a run if no run has an estimate.
const UNKNOWN_ERROR: f64 = 0.2;
/// Runs within this factor of the target determine the error at the target.
const NEAR_TARGET: f64 = 1.8;
/// Loads evaluated per round.
const GRID_STEPS: usize = 60;
/// Number of rounds, each on a narrower range.
const GRID_ROUNDS: usize = 3;

/// Quantiles of a log density, evaluated between two loads.
pub(super) fn quantiles(mut from: f64, mut to: f64, log_density: impl Fn(f64) -> f64) -> Option<Posterior> {
    let mut found = None;
    for _ in 0..GRID_ROUNDS {
        let width = (to - from) / GRID_STEPS as f64;
        let loads: Vec<f64> = (0..GRID_STEPS).map(|at| from + (at as f64 + 0.5) * width).collect();
        let logs: Vec<f64> = loads.iter().map(|&load| log_density(load)).collect();
        let top = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let masses: Vec<f64> = logs.iter().map(|log| (log - top).exp()).collect();
        let at = |fraction: f64| quantile(fraction, &masses, from, width);
        found = Some(Posterior {
            median: at(0.5),
            low: at(0.025),
            high: at(0.975),
            below: at(0.33),
            above: at(0.67),
            safe: at(0.1),
        });
        (from, to) = ((at(0.0005) - width).max(0.0), at(0.9995) + width);
    }
    found
}

/// The load below which this fraction of the mass lies.
fn quantile(fraction: f64, masses: &[f64], from: f64, width: f64) -> f64 {
    let wanted = fraction * masses.iter().sum::<f64>();
    let mut sum = 0.0;
    for (at, mass) in masses.iter().enumerate() {
        if sum + mass >= wanted && *mass > 0.0 {
            return from + width * (at as f64 + (wanted - sum) / mass);
        }
        sum += mass;
    }
    from + width * masses.len() as f64
}

/// The log of the sum of exponentials.
pub(super) fn log_sum_exp(logs: &[f64]) -> f64 {
    let top = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if top.is_finite() { top + logs.iter().map(|log| (log - top).exp()).sum::<f64>().ln() } else { top }
}

/// The log likelihood of a standardized residual under Student's t.
pub(super) fn log_student(residual: f64, deviation: f64) -> f64 {
    -0.5 * (DEGREES_OF_FREEDOM + 1.0) * (1.0 + residual * residual / DEGREES_OF_FREEDOM).ln() - deviation.ln()
}

/// The error of a run as a function of its duration.
pub(super) struct ErrorModel {
    /// The error falls with this power of the duration: 0.5 without autocorrelation.
    pub(super) exponent: f64,
    /// Smallest error of a run.
    pub(super) floor: f64,
    /// Ratio of the upper to the lower side's error; the reported error is that of the lower side.
    pub(super) skew: f64,
}

impl ErrorModel {
    /// The error of a run by its duration. All runs near the target share one error, because the estimate of a single
    /// run is biased: the lower its latencies by chance, the smaller its error.
    pub(super) fn of(self, runs: &[Measurement]) -> impl Fn(f64) -> f64 {
        let near = |run: &&Measurement| run.sustained && run.ratio() < NEAR_TARGET && run.ratio() > 1.0 / NEAR_TARGET;
        let claimed = runs.iter().filter(near).filter_map(|run| {
            Some(run.error?.max(self.floor / 2.0) * run.seconds.powf(self.exponent)).filter(|error| error.is_finite())
        });
        let mut claimed: Vec<f64> = claimed.collect();
        claimed.sort_unstable_by(f64::total_cmp);
        let middle = claimed.get(claimed.len() / 2).copied();
        move |seconds: f64| {
            let error = middle.map(|middle| (middle * seconds.powf(-self.exponent)).max(self.floor));
            self.skew * error.unwrap_or(UNKNOWN_ERROR)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_a_normal_density() {
        let found = quantiles(10.0, 90.0, |load| -0.5 * ((load - 50.0) / 5.0).powi(2)).unwrap();
        let Posterior { median, low, high, below, above, safe } = found;
        // 1.95996, 0.43991 and 1.28155 standard deviations of 5 around 50.
        let wanted = [50.0, 40.2, 59.8, 47.8, 52.2, 43.592];
        for (found, wanted) in [median, low, high, below, above, safe].into_iter().zip(wanted) {
            assert!((found - wanted).abs() < 0.05, "{found} {wanted}");
        }
    }

    #[test]
    fn likelihoods_and_errors_are_those_worked_out_by_hand() {
        let close = |found: f64, wanted: f64| assert!((found - wanted).abs() < 1e-6, "{found} {wanted}");
        // -(5 + 1) / 2 · ln(1 + 1 / 5) - ln 2.
        close(log_student(1.0, 2.0), -0.546_965 - std::f64::consts::LN_2);
        close(log_sum_exp(&[0.0, 0.0, 2_f64.ln()]), 4_f64.ln());
        let run = |seconds: f64, error: f64, margin: f64| Measurement {
            seconds,
            error: Some(error),
            margin,
            ..Measurement::exact(10.0, true)
        };
        // The middle one of 0.1 · √4, 0.05 · √16 and 0.2 · √4 is 0.2; a run far from the target does not count.
        let runs = [run(4.0, 0.1, 0.0), run(16.0, 0.05, 0.5), run(4.0, 0.2, -0.4), run(4.0, 9.0, 0.9)];
        let error = |floor: f64| ErrorModel { exponent: 0.5, floor, skew: 1.5 }.of(&runs);
        close(error(0.01)(25.0), 1.5 * 0.2 / 5.0);
        close(error(0.1)(25.0), 1.5 * 0.1);
        close(ErrorModel { exponent: 0.5, floor: 0.1, skew: 1.5 }.of(&[])(25.0), 1.5 * 0.2);
    }
}
