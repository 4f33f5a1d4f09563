//! What the next of several plays may give.

use crate::interval::student;

/// Between what numbers the next value lies in 95 of 100 cases, by those that were seen: their spread about their mean, and
/// what the mean of so few may be off. Of what is above nothing the ratios are looked at. None for less than two.
pub fn next(values: &[f64]) -> Option<(f64, f64)> {
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
    Some((shown(mean - half), shown(mean + half)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_of_five_lies_three_deviations_around() {
        let (low, high) = next(&[98.0, 99.0, 100.0, 101.0, 102.0]).unwrap();
        assert!((low - 95.3).abs() < 0.1 && (high - 104.9).abs() < 0.1, "{low} {high}");
        assert_eq!(next(&[5.0]), None);
        let (low, high) = next(&[0.0, 0.0]).unwrap();
        assert_eq!((low, high), (0.0, 0.0));
    }
}
