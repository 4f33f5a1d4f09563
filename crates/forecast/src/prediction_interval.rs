//! Prediction interval for a future run, from simulations of it.

use tacho_metrics::interval::student;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PredictionInterval {
    pub expected: f64,
    pub low: f64,
    pub high: f64,
}

impl PredictionInterval {
    /// Student's t prediction interval for the next of `values`: of their logarithms where all are positive. `None` for less
    /// than two values.
    pub fn of(values: &[f64]) -> Option<Self> {
        let count = values.len() as f64;
        if count < 2.0 || values.iter().any(|value| !value.is_finite()) {
            return None;
        }
        let is_lognormal = values.iter().all(|value| *value > 0.0);
        let back = |value: f64| if is_lognormal { value.exp() } else { value };
        let taken: Vec<f64> = values.iter().map(|value| if is_lognormal { value.ln() } else { *value }).collect();
        let mean = taken.iter().sum::<f64>() / count;
        let variance = taken.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
        let half = student(0.95, count - 1.0) * (variance * (1.0 + 1.0 / count)).sqrt();
        Some(PredictionInterval { expected: back(mean), low: back(mean - half), high: back(mean + half) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_values_have_an_interval_of_three_deviations() {
        let PredictionInterval { expected, low, high } =
            PredictionInterval::of(&[98.0, 99.0, 100.0, 101.0, 102.0]).unwrap();
        assert!((low - 95.3).abs() < 0.1 && (high - 104.9).abs() < 0.1, "{low} {high}");
        assert!((expected - 100.0).abs() < 0.1, "{expected}");
        assert_eq!(PredictionInterval::of(&[5.0]), None);
        let zero = PredictionInterval { expected: 0.0, low: 0.0, high: 0.0 };
        assert_eq!(PredictionInterval::of(&[0.0, 0.0]), Some(zero));
    }
}
