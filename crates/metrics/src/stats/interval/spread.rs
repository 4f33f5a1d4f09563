//! The sampling distribution of a statistic of one run's requests, from that run alone. The values come in units (requests or
//! sessions), in the order in which they were sent, and the autocorrelation from unit to unit is respected. Percentiles get the
//! binomial interval of order statistics, with the effective sample size in place of the number of values.

use std::sync::Arc;

use super::distribution::{beta_quantile, binomial_quantile, student};
use super::values::{Accuracy, MIN_EFFECTIVE, Values};
use super::{CONFIDENCE, long_run_variance::long_run_variance};
use crate::percentile::percentile;
use crate::statistics::{Statistic, mean, standard_deviation};

/// Continuity correction of an order statistic's rank.
const RANK_CORRECTION: f64 = 0.4;
/// The fraction of values that counts as the tail.
const TAIL: f64 = 0.1;
/// A run with fewer effective values beyond a percentile does not bound it from above, if they are correlated: up to the median,
/// above it, and in the tail. All of these limits were chosen by the grid of `tests/intervals.rs` of tacho-record.
const MIN_BEYOND: (f64, f64, f64) = (3.0, 10.0, 2.0);
/// Fewest values beyond a percentile whose variance is taken from the run.
const MIN_EVENTS: usize = 10;
/// Additional widening of percentiles in the tail of correlated values.
const TAIL_BIAS: f64 = 0.3;
/// Least effective sample size of strongly correlated goodput.
const MIN_SHARE: f64 = 150.0;
/// How much wider a bound is where the run is too short for the other one.
const ONE_SIDED: f64 = 2.0;
/// A percentile between two clusters of values jumps from one to the other: the largest gap between neighbors, as a fraction of
/// the interval, that is not yet such a jump.
const MAX_JUMP: f64 = 0.4;

/// The sampling distribution of one metric: bounds at any confidence. Values are positive.
#[derive(Debug, Clone)]
pub struct Spread {
    /// The metric.
    pub value: f64,
    /// Number of values it was computed from.
    pub count: usize,
    /// False where the run is too short for an upper bound.
    bounded: bool,
    /// Whether its bounds say too little to be reported.
    vague: bool,
    /// What an event that the run missed by chance could add.
    missed: f64,
    /// Metrics that are never smaller, and those that are never larger.
    above: Vec<Spread>,
    below: Vec<Spread>,
    shape: Shape,
}

#[derive(Debug, Clone)]
enum Shape {
    /// A relative standard error. In queues it grows with the square of the mean: the reciprocal is symmetric.
    Smooth { error: f64, degrees_of_freedom: f64 },
    /// Sorted values, their factor of the unit, and their effective sample sizes below and above.
    Ordered { sorted: Arc<[f64]>, scale: f64, share: f64, independent: (f64, f64) },
    /// A fraction of `independent` requests.
    Share { share: f64, independent: f64 },
}

impl Spread {
    fn new(value: f64, count: usize, shape: Shape) -> Self {
        Spread { value, count, bounded: true, vague: false, missed: 0.0, above: Vec::new(), below: Vec::new(), shape }
    }

    /// The sampling distribution of a statistic of `values`; `None` for fewer than two.
    pub fn of(values: &Values, statistic: Statistic) -> Option<Self> {
        let count = values.len();
        if count < 2 {
            return None;
        }
        let mean = mean(&values.values);
        let whole = values.accuracy();
        let smooth = |value: f64, found: Accuracy, slope: f64| {
            let error = found.error * found.widening() * slope / value;
            Spread::new(value, count, Shape::Smooth { error, degrees_of_freedom: found.degrees_of_freedom })
        };
        let spread = match statistic {
            Statistic::Mean => smooth(mean, whole, 1.0),
            Statistic::Deviation => {
                let square = |value: f64| (value - mean) * (value - mean);
                let variance = values.values.iter().map(|&value| square(value)).sum::<f64>() / count as f64;
                let deviation = variance.sqrt();
                smooth(deviation, values.error(|value| square(value) - variance), 0.5 / deviation)
            }
            Statistic::Percentile(percent) => Self::ordered(values, percent, &whole),
        };
        Some(Spread { bounded: spread.bounded && !whole.is_short(MIN_EFFECTIVE), ..spread })
    }

