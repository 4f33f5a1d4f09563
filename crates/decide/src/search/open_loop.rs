//! The rate at which a latency just meets its target. Near capacity every queue has the same form (heavy traffic): a
//! zero-load part, and one that grows as the reciprocal of the spare capacity. A load that was not sustained only
//! bounds the capacity.

use super::Measurement;
use super::posterior::{CURVE_MISFIT, ERROR_SCALE_GRID, ErrorModel, Posterior, log_student, log_sum_exp, quantiles};

/// Prior grid of the zero-load latency, as a fraction of the target.
const ZERO_LOAD_GRID: [f64; 9] = [0.02, 0.15, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9];
/// Prior grid of the initialization bias (a run starts on an idle server and has too few of the rare long queues), as a
/// multiple of that of a single queue, with log weights.
const INITIALIZATION_BIAS_GRID: [(f64, f64); 4] = [(0.0, -1.0), (0.7, 0.0), (1.4, 0.0), (2.1, -1.0)];
/// Prior grid of the capacity around the observed one, in its standard errors.
const CAPACITY_GRID: [f64; 7] = [-2.5, -1.5, -0.75, 0.0, 0.75, 1.5, 2.5];
/// Prior grid of the capacity as a multiple of the largest load, if no load was too large.
const UNSEEN_CAPACITY_GRID: [f64; 8] = [1.02, 1.06, 1.12, 1.25, 1.5, 2.0, 3.0, 6.0];
/// Queue lengths are autocorrelated, so the error falls slower than with the square root of the length.
const ERRORS: ErrorModel = ErrorModel { exponent: 0.25, floor: 0.02, skew: 1.5 };
/// Error of a long-run latency that follows from the arrivals alone: ranges of a minute then hold the capacity in 219 of 222
/// searches on the twenty simulated queues of `run/tests/sla_search/tables.rs`.
const LONG_RUN_ERROR: f64 = 0.18;
/// The log likelihood of a practically impossible observation.
const IMPOSSIBLE: f64 = -8.0;
/// Queueing beyond this multiple of the target is treated as unbounded.
const MAX_QUEUEING: f64 = 50.0;
/// The logistic curve of this slope approximates the normal distribution (Haley 1952).
const LOGISTIC_SLOPE: f64 = 1.702;
/// Relaxation time of a queue, times its idle fraction, over its 99th percentile: 4 / ln 100 of the M/M/1 queue near
/// capacity.
const RELAXATION: f64 = 0.87;

/// Posterior of the rate that meets the target; `limit` is the allowed latency in seconds. `None` without a run.
pub(super) fn posterior(runs: &[Measurement], limit: f64) -> Option<Posterior> {
    let capacities = capacities(runs)?;
    let evidence = evidence(runs, limit);
    let max = runs.iter().map(|run| run.level).reduce(f64::max)?;
    let min = runs.iter().map(|run| run.level).reduce(f64::min)?;
    let largest = capacities.iter().map(|capacity| capacity.0).fold(0.0, f64::max);
    quantiles(0.3 * min, largest.min(2.0 * max), |load| log_likelihood(load, &capacities, &evidence))
}

/// Capacities of the server with their log weights: its throughput at loads that were too large.
fn capacities(runs: &[Measurement]) -> Option<Vec<(f64, f64)>> {
    let max = runs.iter().map(|run| run.level).reduce(f64::max)?;
    Some(match capacity(runs) {
        Some((mean, error)) => CAPACITY_GRID.iter().map(|off| (mean + off * error, -0.5 * off * off)).collect(),
        None => UNSEEN_CAPACITY_GRID.iter().map(|times| (max * times, 0.0)).collect(),
    })
}

/// The throughput at loads that were too large, and its standard error.
pub(super) fn capacity(runs: &[Measurement]) -> Option<(f64, f64)> {
    let sustained = runs.iter().filter(|run| run.sustained).map(|run| run.completed_rate).fold(0.0, f64::max);
    // Less than was sustained at another load is an outlier.
    let over = || runs.iter().filter(|run| !run.sustained && run.completed_rate > 0.9 * sustained);
    let seconds: f64 = over().map(|run| run.seconds).sum();
    let completed: f64 = over().map(|run| run.seconds * run.completed_rate).sum();
    let mean = completed / seconds;
    (completed > 0.0).then(|| (mean, mean * (1.5 / completed.sqrt()).max(0.01)))
}

