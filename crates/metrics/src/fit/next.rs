//! What the next of several plays may give.

use crate::interval::student;

/// What a value yet to be seen may be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Next {
    /// What it is about.
    pub about: f64,
    /// It lies above this and below `high` in 95 of 100 cases.
    pub low: f64,
    /// See `low`.
    pub high: f64,
}

/// What the next value may be by those that were seen: their spread about their mean, and what the mean of so few may be off.
/// Of what is above nothing the ratios are looked at. None for less than two.
pub fn next(values: &[f64]) -> Option<Next> {
    let count = values.len() as f64;
    if count < 2.0 || values.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let is_ratio = values.iter().all(|value| *value > 0.0);
    let shown = |value: f64| if is_ratio { value.exp() } else { value };
    let taken: Vec<f64> = values.iter().map(|value| if is_ratio { value.ln() } else { *value }).collect();
    let mean = taken.iter().sum::<f64>() / count;
    let variance = taken.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
    let half = student(0.95, count - 1.0) * (variance * (1.0 + 1.0 / count)).sqrt();
    Some(Next { about: shown(mean), low: shown(mean - half), high: shown(mean + half) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_of_five_lies_three_deviations_around() {
        let Next { about, low, high } = next(&[98.0, 99.0, 100.0, 101.0, 102.0]).unwrap();
        assert!((low - 95.3).abs() < 0.1 && (high - 104.9).abs() < 0.1, "{low} {high}");
        assert!((about - 100.0).abs() < 0.1, "{about}");
        assert_eq!(next(&[5.0]), None);
        assert_eq!(next(&[0.0, 0.0]), Some(Next { about: 0.0, low: 0.0, high: 0.0 }));
    }
}
