//! Mean, median, standard deviation and percentiles of a list, with numpy's rounding: sums are pairwise, the
//! deviation is the population's, everything is computed in seconds and then multiplied by 1000.

use crate::percentile::{median, percentile};

/// What is computed of a list of values.
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
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Statistics {
    /// How many values there were.
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

    /// The value (ms) of a percentile that was asked for.
    pub fn percentile_ms(&self, percent: f64) -> Option<f64> {
        self.percentiles_ms.iter().find(|(asked, _)| *asked == percent).map(|(_, value)| *value)
    }
}

/// `numpy.mean`; 0 for nothing.
pub fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { pairwise_sum(values, &|value| value) / values.len() as f64 }
}

/// `numpy.std`; 0 for nothing.
pub fn standard_deviation(values: &[f64]) -> f64 {
    if values.is_empty() {
        return 0.0;
    }
    let mean = mean(values);
    let squares = pairwise_sum(values, &|value| (value - mean) * (value - mean));
    (squares / values.len() as f64).sqrt()
}

/// Lists up to this long are summed in eight lanes, longer ones are halved first, as numpy does.
const BLOCK: usize = 128;

/// The sum of `term` over `values` in numpy's order of additions.
fn pairwise_sum(values: &[f64], term: &impl Fn(f64) -> f64) -> f64 {
    let count = values.len();
    if count < 8 {
        return values.iter().fold(0.0, |sum, &value| sum + term(value));
    }
    if count > BLOCK {
        let half = count / 2 - (count / 2) % 8;
        return pairwise_sum(&values[..half], term) + pairwise_sum(&values[half..], term);
    }
    let (body, rest) = values.split_at(count - count % 8);
    let mut lanes = [0.0; 8];
    for (at, eight) in body.chunks_exact(8).enumerate() {
        for (lane, &value) in lanes.iter_mut().zip(eight) {
            *lane = if at == 0 { term(value) } else { *lane + term(value) };
        }
    }
    let [a, b, c, d, e, f, g, h] = lanes;
    let sum = ((a + b) + (c + d)) + ((e + f) + (g + h));
    rest.iter().fold(sum, |sum, &value| sum + term(value))
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
    fn nothing_gives_zeros() {
        let statistics = Statistics::of(Vec::new(), &[99.0]);
        assert_eq!(statistics, Statistics { percentiles_ms: vec![(99.0, 0.0)], ..Statistics::default() });
    }
}