    /// A rate from the contribution and duration of each request or session, in the order of their starts. With a fixed number
    /// of users, the rate is the contribution per second in flight, and the end of the last one is random.
    pub fn rate_of_users(amounts: &[f64], held: &[f64], duration: f64) -> Option<Self> {
        let (total, time): (f64, f64) = (amounts.iter().sum(), held.iter().sum());
        if amounts.len() < 2 || total <= 0.0 || time <= 0.0 || duration <= 0.0 {
            return None;
        }
        let residuals = amounts.iter().zip(held).map(|(amount, held)| amount - total / time * held);
        let found = long_run_variance(&residuals.collect::<Vec<f64>>());
        let closed = (amounts.len() as f64 * found.variance).sqrt() / total;
        let error = closed.hypot(standard_deviation(held) / duration);
        let degrees_of_freedom = found.degrees_of_freedom.min((amounts.len() - 1) as f64);
        Some(Spread::new(total / duration, amounts.len(), Shape::Smooth { error, degrees_of_freedom }))
    }

    /// A rate that a schedule fixed: the sum of `amounts` in a time that ends with the last response. Random are the amounts
    /// and the drain: the time from the last arrival to the last response. Its variation is estimated from the run, as if it
    /// had ended with each of its requests. `ends` are the scheduled times and the completions without later arrivals.
    pub fn scheduled(amounts: &Values, ends: &[(f64, f64)], duration: f64) -> Option<Self> {
        let total: f64 = amounts.values.iter().sum();
        if total <= 0.0 || duration <= 0.0 || ends.len() < 2 {
            return None;
        }
        let mut last = f64::NEG_INFINITY;
        let drains = ends.iter().map(|(scheduled, done)| {
            last = last.max(*done);
            last - scheduled
        });
        let drains: Vec<f64> = drains.skip(amounts.edge).collect();
        let found = amounts.accuracy();
        let amount = found.error * amounts.len() as f64 / total;
        let shape = Shape::Smooth {
            error: amount.hypot(standard_deviation(&drains) / duration),
            degrees_of_freedom: found.degrees_of_freedom.min((ends.len() - 1) as f64),
        };
        Some(Spread::new(total / duration, ends.len(), shape))
    }

    /// The rate of the requests with a value of 1 among all, of which `throughput` is the rate.
    pub fn share_of(good: &Values, throughput: Spread) -> Option<Self> {
        let count = good.len();
        let share = mean(&good.values);
        if count < 2 || share <= 0.0 {
            return None;
        }
        let found = good.accuracy();
        let plain = (share * (1.0 - share) / count as f64).sqrt();
        let factor = (found.error / plain * found.widening() * students_ratio(found.degrees_of_freedom)).powi(2);
        let independent = if plain > 0.0 { count as f64 / factor.max(0.25) } else { count as f64 };
        // Requests that miss their SLO come in bursts; few of them show too little.
        let few = independent * share.min(1.0 - share) < MIN_BEYOND.1 && independent < 0.5 * count as f64;
        let few = few || found.is_short(MIN_SHARE);
        let spread = Spread::new(throughput.value * share, count, Shape::Share { share, independent });
        Some(Spread { vague: few || plain <= 0.0, above: vec![throughput], ..spread })
    }

