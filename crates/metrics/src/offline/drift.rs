//! Drift of repeated measurements.

use crate::interval::{CONFIDENCE, student};
use crate::statistics::mean;

/// Smallest drift that is reported, as a fraction of the mean.
const MIN_FRACTION: f64 = 0.05;

/// The change from the first to the last of these values, as a fraction of their mean: the slope of their least-squares
/// line, where it differs from 0 by Student's t test at 95% and amounts to more than 5% of the mean. Six values at least.
pub fn drift(values: &[f64]) -> Option<f64> {
    let count = values.len();
    if count < 6 {
        return None;
    }
    let (middle, center) = (mean(values), (count - 1) as f64 / 2.0);
    let positions = (0..count).map(|at| at as f64 - center);
    let spread: f64 = positions.clone().map(|position| position * position).sum();
    let slope =
        positions.clone().zip(values).map(|(position, value)| position * (value - middle)).sum::<f64>() / spread;
    let residual: f64 =
        positions.zip(values).map(|(position, value)| (value - middle - slope * position).powi(2)).sum();
    let error = (residual / (count - 2) as f64 / spread).sqrt();
    let fraction = slope * (count - 1) as f64 / middle;
    (slope.abs() > student(CONFIDENCE, (count - 2) as f64) * error && fraction.abs() > MIN_FRACTION).then_some(fraction)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trend_is_found_and_noise_is_not() {
        let rising: Vec<f64> = (0..20).map(|at| 1.0 + 0.02 * f64::from(at)).collect();
        assert!((drift(&rising).unwrap() - 0.38 / 1.19).abs() < 1e-9);
        let noise: Vec<f64> = (0..20).map(|at| if at % 2 == 0 { 1.0 } else { 1.5 }).collect();
        assert_eq!(drift(&noise), None);
        assert_eq!(drift(&[1.0; 20]), None);
        // The noise changes sign from value to value: t is 24, 2.9 and 1.3, its limit with 18 degrees of freedom 2.1.
        let noisy = |noise: f64| -> Vec<f64> {
            rising.iter().enumerate().map(|(at, value)| value + if at % 2 == 0 { noise } else { -noise }).collect()
        };
        let found = [0.02, 0.15, 0.3].map(|noise| drift(&noisy(noise)).is_some());
        assert_eq!(found, [true, true, false]);
    }
}
