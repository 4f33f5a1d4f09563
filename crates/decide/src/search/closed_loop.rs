//! The largest number of users that meets a latency target. Each waits for a response, so that the queue is bounded:
//! latency grows with an unknown power of the number of users.

use super::Measurement;
use super::posterior::{CURVE_MISFIT, ERROR_SCALE_GRID, ErrorModel, Posterior, log_student, log_sum_exp, quantiles};

/// Prior grid of the power, from an almost constant TPOT to a queue.
const POWER_GRID: [f64; 9] = [0.1, 0.2, 0.4, 0.7, 1.0, 1.4, 2.0, 3.0, 5.0];
const ERRORS: ErrorModel = ErrorModel { exponent: 0.5, floor: 0.01, skew: 1.2 };

/// Posterior of the number of users that meets the target; `None` without a run.
pub(super) fn posterior(runs: &[Measurement]) -> Option<Posterior> {
    let levels = || runs.iter().map(|run| run.level);
    let (least, most) = (levels().reduce(f64::min)?, levels().reduce(f64::max)?);
    let error = ERRORS.of(runs);
    quantiles(0.3 * least, 2.0 * most, |users| log_likelihood(users, runs, &error))
}

/// The log likelihood of all runs if the target is met by this many users.
fn log_likelihood(users: f64, runs: &[Measurement], error: &dyn Fn(f64) -> f64) -> f64 {
    let mut logs = Vec::new();
    for power in POWER_GRID {
        for (scale, prior) in ERROR_SCALE_GRID {
            let one = |run: &Measurement| {
                let expected = power * (run.level / users).ln();
                let deviation = (error(run.seconds) * scale).hypot(CURVE_MISFIT * expected);
                log_student((run.ratio().max(1e-6).ln() - expected) / deviation, deviation)
            };
            logs.push(prior + runs.iter().map(one).sum::<f64>());
        }
    }
    log_sum_exp(&logs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(level: f64, ratio: f64) -> Measurement {
        let (arrival_rate, completed_rate, margin) = (level, 50.0, ratio - 1.0);
        Measurement { level, arrival_rate, seconds: 20.0, margin, error: Some(0.03), sustained: true, completed_rate }
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

    #[test]
    fn one_outlier_among_users_does_not_decide() {
        let mut runs = [20.0, 30.0, 35.0, 38.0, 42.0, 45.0, 60.0].map(|level| run(level, level / 40.0));
        runs[1] = run(30.0, 6.0);
        let found = posterior(&runs).unwrap();
        assert!((found.median / 40.0 - 1.0).abs() < 0.05, "{found:?}");
    }
}