    fn ordered(values: &Values, percent: f64, whole: &Accuracy) -> Self {
        let widening = whole.widening();
        let share = percent / 100.0;
        let count = values.len() as f64;
        let sorted = Arc::clone(values.sorted());
        // The effective sample size for the number of values below a quantile, and the correlation that it shows.
        let effective = |share: f64, widening: f64| {
            let threshold = percentile(&sorted, share.clamp(0.0, 1.0) * 100.0);
            let below = sorted.partition_point(|&value| value <= threshold) as f64 / count;
            let plain = (below * (1.0 - below) / count).sqrt();
            if plain <= 0.0 {
                return (f64::INFINITY, 1.0);
            }
            let found = values.error(|value| f64::from(u8::from(value <= threshold)) - below);
            // The variance of a few events may be small by chance: it is 0 where all of them are at the edges.
            let few = values.crossings(threshold) < MIN_EVENTS;
            let min_factor = if few { whole.correlation.max(1.0) } else { 1e-3 };
            let factor = (found.error / plain).powi(2).max(min_factor);
            (count / factor / (widening * students_ratio(found.degrees_of_freedom)).powi(2), factor)
        };
        let factor = effective(share, widening).1;
        let in_tail = share > 1.0 - TAIL;
        let tail = if in_tail { TAIL_BIAS * (1.0 - 1.0 / factor).max(0.0) } else { 0.0 };
        let widening = widening * (1.0 + tail);
        let own = effective(share, widening).0.min(count / 1e-3);
        let outside = (1.0 - CONFIDENCE) / 2.0;
        // In the tail, the correlation at the bounds counts as well as that at the percentile.
        let mut independent = (own.max(2.0), own.max(2.0));
        for _ in 0..if in_tail { 2 } else { 0 } {
            let low = binomial_quantile(outside, independent.0, share) / independent.0;
            independent.0 = independent.0.min(effective(low, widening).0).max(2.0);
            let high = (binomial_quantile(1.0 - outside, independent.1, share) + RANK_CORRECTION) / independent.1;
            let high = high.min(1.0 - 2.0 / count);
            if high > share {
                independent.1 = independent.1.min(effective(high, widening).0).max(2.0);
            }
        }
        let units = (values.joined().0 as f64).min(count);
        let beyond = independent.1 * share.min(1.0 - share);
        let value = percentile(&sorted, percent);
        let min = match share {
            ..=0.5 => MIN_BEYOND.0,
            _ if in_tail => MIN_BEYOND.2,
            _ => MIN_BEYOND.1,
        };
        let few = own < 0.5 * units && beyond < min;
        let vague = units * (1.0 - share) < 1.0 || (share > 0.5 && values.is_start(value));
        let spread = Spread::new(value, values.len(), Shape::Ordered { share, independent, sorted, scale: 1.0 });
        let (low, high) = spread.bounds(CONFIDENCE, 1.0);
        let vague = vague || spread.jumps(low, high);
        Spread { bounded: !few, vague, ..spread }
    }

    /// Whether a percentile lies between two clusters of values.
    fn jumps(&self, low: f64, high: f64) -> bool {
        let Shape::Ordered { sorted, .. } = &self.shape else { return false };
        let inside = &sorted[sorted.partition_point(|one| *one < low)..sorted.partition_point(|one| *one <= high)];
        let largest = inside.windows(2).map(|pair| pair[1] - pair[0]).fold(0.0, f64::max);
        inside.len() >= 30 && high - low > 0.02 * self.value && largest > MAX_JUMP * (high - low)
    }

    /// Whether its bounds say too little to be reported: they are a factor of four apart, or a lower bound alone is less
    /// than half of the value.
    pub fn is_vague(&self) -> bool {
        let (low, high) = self.bounds(CONFIDENCE, 1.0);
        self.vague || if high.is_finite() { low * 4.0 < high } else { low * 2.0 < self.value }
    }

    /// Whether it has no upper bound.
    pub fn is_open(&self) -> bool {
        self.bounds(CONFIDENCE, 1.0).1.is_infinite()
    }

    /// Withholds it from reports.
    pub fn withheld(self, withheld: bool) -> Self {
        Spread { vague: self.vague || withheld, ..self }
    }

    /// Withholds the upper bound.
    pub fn unbounded(self) -> Self {
        Spread { bounded: false, ..self }
    }

    /// Allows for an event that adds `missed` to a mean, which a run can miss by chance.
    pub fn or_missed(self, missed: f64) -> Self {
        Spread { missed, ..self }
    }

    /// Bounds it by metrics that are never smaller, and by those that are never larger.
    pub fn between(self, below: Vec<Spread>, above: Vec<Spread>) -> Self {
        Spread { below, above, ..self }
    }

    /// Scales the unit.
    pub fn times(mut self, scale: f64) -> Self {
        self.value *= scale;
        self.missed *= scale;
        if let Shape::Ordered { scale: factor, .. } = &mut self.shape {
            *factor *= scale;
        }
        self
    }