/// A run with its error.
struct Evidence {
    arrival_rate: f64,
    log_ratio: f64,
    sustained: bool,
    error: f64,
    /// Relaxation times, during the run, of a queue that alone takes all of the target, divided by the idle fraction.
    relaxations: f64,
    /// The part of the initialization bias that it has.
    biased: f64,
}

fn evidence(runs: &[Measurement], limit: f64) -> Vec<Evidence> {
    let error = ERRORS.of(runs);
    let one = |run: &Measurement| {
        let explained = run.long_run.filter(|_| run.sustained).map_or(0.0, |long| long.explained);
        Evidence {
            arrival_rate: run.level * explained + run.arrival_rate * (1.0 - explained),
            log_ratio: run.ratio().max(1e-6).ln(),
            sustained: run.sustained,
            error: long_run_error(error(run.seconds), explained),
            relaxations: run.seconds / (RELAXATION * limit),
            biased: 1.0 - explained,
        }
    };
    runs.iter().map(one).collect()
}

/// The error of a run that is free of this part of its variance.
fn long_run_error(error: f64, explained: f64) -> f64 {
    let floor = if explained > 0.0 { LONG_RUN_ERROR } else { 0.0 };
    (error * (1.0 - explained).sqrt()).hypot(floor).min(error)
}

/// The log likelihood of all runs if the target is met at a load.
fn log_likelihood(load: f64, capacities: &[(f64, f64)], evidence: &[Evidence]) -> f64 {
    let mut logs = Vec::new();
    for &(capacity, prior) in capacities.iter().filter(|capacity| capacity.0 > load) {
        for zero_load in ZERO_LOAD_GRID {
            let by_curve = prior + 2.0 * (1.0 - zero_load).ln();
            let each = Curve { capacity, zero_load, load }.log_likelihoods(evidence);
            for (each, (_, by_scale)) in each.into_iter().zip(ERROR_SCALE_GRID) {
                let each = each.into_iter().zip(INITIALIZATION_BIAS_GRID);
                logs.extend(each.map(|(log, (_, by_bias))| by_curve + by_scale + by_bias + log));
            }
        }
    }
    log_sum_exp(&logs)
}

/// Latency against load.
struct Curve {
    capacity: f64,
    zero_load: f64,
    /// The load at which the target is met.
    load: f64,
}

impl Curve {
    /// The log likelihoods of all runs, by error scale and initialization bias.
    fn log_likelihoods(&self, runs: &[Evidence]) -> [[f64; INITIALIZATION_BIAS_GRID.len()]; ERROR_SCALE_GRID.len()] {
        let mut sums = [[0.0; INITIALIZATION_BIAS_GRID.len()]; ERROR_SCALE_GRID.len()];
        for run in runs {
            let queueing = self.queueing(run);
            let expected = INITIALIZATION_BIAS_GRID.map(|(bias, _)| self.expected(run, queueing, bias));
            let misfit = CURVE_MISFIT * (self.zero_load + queueing).ln();
            for (sums, (scale, _)) in sums.iter_mut().zip(ERROR_SCALE_GRID) {
                let deviation = (run.error * scale).hypot(misfit);
                sums.iter_mut()
                    .zip(expected)
                    .for_each(|(sum, expected)| *sum += self.log_likelihood(run, expected, deviation));
            }
        }
        sums
    }

    /// Returns whether the arrival rate of a run exceeds the capacity.
    fn is_overloaded(&self, run: &Evidence) -> bool {
        self.capacity - run.arrival_rate < 0.001 * self.capacity
    }

    /// The queueing part of the latency of an infinite run, as a fraction of the target.
    fn queueing(&self, run: &Evidence) -> f64 {
        if self.is_overloaded(run) {
            return MAX_QUEUEING;
        }
        ((1.0 - self.zero_load) * (self.capacity - self.load) / (self.capacity - run.arrival_rate)).min(MAX_QUEUEING)
    }

    /// The expected log latency of a run. The bias affects the queueing part; a shorter queue forgets its initial
    /// state sooner.
    fn expected(&self, run: &Evidence, queueing: f64, bias: f64) -> f64 {
        let idle = (1.0 - self.load / self.capacity).clamp(0.005, 0.7);
        let relaxations = run.relaxations * idle / (1.0 - self.zero_load);
        (self.zero_load + queueing * (-bias * run.biased * initialization_bias(relaxations)).exp()).ln()
    }

