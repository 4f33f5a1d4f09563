//! The sampling distribution of a statistic of one run's requests, from that run alone. The values come in units of time (a
//! request, or all token events of a time slice), and the autocorrelation from unit to unit is respected. Percentiles get the
//! binomial interval of order statistics, with the effective sample size in place of the number of values.

use super::distribution::{beta_quantile, binomial_quantile, student};
use super::long_run_variance::{REGRESSION_BIAS, cautious_long_run_variance, long_run_variance, remove_control};
use crate::percentile::percentile;
use crate::statistics::{Statistic, mean, standard_deviation};

/// Most units of a series; more are joined with their neighbors, which loses nothing because correlation lasts longer.
const MAX_UNITS: usize = 2000;
/// With fewer independent values beyond it, the upper bound of a percentile is extrapolated from the tail.
const MIN_BEYOND: f64 = 6.0;
/// Furthest extrapolation of a tail, in multiples of the largest value.
const MAX_EXTRAPOLATION: f64 = 4.0;
/// Continuity correction of an order statistic's rank.
const RANK_CORRECTION: f64 = 0.4;
/// The fraction of values that counts as the tail.
const TAIL: f64 = 0.1;
/// Values whose autocorrelation inflates the variance by more than this factor are strongly correlated.
pub(super) const STRONG_CORRELATION: f64 = 5.0;
/// Least effective sample size of strongly correlated values for an upper bound: at 95% load of a single-server queue,
/// runs with fewer covered the true median in 80% of cases.
const MIN_EFFECTIVE: f64 = 15.0;

/// Values in time order.
#[derive(Debug, Clone, Default)]
pub struct Values {
    values: Vec<f64>,
    /// The unit of each value, ascending.
    units: Vec<u32>,
    /// A control variate: one value per unit whose sum over the run the plan fixed; empty where there is none.
    control: Vec<f64>,
}

impl Values {
    /// One value per unit.
    pub fn single(values: Vec<f64>) -> Self {
        let units = (0..values.len() as u32).collect();
        Values { values, units, control: Vec::new() }
    }

    /// Adds a control variate with one value per unit: the gaps between planned arrivals, whose sum is the same in
    /// every run of the plan. What they explain does not vary between runs and is removed from the error of means.
    pub fn with_control(self, control: Vec<f64>) -> Self {
        Values { control, ..self }
    }

    /// Values with the unit that each belongs to; units are consecutive.
    pub fn grouped(pairs: impl Iterator<Item = (f64, u32)>) -> Self {
        let (values, units) = pairs.unzip();
        Values { values, units, control: Vec::new() }
    }

    /// Values with their times, in any order. Units are equal slices of time, whose number of scheduled `arrivals` is
    /// the control variate.
    pub fn timed(mut pairs: Vec<(f64, f64)>, arrivals: &[f64]) -> Self {
        pairs.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
        let (first, last) = (pairs.first().map_or(0.0, |pair| pair.0), pairs.last().map_or(0.0, |pair| pair.0));
        let spans = (pairs.len() / 4).clamp(1, MAX_UNITS) as f64;
        let length = ((last - first) / spans).max(f64::MIN_POSITIVE);
        let unit = |time: f64| ((time - first) / length).min(spans - 1.0) as u32;
        let mut control = vec![0.0; if arrivals.is_empty() { 0 } else { spans as usize }];
        for arrival in arrivals {
            control[unit(arrival.max(first)) as usize] += 1.0;
        }
        Values {
            units: pairs.iter().map(|pair| unit(pair.0)).collect(),
            values: pairs.iter().map(|pair| pair.1).collect(),
            control,
        }
    }

