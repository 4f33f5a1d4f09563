//! How far a statistic of one run's requests would vary if the run were repeated, from that run alone. The values come in
//! units of time (a request, or all token events of a moment), and the memory from unit to unit is respected.
//! Percentiles get the bounds of order statistics: how many values lie below the true percentile is a binomial matter of
//! as many independent values as the memory leaves.

use super::distribution::{beta_quantile, binomial_quantile, student};
use super::long_run_variance::memory;
use crate::percentile::percentile;
use crate::statistics::Statistic;

/// Units beyond this number are joined with their neighbours; nothing is lost, as memory lasts longer.
const UNITS: usize = 2000;
/// With fewer independent values beyond it, an upper bound of a percentile is continued from the tail.
const BEYOND: f64 = 6.0;
/// How many times the largest value a tail may be continued to.
const FURTHEST: f64 = 4.0;
/// Between which two of so many independent values a bound falls is not known: a little outside of the nearer one.
const OUTSIDE: f64 = 0.4;
/// The share of values that counts as the tail.
const TAIL: f64 = 0.1;

/// Values in the order of time.
#[derive(Debug, Clone, Default)]
pub struct Values {
    /// The values.
    values: Vec<f64>,
    /// The unit of each; never falling.
    units: Vec<u32>,
}

impl Values {
    /// One value per unit.
    pub fn single(values: Vec<f64>) -> Self {
        let units = (0..values.len() as u32).collect();
        Values { values, units }
    }

    /// Values with the number of the unit that each belongs to; units come one after the other.
    pub fn grouped(pairs: impl Iterator<Item = (f64, u32)>) -> Self {
        let (values, units) = pairs.unzip();
        Values { values, units }
    }

    /// Values with the moments they belong to, in any order; units are equal spans of time.
    pub fn timed(mut pairs: Vec<(f64, f64)>) -> Self {
        pairs.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
        let (first, last) = (pairs.first().map_or(0.0, |pair| pair.0), pairs.last().map_or(0.0, |pair| pair.0));
        let spans = (pairs.len() / 4).clamp(1, UNITS) as f64;
        let length = ((last - first) / spans).max(f64::MIN_POSITIVE);
        let unit = |moment: f64| ((moment - first) / length).min(spans - 1.0) as u32;
        Values {
            units: pairs.iter().map(|pair| unit(pair.0)).collect(),
            values: pairs.iter().map(|pair| pair.1).collect(),
        }
    }

    /// How many values there are.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// The sums of `score` over units, joined to at most [`UNITS`].
    fn sums(&self, score: impl Fn(f64) -> f64) -> Vec<f64> {
        let units = self.units.last().map_or(0, |last| *last as usize + 1);
        let joined = units.div_ceil(UNITS).max(1);
        let mut sums = vec![0.0; units.div_ceil(joined)];
        for (value, unit) in self.values.iter().zip(&self.units) {
            sums[*unit as usize / joined] += score(*value);
        }
        sums
    }

    /// The error of the mean of `score`, which must be 0 on average, and the independent observations behind it.
    fn error(&self, score: impl Fn(f64) -> f64) -> (f64, f64) {
        let mut sums = self.sums(score);
        let mean = sums.iter().sum::<f64>() / sums.len().max(1) as f64;
        sums.iter_mut().for_each(|sum| *sum -= mean);
        let memory = memory(&sums);
        ((sums.len() as f64 * memory.variance).sqrt() / self.values.len().max(1) as f64, memory.freedom)
    }
}

/// The spread of one number: bounds at any confidence. Values are positive.
#[derive(Debug, Clone)]
pub struct Spread {
    /// The number.
    pub value: f64,
    /// How many values it rests on.
    pub count: usize,
    shape: Shape,
}

