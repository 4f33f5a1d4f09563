//! Pairs of short runs, one of each side with the same requests, judged after every pair: a confidence sequence for the
//! mean of their log ratios. All its intervals hold together, so that a test may stop as soon as one decides.
//!
//! The ratios of the pairs are taken as normal with unknown variance. Against each mean, the Bayes factor with a normal
//! prior on the effect size (in standard deviations) and the right Haar prior on the scale is a nonnegative martingale
//! of the t statistics (Lai, 1976; Wang and Ramdas, 2025, "Anytime-valid t-tests and confidence sequences for Gaussian
//! means with unknown variance"). By Ville's inequality it ever exceeds 1/α with a probability of at most α.

use super::Confidence;

/// Variance of the prior on the effect size: least pairs to a decision over standard deviations of 0.1 to 1 of the
/// distance to the limit.
const PRIOR: f64 = 4.0;

/// The log ratios of pairs, candidate to baseline, in the order of measurement: the least and the largest that the client
/// vouches for.
#[derive(Debug, Clone)]
pub(super) struct Sequence {
    low: Vec<f64>,
    high: Vec<f64>,
}

impl Sequence {
    pub(super) fn new(ratios: &[(f64, f64)]) -> Self {
        let (low, high) = ratios.iter().copied().unzip();
        Sequence { low, high }
    }

    /// The intersection of the intervals after each pair; with `data` above 1 also that after `data` times as many pairs,
    /// if mean and variance stay the same. `None` with too few pairs, and if the intervals contradict each other: the
    /// change was not constant.
    pub(super) fn bounds(&self, confidence: Confidence, data: f64) -> Option<(f64, f64)> {
        let (low, _) = mean_bounds(&self.low, confidence, data);
        let (_, high) = mean_bounds(&self.high, confidence, data);
        (low.is_finite() && low <= high).then_some((low, high))
    }
}

/// The intersection of the intervals of the mean after each value.
fn mean_bounds(ratios: &[f64], confidence: Confidence, data: f64) -> (f64, f64) {
    let (mut low, mut high) = (f64::NEG_INFINITY, f64::INFINITY);
    let (mut mean, mut squares) = (0.0, 0.0);
    let mut narrow = |pairs: f64, mean: f64, variance: f64| {
        let half = half_width(pairs, variance, confidence);
        (low, high) = (low.max(mean - half), high.min(mean + half));
    };
    for (at, ratio) in ratios.iter().enumerate() {
        let (pairs, distance) = (at as f64 + 1.0, ratio - mean);
        mean += distance / pairs;
        squares += distance * (ratio - mean);
        if at > 0 {
            narrow(pairs, mean, squares / (pairs - 1.0));
        }
    }
    let pairs = ratios.len() as f64;
    if data > 1.0 && pairs > 1.0 {
        narrow((pairs * data).floor(), mean, squares / (pairs - 1.0));
    }
    (low, high)
}

/// Half-width of the interval after `pairs` pairs with this sample variance: where the Bayes factor is 1/α. With c = 1 +
/// PRIOR · n it is (1 + x)^(n/2) (1 + x/c)^(-n/2) / √c, and x = t² / (n - 1).
fn half_width(pairs: f64, variance: f64, confidence: Confidence) -> f64 {
    let grown = 1.0 + PRIOR * pairs;
    let root = (grown.sqrt() / (1.0 - confidence.share())).powf(2.0 / pairs);
    if root >= grown {
        return f64::INFINITY;
    }
    let x = (root - 1.0) / (1.0 - root / grown);
    (variance * x * (pairs - 1.0) / pairs).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pairs whose values the client knows.
    fn known(ratios: &[f64]) -> Sequence {
        Sequence::new(&ratios.iter().map(|ratio| (*ratio, *ratio)).collect::<Vec<_>>())
    }

    #[test]
    fn the_interval_is_where_the_bayes_factor_reaches_its_level() {
        for (pairs, confidence) in [(4.0_f64, 0.95), (10.0, 0.95), (30.0, 0.975)] {
            let variance = 0.0003_f64;
            let half = half_width(pairs, variance, Confidence(confidence));
            let (t, grown) = (half / (variance / pairs).sqrt(), 1.0 + PRIOR * pairs);
            let x = t * t / (pairs - 1.0);
            let factor = ((1.0 + x) / (1.0 + x / grown)).powf(pairs / 2.0) / grown.sqrt();
            assert!((factor * (1.0 - confidence) - 1.0).abs() < 1e-9, "{factor}");
        }
    }

    #[test]
    fn intervals_of_known_pairs() {
        // Mean 0.05, variance 0.0004 / 3. With n = 4: c = 17, root = (√17 / 0.05)^(1/2) = 9.0808, x = 8.0808 /
        // (1 - 0.53417) = 17.347; the half-width is √(0.0004 / 3 · 17.347 · 3 / 4) = 0.041649.
        let four = known(&[0.04, 0.06, 0.04, 0.06]);
        let (low, high) = four.bounds(Confidence::USUAL, 1.0).unwrap();
        assert!((low - 0.008_351).abs() < 1e-6 && (high - 0.091_649).abs() < 1e-6, "{low} {high}");
        let more = four.bounds(Confidence::USUAL, 3.0).unwrap();
        assert!(more.0 > low && more.1 < high);
        assert!(known(&[0.04, 0.06, 0.04]).bounds(Confidence::USUAL, 1.0).is_none(), "three are too few");
        // Every ratio may be 0.01 higher: only the upper end moves.
        let wider = Sequence::new(&[(0.04, 0.05), (0.06, 0.07), (0.04, 0.05), (0.06, 0.07)]);
        let (min, max) = wider.bounds(Confidence::USUAL, 1.0).unwrap();
        assert!(min == low && (max - high - 0.01).abs() < 1e-12, "{min} {max}");
    }

    #[test]
    fn an_interval_never_widens_and_a_contradiction_is_none() {
        let mut ratios = vec![0.0, 0.001, -0.001, 0.0005, -0.0005];
        let before = known(&ratios).bounds(Confidence::USUAL, 1.0).unwrap();
        ratios.push(0.05);
        assert_eq!(known(&ratios).bounds(Confidence::USUAL, 1.0).unwrap(), before);
        ratios.extend((0..40).map(|at| 0.05 + 0.0005 * f64::from(at % 3)));
        assert_eq!(known(&ratios).bounds(Confidence::USUAL, 1.0), None);
    }
}