    /// Number of values.
    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }

    /// Number of neighboring units that are joined.
    fn joined(&self) -> (usize, usize) {
        let units = self.units.last().map_or(0, |last| *last as usize + 1);
        let joined = units.div_ceil(MAX_UNITS).max(1);
        (units.div_ceil(joined), joined)
    }

    /// The sums of `score` by unit, around their mean.
    fn sums(&self, score: impl Fn(f64) -> f64) -> Vec<f64> {
        let (count, joined) = self.joined();
        let mut sums = vec![0.0; count];
        for (value, unit) in self.values.iter().zip(&self.units) {
            sums[*unit as usize / joined] += score(*value);
        }
        centered(sums)
    }

    /// The standard error of the mean of `score`, and its degrees of freedom.
    fn error(&self, score: impl Fn(f64) -> f64) -> (f64, f64) {
        let mut sums = self.sums(score);
        let joined = self.joined().1;
        let control = centered(self.control.chunks(joined).map(|part| part.iter().sum()).collect());
        let bias = if remove_control(&mut sums, &control) { REGRESSION_BIAS } else { 1.0 };
        let found = long_run_variance(&sums);
        self.standard_error(sums.len(), found.variance * bias, found.degrees_of_freedom)
    }

    /// The standard error without a control variate, cautious for strongly correlated values; `plain` is the error of
    /// independent values.
    fn cautious_error(&self, score: impl Fn(f64) -> f64, plain: f64) -> (f64, f64) {
        let sums = self.sums(score);
        let found = long_run_variance(&sums);
        let (error, degrees_of_freedom) = self.standard_error(sums.len(), found.variance, found.degrees_of_freedom);
        if (error / plain).powi(2) < STRONG_CORRELATION {
            return (error, degrees_of_freedom);
        }
        let found = cautious_long_run_variance(&sums);
        let (error, degrees_of_freedom) = self.standard_error(sums.len(), found.variance, found.degrees_of_freedom);
        (error * widened(degrees_of_freedom), degrees_of_freedom)
    }

    fn standard_error(&self, units: usize, variance: f64, degrees_of_freedom: f64) -> (f64, f64) {
        ((units as f64 * variance).sqrt() / self.values.len().max(1) as f64, degrees_of_freedom)
    }
}

fn centered(mut sums: Vec<f64>) -> Vec<f64> {
    let mean = mean(&sums);
    sums.iter_mut().for_each(|sum| *sum -= mean);
    sums
}

/// Ratio of the quantile of Student's t to the normal one at 95%.
fn widened(degrees_of_freedom: f64) -> f64 {
    student(0.95, degrees_of_freedom.max(2.0)) / student(0.95, f64::INFINITY)
}

/// The sampling distribution of one metric: bounds at any confidence. Values are positive.
#[derive(Debug, Clone)]
pub struct Spread {
    /// The metric.
    pub value: f64,
    /// Number of values it was computed from.
    pub count: usize,
    /// False where the run is too short for an upper bound.
    bounded: bool,
    shape: Shape,
}

#[derive(Debug, Clone)]
enum Shape {
    /// A relative standard error. In queues it grows with the square of the mean: the reciprocal is symmetric.
    Smooth { error: f64, degrees_of_freedom: f64 },
    /// Sorted values and their effective sample size.
    Ordered { sorted: Vec<f64>, share: f64, independent: f64, tail: f64 },
}

impl Spread {
    /// The sampling distribution of a statistic of `values`; `None` for fewer than two.
    pub fn of(values: &Values, statistic: Statistic) -> Option<Self> {
        let count = values.len();
        if count < 2 {
            return None;
        }
        let mean = mean(&values.values);
        let smooth = |value: f64, (error, degrees_of_freedom): (f64, f64), slope: f64| Spread {
            value,
            count,
            bounded: true,
            shape: Shape::Smooth { error: error * slope / value, degrees_of_freedom },
        };
        Some(match statistic {
            Statistic::Mean => smooth(mean, values.error(|value| value - mean), 1.0),
            Statistic::Deviation => {
                let square = |value: f64| (value - mean) * (value - mean);
                let variance = values.values.iter().map(|&value| square(value)).sum::<f64>() / count as f64;
                let deviation = variance.sqrt();
                smooth(deviation, values.error(|value| square(value) - variance), 0.5 / deviation)
            }
            Statistic::Percentile(percent) => Self::ordered(values, percent),
        })
    }

    /// A rate from the amounts of equal spans of a run's time.
    pub fn rate(amounts: &[f64], duration: f64, count: usize) -> Option<Self> {
        let total: f64 = amounts.iter().sum();
        let value = total / duration;
        if amounts.len() < 4 || total <= 0.0 {
            return None;
        }
        // Differences of neighbours exclude the ramp-up and the drain of a run, which are not random.
        let squares: f64 = amounts.windows(2).map(|pair| (pair[1] - pair[0]).powi(2)).sum();
        let variance = squares / (2.0 * (amounts.len() - 1) as f64);
        let error = (variance * amounts.len() as f64).sqrt() / total;
        let degrees_of_freedom = (amounts.len() - 1) as f64 * 2.0 / 3.0;
        Some(Spread { value, count, bounded: true, shape: Shape::Smooth { error, degrees_of_freedom } })
    }