    /// The bounds at a confidence level, as they would be with `data` times as much data; the upper one may be
    /// infinite.
    pub fn bounds(&self, confidence: f64, data: f64) -> (f64, f64) {
        let (low, high) = self.own_bounds(confidence, data);
        let high = if self.bounded || data > 1.0 { high } else { f64::INFINITY };
        let high = self.above.iter().map(|one| one.bounds(confidence, data).1).fold(high, f64::min);
        let low = self.below.iter().map(|one| one.bounds(confidence, data).0).fold(low, f64::max);
        (low.min(self.value), high.max(self.value))
    }

    fn own_bounds(&self, confidence: f64, data: f64) -> (f64, f64) {
        let outside = (1.0 - confidence) / 2.0;
        let wider = if self.bounded || data > 1.0 { 1.0 } else { ONE_SIDED };
        match &self.shape {
            Shape::Smooth { error, degrees_of_freedom } => {
                let half = wider * student(confidence, degrees_of_freedom * data) * error / data.sqrt();
                let high = if half < 1.0 { self.value / (1.0 - half) } else { f64::INFINITY };
                (self.value / (1.0 + half), high.max(self.value + self.missed / data))
            }
            Shape::Ordered { sorted, scale, share, independent } => {
                let at = |share: f64| scale * percentile(sorted, share.clamp(0.0, 1.0) * 100.0);
                let below = (independent.0 * data / (wider * wider)).max(2.0);
                let above = independent.1 * data;
                let rank = (binomial_quantile(1.0 - outside, above, *share) + RANK_CORRECTION) / above;
                let last = 1.0 - 0.5 / sorted.len() as f64;
                let high = if rank <= last.min(1.0 - 0.5 / above) {
                    at(rank)
                } else {
                    let rest = beta_quantile(1.0 - outside, above * share + 1.0, (above * (1.0 - share)).max(1e-3));
                    scale * continued(sorted, 1.0 - rest)
                };
                (at(binomial_quantile(outside, below, *share) / below), high)
            }
            Shape::Share { share, independent } => {
                let (good, bad) = (independent * data * share, independent * data * (1.0 - share));
                let low = beta_quantile(outside, good, bad + 1.0);
                let high = if bad > 0.0 { beta_quantile(1.0 - outside, good + 1.0, bad) } else { 1.0 };
                let (rate, error) = self.above.first().map_or((1.0, 0.0), |one| {
                    let (low, high) = one.bounds(confidence, data);
                    (one.value, ((high - low) / 2.0 / one.value).min(1.0))
                });
                let half = |share_error: f64| share_error.hypot(share * error);
                ((rate * (share - half(share - low))).max(0.0), rate * (share + half(high - share)))
            }
        }
    }
}

/// Ratio of the quantile of Student's t to the normal one.
fn students_ratio(degrees_of_freedom: f64) -> f64 {
    student(CONFIDENCE, degrees_of_freedom.max(2.0)) / student(CONFIDENCE, f64::INFINITY)
}

