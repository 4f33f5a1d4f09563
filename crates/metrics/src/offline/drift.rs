//! Drift of repeated measurements.

use crate::interval::{CONFIDENCE, student};
use crate::statistics::mean;

/// Smallest drift that is reported, as a fraction of the mean.
const MIN_FRACTION: f64 = 0.05;

/// A significant linear trend over the iterations.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Drift {
    /// Change from the first to the last iteration, as a fraction of the mean.
    pub fraction: f64,
}

impl Drift {
    /// The drift of these values: the slope of their least-squares line, where it differs from 0 by Student's t test at 95%
    /// and amounts to more than 5% of the mean. Six values at least.
    pub fn of(values: &[f64]) -> Option<Self> {
        let count = values.len();
        if count < 6 {
            return None;
        }
        let (middle, center) = (mean(values), (count - 1) as f64 / 2.0);
        let places = (0..count).map(|at| at as f64 - center);
        let spread: f64 = places.clone().map(|place| place * place).sum();
        let slope = places.clone().zip(values).map(|(place, value)| place * (value - middle)).sum::<f64>() / spread;
        let residual: f64 = places.zip(values).map(|(place, value)| (value - middle - slope * place).powi(2)).sum();
        let error = (residual / (count - 2) as f64 / spread).sqrt();
        let fraction = slope * (count - 1) as f64 / middle;
        (slope.abs() > student(CONFIDENCE, (count - 2) as f64) * error && fraction.abs() > MIN_FRACTION)
            .then_some(Drift { fraction })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trend_is_found_and_noise_is_not() {
        let rising: Vec<f64> = (0..20).map(|at| 1.0 + 0.02 * f64::from(at)).collect();
        assert!((Drift::of(&rising).unwrap().fraction - 0.38 / 1.19).abs() < 1e-9);
        let noise: Vec<f64> = (0..20).map(|at| if at % 2 == 0 { 1.0 } else { 1.5 }).collect();
        assert_eq!(Drift::of(&noise), None);
        assert_eq!(Drift::of(&[1.0; 20]), None);
    }
}