    /// A rate from the contribution and duration of each session, in the order of their starts. With a fixed number of
    /// users, the rate is the contribution per second of session. With scheduled starts, only the end of the last
    /// session is random. The rows do not say which applies: the wider interval is used.
    pub fn rate_of_sessions(amounts: &[f64], held: &[f64], duration: f64) -> Option<Self> {
        let (total, time): (f64, f64) = (amounts.iter().sum(), held.iter().sum());
        if amounts.len() < 2 || total <= 0.0 || time <= 0.0 || duration <= 0.0 {
            return None;
        }
        let residuals = amounts.iter().zip(held).map(|(amount, held)| amount - total / time * held);
        let found = long_run_variance(&residuals.collect::<Vec<f64>>());
        let closed = (amounts.len() as f64 * found.variance).sqrt() / total;
        let last = standard_deviation(held) / duration;
        let degrees_of_freedom = found.degrees_of_freedom.min((amounts.len() - 1) as f64);
        let shape = Shape::Smooth { error: closed.max(last), degrees_of_freedom };
        Some(Spread { value: total / duration, count: amounts.len(), bounded: true, shape })
    }

    /// A rate that a schedule fixed: `total` in a time that ends with the last response. Only the drain is random: the
    /// time from the last arrival to the last response. Its variation is estimated from the run, as if it had ended
    /// with each of its requests. `ends` are the scheduled and the completion times, in schedule order.
    pub fn scheduled(total: f64, ends: &[(f64, f64)], duration: f64) -> Option<Self> {
        if total <= 0.0 || duration <= 0.0 || ends.len() < 2 {
            return None;
        }
        let mut last = f64::NEG_INFINITY;
        let drains = ends.iter().map(|(scheduled, done)| {
            last = last.max(*done);
            last - scheduled
        });
        let error = standard_deviation(&drains.collect::<Vec<f64>>()) / duration;
        let degrees_of_freedom = (ends.len() - 1) as f64;
        let shape = Shape::Smooth { error, degrees_of_freedom };
        Some(Spread { value: total / duration, count: ends.len(), bounded: true, shape })
    }

    fn ordered(values: &Values, percent: f64) -> Self {
        let share = percent / 100.0;
        let mut sorted = values.values.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        // By how much autocorrelation inflates the variance of the number of values below a percentile.
        let factor = |share: f64| {
            let threshold = percentile(&sorted, share * 100.0);
            let below = sorted.partition_point(|&value| value <= threshold) as f64 / sorted.len() as f64;
            let plain = (below * (1.0 - below) / sorted.len() as f64).sqrt();
            if plain <= 0.0 {
                return 1.0;
            }
            let (error, degrees_of_freedom) =
                values.cautious_error(|value| f64::from(u8::from(value <= threshold)) - below, plain);
            if error <= 0.0 {
                return 1.0;
            }
            let factor = (error / plain).powi(2);
            // Far out few values show the correlation, and its estimate is uncertain.
            let uncertain = factor * widened(degrees_of_freedom).powf(8.0 * (share - 0.5).abs());
            // A queue exceeds a far percentile in few bursts of many requests; their number limits the precision of the
            // estimate. Independent values are exempt.
            let bursts = sorted.len() as f64 * share.min(1.0 - share) / factor.max(1.0);
            let burst = 1.0 + (factor - 1.0) * widened(bursts).powi(2);
            uncertain.max(burst).max(0.5)
        };
        let own = factor(share);
        let edge = if share > 1.0 - TAIL { factor(1.0 - TAIL) } else { own };
        let independent = (sorted.len() as f64 / own).max(2.0);
        let bounded = own < STRONG_CORRELATION || independent >= MIN_EFFECTIVE;
        Spread {
            value: percentile(&sorted, percent),
            count: values.len(),
            bounded,
            shape: Shape::Ordered { share, independent, tail: edge.max(1.0), sorted },
        }
    }

    /// The effective sample size of a percentile of strongly correlated values, where it is too small for an upper bound.
    pub fn too_correlated(&self) -> Option<f64> {
        match &self.shape {
            Shape::Ordered { independent, .. } if !self.bounded => Some(*independent),
            _ => None,
        }
    }

    /// Withholds the upper bound.
    pub fn unbounded(self) -> Self {
        Spread { bounded: false, ..self }
    }

    /// Scales the unit.
    pub fn times(mut self, scale: f64) -> Self {
        self.value *= scale;
        if let Shape::Ordered { sorted, .. } = &mut self.shape {
            sorted.iter_mut().for_each(|value| *value *= scale);
        }
        self
    }

