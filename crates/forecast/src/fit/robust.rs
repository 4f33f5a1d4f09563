//! Statistics that outliers do not move.

pub(crate) fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
    values.sort_by(f64::total_cmp);
    if values.is_empty() { 0.0 } else { values[values.len() / 2] }
}

/// Robust standard deviation: 1.4826 times the median absolute deviation.
pub(crate) fn spread(values: impl Iterator<Item = f64>) -> f64 {
    let values: Vec<f64> = values.collect();
    let middle = median(values.iter().copied());
    1.4826 * median(values.iter().map(|value| (value - middle).abs()))
}