/// The value that a fraction `rest` of all values exceeds, if the tail is exponential: the mean excess over its edge is its scale.
fn continued(sorted: &[f64], rest: f64) -> f64 {
    let edge = percentile(sorted, (1.0 - TAIL) * 100.0);
    let tail = &sorted[sorted.partition_point(|value| *value <= edge)..];
    let excess = tail.iter().map(|value| value - edge).sum::<f64>() / tail.len().max(1) as f64;
    let value = edge + excess * (TAIL / rest.max(1e-9)).ln().max(0.0);
    value.max(sorted[sorted.len() - 1])
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
        let width = |spread: f64, amounts: Vec<f64>| {
            let (low, high) =
                Spread::scheduled(&Values::single(amounts), &ends(spread), 100.0).unwrap().bounds(0.95, 1.0);
            assert!(low > 9.7 && high < 10.3, "{low} {high}");
            high - low
        };
        let even = || vec![1.0; 1000];
        // The last of many responses varies less than a response does.
        assert!(width(0.0, even()) < 1e-9 && width(0.01, even()) > 0.0);
        assert!(width(0.05, even()) < 4.0 * 10.0 * 0.144 / 100.0);
        // Lengths between 0.8 and 1.2 are drawn anew in the next run.
        let mut random = tacho_pyrand::Generator::new(1);
        let lengths: Vec<f64> = (0..1000).map(|_| 0.8 + 0.4 * random.random()).collect();
        assert!((0.1..0.2).contains(&width(0.0, lengths)));
    }

    #[test]
    fn twenty_four_responses_have_a_rate_within_a_factor_of_two() {
        let held: Vec<f64> = (0..24).map(|at| 1.0 + f64::from(at * 7 % 10) / 5.0).collect();
        let (low, high) = Spread::rate_of_users(&[1.0; 24], &held, 24.0).unwrap().bounds(0.95, 1.0);
        assert!(low > 0.7 && high < 1.4, "{low} {high}");
    }

    #[test]
    fn goodput_is_at_most_the_throughput() {
        let ends: Vec<(f64, f64)> = (0..400).map(|at| (f64::from(at) * 0.05, f64::from(at) * 0.05 + 0.1)).collect();
        let throughput = Spread::scheduled(&Values::single(vec![1.0; 400]), &ends, 20.1).unwrap();
        let goodput = |bad: usize| {
            let good = (0..400).map(|at| f64::from(u8::from(at * 17 % 400 >= bad))).collect();
            Spread::share_of(&Values::single(good), throughput.clone()).unwrap()
        };
        let (low, high) = goodput(12).bounds(0.95, 1.0);
        assert!(low > 18.7 && high < 19.8 && !goodput(12).is_vague(), "{low} {high}");
        let (low, high) = goodput(0).bounds(0.95, 1.0);
        assert!(low > 19.6 && high < 19.91, "{low} {high}");
        assert!(goodput(0).is_vague(), "all requests met the SLO");
    }

    /// One gap in 80 is a stall of 75 ms, the others take 14.8 ms in every run.
    #[test]
    fn a_percentile_within_a_cluster_is_constant_and_one_between_clusters_is_vague() {
        let mut random = tacho_pyrand::Generator::new(2);
        let mut gap = |stalls: f64| if random.random() < stalls { 0.075 } else { 0.0148 };
        let mut gaps = |stalls: f64| {
            Values::grouped((0..40_000).map(|at| (gap(stalls), at / 100)).collect::<Vec<_>>().into_iter())
        };
        let p99 = |values: &Values| Spread::of(values, Statistic::Percentile(99.0)).unwrap();
        assert_eq!(p99(&gaps(0.008)).bounds(0.95, 1.0), (0.0148, 0.0148));
        let between = p99(&gaps(0.01));
        assert!(between.is_vague() && between.bounds(0.95, 1.0) == (0.0148, 0.075), "{:?}", between.bounds(0.95, 1.0));
    }

    /// The largest of 200 values are those of the requests that drain the server.
    #[test]
    fn a_tail_at_the_edges_of_a_run_is_not_certain() {
        let value = |at: i32| 1.0 + f64::from(at * 37 % 100) / 500.0 + if at > 195 { 1.0 } else { 0.0 };
        let values = Values::single((0..200).map(value).collect()).with_edge(10);
        let spread = Spread::of(&values, Statistic::Percentile(99.0)).unwrap();
        let (low, high) = spread.bounds(0.95, 1.0);
        assert!(low < 1.5 && high >= 2.178, "{low} {high}");
    }

    /// Without an upper bound, the error counts twice: the lower one is the value ÷ (1 + 2 × 1.96 × error).
    #[test]
    fn a_lower_bound_alone_is_reported_if_it_is_near_the_value() {
        let vague = |error: f64| {
            let spread = Spread::new(10.0, 100, Shape::Smooth { error, degrees_of_freedom: 1e9 }).unbounded();
            let (low, high) = spread.bounds(CONFIDENCE, 1.0);
            assert!(high.is_infinite());
            ((low * 10.0).round() / 10.0, spread.is_vague())
        };
        assert_eq!([vague(0.1), vague(0.2), vague(0.3)], [(7.2, false), (5.6, false), (4.6, true)]);
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
}