#[derive(Debug, Clone)]
enum Shape {
    /// A relative error; of queues it grows with the square of the mean, so that its reciprocal is even.
    Smooth { error: f64, freedom: f64 },
    /// Sorted values, and how many of them could be independent.
    Ordered { sorted: Vec<f64>, share: f64, independent: f64, tail: f64 },
}

impl Spread {
    /// The spread of a statistic of `values`; nothing of fewer than two.
    pub fn of(values: &Values, statistic: Statistic) -> Option<Self> {
        let count = values.len();
        if count < 2 {
            return None;
        }
        let mean = values.values.iter().sum::<f64>() / count as f64;
        let smooth = |value: f64, (error, freedom): (f64, f64), slope: f64| Spread {
            value,
            count,
            shape: Shape::Smooth { error: error * slope / value, freedom },
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
        // Differences of neighbours leave out the slow rise and fall of a run, which is no chance.
        let squares: f64 = amounts.windows(2).map(|pair| (pair[1] - pair[0]).powi(2)).sum();
        let variance = squares / (2.0 * (amounts.len() - 1) as f64);
        let error = (variance * amounts.len() as f64).sqrt() / total;
        let freedom = (amounts.len() - 1) as f64 * 2.0 / 3.0;
        Some(Spread { value, count, shape: Shape::Smooth { error, freedom } })
    }

    /// A rate from what each session brought and how long it was held, in the order of their starts. Where places are
    /// taken anew the rate is what a second of a session brings; where a schedule starts them, what is left to chance is
    /// when the last one ends. Which of them it was the rows do not tell: the wider counts.
    pub fn rate_of_sessions(amounts: &[f64], held: &[f64], duration: f64) -> Option<Self> {
        let (total, time): (f64, f64) = (amounts.iter().sum(), held.iter().sum());
        if amounts.len() < 2 || total <= 0.0 || time <= 0.0 || duration <= 0.0 {
            return None;
        }
        let left = amounts.iter().zip(held).map(|(amount, held)| amount - total / time * held);
        let memory = memory(&left.collect::<Vec<f64>>());
        let places = (amounts.len() as f64 * memory.variance).sqrt() / total;
        let last = crate::statistics::standard_deviation(held) / duration;
        let freedom = memory.freedom.min((amounts.len() - 1) as f64);
        let shape = Shape::Smooth { error: places.max(last), freedom };
        Some(Spread { value: total / duration, count: amounts.len(), shape })
    }

    /// A rate that a schedule decided: `total` in a time that ends with the last answer.
    pub fn scheduled(total: f64, latencies: &[f64], duration: f64) -> Option<Self> {
        if total <= 0.0 || duration <= 0.0 || latencies.len() < 2 {
            return None;
        }
        let error = crate::statistics::standard_deviation(latencies) / duration;
        let freedom = (latencies.len() - 1) as f64;
        Some(Spread { value: total / duration, count: latencies.len(), shape: Shape::Smooth { error, freedom } })
    }

    fn ordered(values: &Values, percent: f64) -> Self {
        let share = percent / 100.0;
        let mut sorted = values.values.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        let factor = |share: f64| {
            let threshold = percentile(&sorted, share * 100.0);
            let below = sorted.partition_point(|&value| value <= threshold) as f64 / sorted.len() as f64;
            let plain = (below * (1.0 - below) / sorted.len() as f64).sqrt();
            let (error, freedom) = values.error(|value| f64::from(u8::from(value <= threshold)) - below);
            if plain <= 0.0 || error <= 0.0 {
                return 1.0;
            }
            let widen = |freedom: f64| student(0.95, freedom.max(2.0)) / student(0.95, f64::INFINITY);
            let factor = (error / plain).powi(2);
            // Far out few values tell of the memory, and what they tell is in doubt.
            let doubtful = factor * widen(freedom).powf(8.0 * (share - 0.5).abs());
            // A queue passes a far percentile in few stretches of many requests: what is known of their length is known from
            // so many of them. Where there is no memory there is nothing to be in doubt of.
            let stretches = sorted.len() as f64 * share.min(1.0 - share) / factor.max(1.0);
            let stretched = 1.0 + (factor - 1.0) * widen(stretches).powi(2);
            doubtful.max(stretched).max(0.5)
        };
        let own = factor(share);
        let edge = if share > 1.0 - TAIL { factor(1.0 - TAIL) } else { own };
        let independent = (sorted.len() as f64 / own).max(2.0);
        Spread {
            value: percentile(&sorted, percent),
            count: values.len(),
            shape: Shape::Ordered { share, independent, tail: edge.max(1.0), sorted },
        }
    }

    /// The same in another unit.
    pub fn times(mut self, scale: f64) -> Self {
        self.value *= scale;
        if let Shape::Ordered { sorted, .. } = &mut self.shape {
            sorted.iter_mut().for_each(|value| *value *= scale);
        }
        self
    }

    /// The bounds at a confidence, as they would be with `data` times as much of it; the upper one may be infinite.
    pub fn bounds(&self, confidence: f64, data: f64) -> (f64, f64) {
        match &self.shape {
            Shape::Smooth { error, freedom } => {
                let half = student(confidence, freedom * data) * error / data.sqrt();
                let high = if half < 1.0 { self.value / (1.0 - half) } else { f64::INFINITY };
                (self.value / (1.0 + half), high)
            }
            Shape::Ordered { sorted, share, independent, tail } => {
                let outside = (1.0 - confidence) / 2.0;
                let independent = independent * data;
                let below = independent * share;
                let at = |share: f64| percentile(sorted, share * 100.0);
                let count = |likely: f64| binomial_quantile(likely, independent, *share);
                let upper = if independent * (1.0 - share) < BEYOND {
                    let high = beta_quantile(1.0 - outside, below + 1.0, (independent - below).max(1e-3));
                    at(high).max(continued(sorted, 1.0 - high, *tail))
                } else {
                    at((count(1.0 - outside) + OUTSIDE) / independent)
                };
                let low = count(outside) / independent;
                (at(low).min(self.value), upper.max(self.value))
            }
        }
    }
}

/// The value that `rest` of all values exceed: a power law through the tail (Weissman 1978 with Hill's exponent), made
/// heavier by what that exponent may be wrong by. `memory` is the share of the tail that is no news.
fn continued(sorted: &[f64], rest: f64, memory: f64) -> f64 {
    let count = sorted.len();
    let tail = ((count as f64 * TAIL) as usize).max(5).min(count / 2);
    let edge = sorted[count - tail - 1].max(f64::MIN_POSITIVE);
    let exponent = sorted[count - tail..].iter().map(|value| (value / edge).ln()).sum::<f64>() / tail as f64;
    let doubt = 1.0 + 0.5 * (memory / tail as f64).sqrt().min(1.0);
    let value = edge * (tail as f64 / count as f64 / rest.max(1e-12)).max(1.0).powf(exponent * doubt);
    // So far beyond all that was seen nothing is known: there is no upper bound.
    if value > FURTHEST * sorted[count - 1] { f64::INFINITY } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scheduled_rate_is_as_sure_as_its_end() {
        let latencies: Vec<f64> = (0..1000).map(|at| 0.1 + f64::from(at % 10) * 0.01).collect();
        let (low, high) = Spread::scheduled(1000.0, &latencies, 100.0).unwrap().bounds(0.95, 1.0);
        assert!(low > 9.99 && high < 10.01, "{low} {high}");
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
    fn moments_of_tokens_come_in_spans_of_time() {
        let values = Values::timed((0..4000).map(|at| (f64::from(at % 40), 1.0)).collect());
        assert_eq!((values.len(), values.units.last()), (4000, Some(&999)));
        let (low, high) = Spread::of(&values, Statistic::Mean).unwrap().bounds(0.95, 1.0);
        assert_eq!((low, high), (1.0, 1.0));
    }
}
