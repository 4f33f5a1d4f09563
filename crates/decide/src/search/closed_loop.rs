//! The largest number of users that meets a latency target. Each waits for a response, so that the queue is bounded:
//! latency grows with an unknown power of the number of users. It may also rise in a step, where one more user needs one more
//! batch: then no run shows a latency near the target.

use super::Measurement;
use super::posterior::{CURVE_MISFIT, ERROR_SCALE_GRID, ErrorModel, Posterior, log_student, log_sum_exp, quantiles};

/// Prior grid of the power, from an almost constant TPOT to a queue.
const POWER_GRID: [f64; 9] = [0.1, 0.2, 0.4, 0.7, 1.0, 1.4, 2.0, 3.0, 5.0];
/// Prior grid of the step from the target down to the latency just below the capacity and up to the one just above it, as
/// logarithms of latency with log weights.
const STEP_GRID: [(f64, f64); 3] = [(0.0, 0.0), (0.1, -1.5), (0.3, -1.5)];
const ERRORS: ErrorModel = ErrorModel { exponent: 0.5, floor: 0.01, skew: 1.2 };

/// Posterior of the number of users that meets the target; `None` without a run.
pub(super) fn posterior(runs: &[Measurement]) -> Option<Posterior> {
    let levels = || runs.iter().map(|run| run.level);
    let (min, max) = (levels().reduce(f64::min)?, levels().reduce(f64::max)?);
    let error = ERRORS.of(runs);
    quantiles(0.3 * min, 2.0 * max, |users| log_likelihood(users, runs, &error))
}

/// The log likelihood of all runs if the target is met by this many users.
fn log_likelihood(users: f64, runs: &[Measurement], error: &dyn Fn(f64) -> f64) -> f64 {
    let mut logs = Vec::new();
    for power in POWER_GRID {
        for (down, rare_down) in STEP_GRID {
            for (up, rare_up) in STEP_GRID {
                for (scale, prior) in ERROR_SCALE_GRID {
                    let one = |run: &Measurement| {
                        let step = if run.level > users { up } else { -down };
                        let expected = power * (run.level / users).ln() + step;
                        let deviation = (error(run.seconds) * scale).hypot(CURVE_MISFIT * expected);
                        log_student((run.ratio().max(1e-6).ln() - expected) / deviation, deviation)
                    };
                    logs.push(prior + rare_down + rare_up + runs.iter().map(one).sum::<f64>());
                }
            }
        }
    }
    log_sum_exp(&logs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(level: f64, ratio: f64) -> Measurement {
        let (completed_rate, margin) = (50.0, ratio - 1.0);
        let exact = Measurement::exact(level, true);
        Measurement { seconds: 20.0, margin, error: Some(0.03), completed_rate, ..exact }
    }

    #[test]
    fn users_whose_latency_grows_with_them_are_found() {
        for power in [0.3, 1.0, 1.8] {
            let runs = [20.0, 35.0, 38.0, 42.0, 60.0].map(|level: f64| run(level, (level / 40.0).powf(power)));
            let found = posterior(&runs).unwrap();
            assert!((found.median - 40.0).abs() < 1.5 && found.low < 40.0 && found.high > 40.0, "{power}: {found:?}");
        }
        assert_eq!(posterior(&[]), None);
    }

    /// Batches of 32: 228 of 250 ms at 89 users, 242 at 96 and 356 at 98.
    #[test]
    fn the_range_of_a_step_reaches_from_the_last_pass_to_the_first_failure() {
        let latency = |level: f64| if level <= 96.0 { 0.968 * (level / 96.0) } else { 1.424 * (level / 97.0) };
        let runs = [50.0, 75.0, 83.0, 83.0, 89.0, 98.0, 98.0, 113.0].map(|level| run(level, latency(level)));
        let exact = runs.map(|run| Measurement { error: Some(0.0), ..run });
        let found = posterior(&exact).unwrap();
        assert!(found.low < 92.0 && found.low > 86.0 && found.high > 96.0 && found.high < 100.0, "{found:?}");
    }

    #[test]
    fn one_outlier_among_users_does_not_decide() {
        let mut runs = [20.0, 30.0, 35.0, 38.0, 42.0, 45.0, 60.0].map(|level| run(level, level / 40.0));
        runs[1] = run(30.0, 6.0);
        let found = posterior(&runs).unwrap();
        assert!((found.median / 40.0 - 1.0).abs() < 0.05, "{found:?}");
    }
}
