//! Mean, median, standard deviation and percentiles of a list, with numpy's rounding: sums are pairwise, the
//! deviation is the population's, everything is computed in seconds and then multiplied by 1000.

use crate::percentile::{median, median_of, percentile, percentile_of};
use crate::stats::ordered::at_ranks;

/// A statistic of a list of values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Statistic {
    /// The mean.
    Mean,
    /// The population's standard deviation.
    Deviation,
    /// A percentile.
    Percentile(f64),
}

/// The statistics of one list of times. All are 0 when the list is empty.
///
/// ```
/// use tacho_metrics::Statistics;
///
/// let ttft = Statistics::of(vec![0.010, 0.020, 0.060], &[99.0]);
/// assert_eq!(ttft.count, 3);
/// assert!((ttft.mean_ms - 30.0).abs() < 1e-9 && (ttft.median_ms - 20.0).abs() < 1e-9);
/// assert!((ttft.percentile_ms(99.0).unwrap() - 59.2).abs() < 1e-9);
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Statistics {
    /// Number of values.
    pub count: usize,
    /// Arithmetic mean, ms.
    pub mean_ms: f64,
    /// Median, ms.
    pub median_ms: f64,
    /// Population standard deviation, ms.
    pub std_ms: f64,
    /// Largest value, ms.
    pub max_ms: f64,
    /// Percent and value (ms), in the order asked for.
    pub percentiles_ms: Vec<(f64, f64)>,
}

impl Statistics {
    /// The statistics of `seconds`, with the given percentiles.
    pub fn of(mut seconds: Vec<f64>, percentiles: &[f64]) -> Self {
        // The sums come first: their rounding depends on the order in which the values were recorded.
        let (mean, std) = (mean(&seconds), standard_deviation(&seconds));
        seconds.sort_unstable_by(f64::total_cmp);
        Statistics {
            count: seconds.len(),
            mean_ms: mean * 1000.0,
            median_ms: median(&seconds) * 1000.0,
            std_ms: std * 1000.0,
            max_ms: seconds.last().map_or(0.0, |last| last * 1000.0),
            percentiles_ms: percentiles
                .iter()
                .map(|&percent| (percent, percentile(&seconds, percent) * 1000.0))
                .collect(),
        }
    }

    /// The statistics of values that are iterated several times instead of copied, where they are many.
    pub fn of_all<I: Iterator<Item = f64>>(seconds: impl Fn() -> I, percentiles: &[f64]) -> Self {
        let count = seconds().count();
        match count <= MAX_COPIED {
            true => Self::of(seconds().collect(), percentiles),
            false => Self::of_many(count, seconds, percentiles),
        }
    }

    fn of_many<I: Iterator<Item = f64>>(count: usize, seconds: impl Fn() -> I, percentiles: &[f64]) -> Self {
        let mean = sum(count, seconds()) / count as f64;
        let squares = sum(count, seconds().map(|value| (value - mean) * (value - mean)));
        // The ranks are collected first, then found in one go.
        let mut ranks = vec![count - 1];
        let mut note = |at| {
            ranks.push(at);
            0.0
        };
        let _ = median_of(count, &mut note);
        for &percent in percentiles {
            let _ = percentile_of(count, percent, &mut note);
        }
        let found = at_ranks(seconds, &ranks);
        let at = |rank: usize| ranks.iter().position(|known| *known == rank).map_or(0.0, |index| found[index]);
        Statistics {
            count,
            mean_ms: mean * 1000.0,
            median_ms: median_of(count, at) * 1000.0,
            std_ms: (squares / count as f64).sqrt() * 1000.0,
            max_ms: found[0] * 1000.0,
            percentiles_ms: percentiles
                .iter()
                .map(|&percent| (percent, percentile_of(count, percent, at) * 1000.0))
                .collect(),
        }
    }

    /// The value (ms) of a percentile that was asked for.
    pub fn percentile_ms(&self, percent: f64) -> Option<f64> {
        self.percentiles_ms.iter().find(|(asked, _)| *asked == percent).map(|(_, value)| *value)
    }
}

/// Most values that are copied and sorted.
const MAX_COPIED: usize = 1 << 18;

/// `numpy.mean`; 0 for an empty list.
pub fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { sum(values.len(), values.iter().copied()) / values.len() as f64 }
}

/// `numpy.std`; 0 for an empty list.
pub fn standard_deviation(values: &[f64]) -> f64 {
    if values.is_empty() {
        return 0.0;
    }
    let mean = mean(values);
    let squares = sum(values.len(), values.iter().map(|value| (value - mean) * (value - mean)));
    (squares / values.len() as f64).sqrt()
}

/// The unbiased sample variance; `None` for fewer than two values.
pub fn sample_variance(values: &[f64]) -> Option<f64> {
    let mean = mean(values);
    let squares = sum(values.len(), values.iter().map(|value| (value - mean) * (value - mean)));
    (values.len() > 1).then(|| squares / (values.len() - 1) as f64)
}

/// Lists up to this long are summed in eight lanes, longer ones are halved first, as numpy does.
const BLOCK: usize = 128;

/// The sum of `count` values in numpy's order of additions.
fn sum(count: usize, mut values: impl Iterator<Item = f64>) -> f64 {
    pairwise_sum(count, &mut values)
}

fn pairwise_sum(count: usize, values: &mut impl Iterator<Item = f64>) -> f64 {
    if count < 8 {
        return values.by_ref().take(count).fold(0.0, |sum, value| sum + value);
    }
    if count > BLOCK {
        let half = count / 2 - (count / 2) % 8;
        return pairwise_sum(half, values) + pairwise_sum(count - half, values);
    }
    let mut lanes = [0.0; 8];
    for (at, value) in values.by_ref().take(count - count % 8).enumerate() {
        lanes[at % 8] = if at < 8 { value } else { lanes[at % 8] + value };
    }
    let [a, b, c, d, e, f, g, h] = lanes;
    let sum = ((a + b) + (c + d)) + ((e + f) + (g + h));
    values.by_ref().take(count % 8).fold(sum, |sum, value| sum + value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_values() {
        let statistics = Statistics::of(vec![0.04, 0.01, 0.03, 0.02], &[25.0]);
        assert_eq!(statistics.count, 4);
        assert_eq!(statistics.mean_ms, 25.0);
        assert!((statistics.std_ms - 11.180339887498949).abs() < 1e-13);
        assert_eq!(statistics.max_ms, 40.0);
        assert_eq!(statistics.percentile_ms(25.0), Some(17.5));
        assert_eq!(statistics.percentile_ms(26.0), None);
    }

    #[test]
    fn many_values_have_the_same_statistics_without_a_copy() {
        let values = || (0..20_011u64).map(|at| (at * 7919 % 10_007) as f64 / 1e4 + 1e-9 * at as f64);
        let percentiles = [0.0, 25.0, 50.0, 90.0, 99.0, 99.9, 100.0];
        for count in [1, 2, 7, 8, 129, 20_010, 20_011] {
            let copied = Statistics::of(values().take(count).collect(), &percentiles);
            assert_eq!(Statistics::of_many(count, || values().take(count), &percentiles), copied);
        }
        assert_eq!(Statistics::of_all(|| [].into_iter(), &[99.0]), Statistics::of(Vec::new(), &[99.0]));
    }

    #[test]
    fn nothing_gives_zeros() {
        let statistics = Statistics::of(Vec::new(), &[99.0]);
        assert_eq!(statistics, Statistics { percentiles_ms: vec![(99.0, 0.0)], ..Statistics::default() });
    }
}