    fn log_likelihood(&self, run: &Evidence, expected: f64, deviation: f64) -> f64 {
        if self.is_overloaded(run) && run.sustained {
            return IMPOSSIBLE;
        }
        let residual = (run.log_ratio - expected) / deviation;
        if run.sustained {
            log_student(residual, deviation)
        } else {
            // The latency of a load that was not sustained is censored by the length of the run.
            -(1.0 + (LOGISTIC_SLOPE * residual).exp()).ln().min(-IMPOSSIBLE)
        }
    }
}

/// The bias of the log of a far percentile in a run of this many relaxation times that starts on an idle server: a
/// fit to simulated queues of several kinds.
fn initialization_bias(relaxations: f64) -> f64 {
    6.0 / (relaxations + 5.5)
}

#[cfg(test)]
mod tests {
    use super::super::LongRunRatio;
    use super::*;

    /// A server of 100 requests per second that meets its target at 80.
    fn run(level: f64, seconds: f64) -> Measurement {
        let left = 100.0 - level;
        let margin = if left > 0.0 { 0.1 + 0.9 * 20.0 / left - 1.0 } else { 19.0 };
        let (completed_rate, sustained) = (level.min(100.0), left > 0.0);
        let exact = Measurement::exact(level, true);
        Measurement { seconds, margin, error: Some(0.1), sustained, completed_rate, ..exact }
    }

    #[test]
    fn the_runs_of_a_queue_say_where_its_target_is_met() {
        let runs: Vec<Measurement> = [70.0, 76.0, 79.0, 83.0, 87.0, 130.0].map(|level| run(level, 2000.0)).to_vec();
        let found = posterior(&runs, 0.2).unwrap();
        assert!((found.median - 80.0).abs() < 1.5, "{found:?}");
        assert!(found.low < 80.0 && found.high > 80.0 && found.high - found.low < 12.0, "{found:?}");
        let fewer = posterior(&runs[1..3], 0.2).unwrap();
        assert!(fewer.high - fewer.low > found.high - found.low, "{fewer:?}");
        assert_eq!(posterior(&[], 0.2), None);
    }

    #[test]
    fn what_the_arrivals_explain_narrows_the_range() {
        // By chance all latencies are 40% too low.
        let lucky = |level: f64| {
            let run = run(level, 20.0);
            Measurement { margin: 0.6 * run.ratio() - 1.0, error: Some(0.4), ..run }
        };
        let with = |runs: [Measurement; 4]| posterior(&[&runs[..], &[run(110.0, 20.0)]].concat(), 0.2).unwrap();
        let levels = [74.0, 78.0, 82.0, 85.0];
        let plain = with(levels.map(lucky));
        let long_run = |level: f64| Some(LongRunRatio { ratio: run(level, 20.0).ratio(), explained: 0.99 });
        let found = with(levels.map(|level| Measurement { long_run: long_run(level), ..lucky(level) }));
        assert!((found.median - 80.0).abs() < 1.5 && plain.median > 82.0, "{found:?} {plain:?}");
        assert!(found.high - found.low < 0.6 * (plain.high - plain.low), "{found:?} {plain:?}");
        // A load that was not sustained has none.
        let broken = |long_run| [70.0, 78.0, 110.0].map(|level| Measurement { long_run, ..run(level, 100.0) });
        let low = Some(LongRunRatio { ratio: 0.1, explained: 1.0 });
        let [sustained, _, overloaded] = broken(low);
        assert_eq!((sustained.ratio(), overloaded.ratio()), (0.1, 20.0));
    }

    #[test]
    fn one_outlier_does_not_decide() {
        let mut runs: Vec<Measurement> =
            [60.0, 70.0, 76.0, 78.0, 83.0, 87.0, 130.0].map(|level| run(level, 2000.0)).to_vec();
        let before = posterior(&runs, 0.2).unwrap();
        runs[1].margin = 10.0 * runs[1].ratio() - 1.0;
        let after = posterior(&runs, 0.2).unwrap();
        assert!((after.median / before.median - 1.0).abs() < 0.05, "{before:?} {after:?}");
        runs[1] = Measurement { sustained: false, completed_rate: 20.0, ..runs[1] };
        let after = posterior(&runs, 0.2).unwrap();
        assert!((after.median / before.median - 1.0).abs() < 0.05, "{before:?} {after:?}");
    }

    #[test]
    fn a_load_that_was_not_sustained_is_too_large() {
        let runs = [run(60.0, 100.0), run(110.0, 100.0)];
        let found = posterior(&runs, 0.2).unwrap();
        assert!(found.high <= 106.0 && found.median > 60.0 && found.median < 100.0, "{found:?}");
    }
}
