//! How well a mean is known, and whether the values wandered while it was taken.

use crate::statistics::mean;

/// The 0.975 quantile of Student's t for 1 to 30 degrees of freedom.
const T: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
    2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];
/// The same of the normal distribution.
const Z: f64 = 1.959_963_984_540_054;
/// A wander below this share of the mean is not worth a note.
const NOTABLE: f64 = 0.05;

fn quantile(freedom: usize) -> f64 {
    match freedom {
        0 => f64::INFINITY,
        1..=30 => T[freedom - 1],
        _ => Z + (Z.powi(3) + Z) / (4.0 * freedom as f64),
    }
}

/// The 95 % confidence interval of a mean.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Its lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

impl Interval {
    /// The interval of these values; none for fewer than two.
    pub fn of(values: &[f64]) -> Option<Self> {
        let count = values.len();
        if count < 2 {
            return None;
        }
        let middle = mean(values);
        let squares: f64 = values.iter().map(|value| (value - middle).powi(2)).sum();
        let half = quantile(count - 1) * (squares / (count - 1) as f64 / count as f64).sqrt();
        Some(Interval { low: middle - half, high: middle + half })
    }

    /// The same of values that cannot be negative, such as times and rates.
    pub fn of_amounts(values: &[f64]) -> Option<Self> {
        Self::of(values).map(|interval| Interval { low: interval.low.max(0.0), ..interval })
    }
}

/// A trend over the iterations that chance does not explain.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Drift {
    /// Change from the first to the last iteration, as a share of the mean.
    pub share: f64,
}

impl Drift {
    /// The drift of these values, if a straight line through them rises or falls beyond chance and by a notable share.
    pub fn of(values: &[f64]) -> Option<Self> {
        let count = values.len();
        if count < 6 {
            return None;
        }
        let (middle, center) = (mean(values), (count - 1) as f64 / 2.0);
        let places = (0..count).map(|at| at as f64 - center);
        let spread: f64 = places.clone().map(|place| place * place).sum();
        let slope = places.clone().zip(values).map(|(place, value)| place * (value - middle)).sum::<f64>() / spread;
        let rest: f64 = places.zip(values).map(|(place, value)| (value - middle - slope * place).powi(2)).sum();
        let error = (rest / (count - 2) as f64 / spread).sqrt();
        let share = slope * (count - 1) as f64 / middle;
        (slope.abs() > quantile(count - 2) * error && share.abs() > NOTABLE).then_some(Drift { share })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interval_of_known_values() {
        let interval = Interval::of(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        assert!((interval.low - 1.036_8).abs() < 1e-3 && (interval.high - 4.963_2).abs() < 1e-3, "{interval:?}");
        assert_eq!(Interval::of(&[1.0]), None);
        let many = Interval::of(&[1.0, 3.0].repeat(50)).unwrap();
        assert!((many.high - 2.199_4).abs() < 1e-3, "{many:?}");
    }

    #[test]
    fn drift_is_told_from_noise() {
        let rising: Vec<f64> = (0..20).map(|at| 1.0 + 0.02 * f64::from(at)).collect();
        assert!((Drift::of(&rising).unwrap().share - 0.38 / 1.19).abs() < 1e-9);
        let noise: Vec<f64> = (0..20).map(|at| if at % 2 == 0 { 1.0 } else { 1.5 }).collect();
        assert_eq!(Drift::of(&noise), None);
        assert_eq!(Drift::of(&[1.0; 20]), None);
    }
}
