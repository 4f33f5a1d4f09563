//! Confidence intervals from one run. They cover the variation within a run; differences between runs (placement, other
//! load on the machine) show only in repeated runs.

mod distribution;
mod long_run_variance;
mod rows;
mod saturation;
mod spread;
mod values;

pub use self::distribution::{fisher_at_least, student};
pub use self::rows::{Recorded, Row, Rows, rate, values};
pub use self::saturation::{FewQueues, Saturation, few_queues};
pub use self::spread::Spread;
pub use self::values::Values;

use super::statistics::{mean, sample_variance};

/// The confidence level of all reported intervals.
pub const CONFIDENCE: f64 = 0.95;

/// Bounds of a positive metric; the upper one is infinite where the run is too short to bound it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// The lower bound.
    pub low: f64,
    /// The upper bound.
    pub high: f64,
}

impl Interval {
    /// Confidence interval of the mean of independent repeats, by Student's t; `None` for fewer than two.
    ///
    /// ```
    /// use tacho_metrics::Interval;
    ///
    /// let interval = Interval::of_mean(&[10.0, 11.0, 12.0]).unwrap();
    /// assert!(interval.low < 11.0 && 11.0 < interval.high);
    /// assert_eq!(Interval::of_mean(&[10.0]), None);
    /// ```
    pub fn of_mean(repeats: &[f64]) -> Option<Self> {
        let (mean, half) = (mean(repeats), half_width(repeats)?);
        Some(Interval { low: (mean - half).max(0.0), high: mean + half })
    }
}

/// Half the width of the confidence interval of the mean of independent repeats, by Student's t; `None` for fewer than
/// two.
pub fn half_width(repeats: &[f64]) -> Option<f64> {
    let count = repeats.len() as f64;
    let variance = sample_variance(repeats)?;
    Some(student(CONFIDENCE, count - 1.0) * (variance / count).sqrt())
}

#[cfg(test)]
mod coverage;
#[cfg(test)]
mod known;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interval_of_known_values() {
        let interval = Interval::of_mean(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        assert!((interval.low - 1.036_8).abs() < 1e-3 && (interval.high - 4.963_2).abs() < 1e-3, "{interval:?}");
        assert_eq!(Interval::of_mean(&[1.0]), None);
        let many = Interval::of_mean(&[1.0, 3.0].repeat(50)).unwrap();
        assert!((many.high - 2.199_4).abs() < 1e-3, "{many:?}");
        assert_eq!(Interval::of_mean(&[0.0, 1.0]).map(|interval| interval.low), Some(0.0));
    }

    #[test]
    fn seventeen_repeats_have_sixteen_degrees_of_freedom() {
        let repeats: Vec<f64> = (0..17).map(f64::from).collect();
        // t(0.975, 16) = 2.1199; the variance of 0 … 16 is 25.5.
        assert!((half_width(&repeats).unwrap() - 2.1199 * (25.5_f64 / 17.0).sqrt()).abs() < 1e-3);
    }
}