    /// The bounds at a confidence level, as they would be with `data` times as much data; the upper one may be
    /// infinite.
    pub fn bounds(&self, confidence: f64, data: f64) -> (f64, f64) {
        let (low, high) = match &self.shape {
            Shape::Smooth { error, degrees_of_freedom } => {
                let half = student(confidence, degrees_of_freedom * data) * error / data.sqrt();
                let high = if half < 1.0 { self.value / (1.0 - half) } else { f64::INFINITY };
                (self.value / (1.0 + half), high)
            }
            Shape::Ordered { sorted, share, independent, tail } => {
                let outside = (1.0 - confidence) / 2.0;
                let independent = independent * data;
                let below = independent * share;
                let at = |share: f64| percentile(sorted, share * 100.0);
                let count = |likely: f64| binomial_quantile(likely, independent, *share);
                let upper = if independent * (1.0 - share) < MIN_BEYOND {
                    let high = beta_quantile(1.0 - outside, below + 1.0, (independent - below).max(1e-3));
                    at(high).max(continued(sorted, 1.0 - high, *tail))
                } else {
                    at((count(1.0 - outside) + RANK_CORRECTION) / independent)
                };
                let low = count(outside) / independent;
                (at(low).min(self.value), upper.max(self.value))
            }
        };
        (low, if self.bounded || data > 1.0 { high } else { f64::INFINITY })
    }
}

/// The value that a fraction `rest` of all values exceeds: Weissman's estimator (1978) with Hill's exponent, which is raised by
/// half its standard error. `correlation` is the inflation of the tail's variance.
fn continued(sorted: &[f64], rest: f64, correlation: f64) -> f64 {
    let count = sorted.len();
    let tail = ((count as f64 * TAIL) as usize).max(5).min(count / 2);
    let edge = sorted[count - tail - 1].max(f64::MIN_POSITIVE);
    let exponent = sorted[count - tail..].iter().map(|value| (value / edge).ln()).sum::<f64>() / tail as f64;
    let doubt = 1.0 + 0.5 * (correlation / tail as f64).sqrt().min(1.0);
    let value = edge * (tail as f64 / count as f64 / rest.max(1e-12)).max(1.0).powf(exponent * doubt);
    if value > MAX_EXTRAPOLATION * sorted[count - 1] { f64::INFINITY } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scheduled_rate_is_as_sure_as_its_end() {
        let ends = |spread: f64| -> Vec<(f64, f64)> {
            (0..1000)
                .map(|at| (f64::from(at) * 0.1, f64::from(at) * 0.1 + 0.5 + f64::from(at * 7 % 10) * spread))
                .collect()
        };
        let width = |spread: f64| {
            let (low, high) = Spread::scheduled(1000.0, &ends(spread), 100.0).unwrap().bounds(0.95, 1.0);
            assert!(low > 9.98 && high < 10.02, "{low} {high}");
            high - low
        };
        // The last of many responses varies less than a response does.
        assert!(width(0.0) < 1e-9 && width(0.01) > 0.0 && width(0.05) < 4.0 * 10.0 * 0.144 / 100.0);
        let amounts: Vec<f64> = (0..40).map(|at| 25.0 + f64::from(at * 7 % 11) - 5.0).collect();
        let (low, high) = Spread::rate(&amounts, 100.0, 1000).unwrap().bounds(0.95, 1.0);
        assert!(low < 9.9 && high > 10.1, "{low} {high}");
    }

    #[test]
    fn more_data_narrows_and_few_values_continue_their_tail() {
        let values = Values::single((0..100).map(|at| 1.0 + f64::from(at * 37 % 100) / 100.0).collect());
        let spread = Spread::of(&values, Statistic::Percentile(99.0)).unwrap();
        let (_, once) = spread.bounds(0.95, 1.0);
        let (_, many) = spread.bounds(0.95, 50.0);
        assert!(once > 2.0 && once < 20.0 && many < once, "{once} {many}");
        assert!(Spread::of(&Values::single(vec![1.0]), Statistic::Mean).is_none());
    }

    #[test]
    fn token_times_are_grouped_in_slices() {
        let values = Values::timed((0..4000).map(|at| (f64::from(at % 40), 1.0)).collect(), &[]);
        assert_eq!((values.len(), values.units.last()), (4000, Some(&999)));
        let (low, high) = Spread::of(&values, Statistic::Mean).unwrap().bounds(0.95, 1.0);
        assert_eq!((low, high), (1.0, 1.0));
    }
}
