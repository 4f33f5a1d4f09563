//! Percentiles by numpy's default rule: linear between neighbors, evaluated from the nearer end.

/// The `percent`-th percentile of `sorted` values; 0 when there are none.
///
/// ```
/// use tacho_metrics::percentile::percentile;
///
/// let sorted = [0.1, 0.2, 0.3, 0.4];
/// assert!((percentile(&sorted, 50.0) - 0.25).abs() < 1e-12);
/// assert_eq!(percentile(&sorted, 100.0), 0.4);
/// ```
pub fn percentile(sorted: &[f64], percent: f64) -> f64 {
    percentile_of(sorted.len(), percent, |at| sorted[at])
}

/// The percentile of `count` values; `at` returns the value at a rank.
pub(crate) fn percentile_of(count: usize, percent: f64, mut at: impl FnMut(usize) -> f64) -> f64 {
    let Some(last) = count.checked_sub(1) else { return 0.0 };
    // numpy divides by 100 before it multiplies; the other order differs in the last bit.
    let position = last as f64 * (percent / 100.0);
    if position >= last as f64 {
        return at(last);
    }
    let below = position.max(0.0).floor();
    let (low, high) = (at(below as usize), at(below as usize + 1));
    let fraction = position - below;
    let step = high - low;
    if fraction >= 0.5 { high - step * (1.0 - fraction) } else { low + step * fraction }
}

/// The middle of `sorted` values, or the mean of the two middle ones; 0 when there are none.
pub fn median(sorted: &[f64]) -> f64 {
    median_of(sorted.len(), |at| sorted[at])
}

/// The median of `count` values; `at` returns the value at a rank.
pub(crate) fn median_of(count: usize, mut at: impl FnMut(usize) -> f64) -> f64 {
    let half = count / 2;
    match count {
        0 => 0.0,
        odd if odd % 2 == 1 => at(half),
        _ => (at(half - 1) + at(half)) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn interpolates_between_neighbors() {
        let values = [10.0, 20.0, 30.0, 40.0];
        let expected = [
            (0.0, 10.0),
            (25.0, 17.5),
            (75.0, 32.5),
            (90.0, 37.0),
            (95.0, 38.5),
            (99.0, 39.7),
            (99.9, 39.97),
            (100.0, 40.0),
        ];
        for (percent, value) in expected {
            assert!((percentile(&values, percent) - value).abs() < 1e-12, "p{percent}");
        }
        assert_eq!(median(&values), 25.0);
    }

    #[test]
    fn nothing_gives_zero() {
        assert_eq!((percentile(&[], 99.0), median(&[])), (0.0, 0.0));
    }

    proptest! {
        #[test]
        fn lies_between_its_neighbors(mut values in prop::collection::vec(0.0..1e6f64, 1..50), percent in 0.0..=100.0f64) {
            values.sort_by(f64::total_cmp);
            let value = percentile(&values, percent);
            prop_assert!(values[0] <= value && value <= values[values.len() - 1]);
        }
    }
}
