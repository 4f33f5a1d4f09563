//! Paired design: the runs of both sides have the same workloads, that is, the same requests at the same scheduled
//! times. The variation of arrivals and lengths is then common to both sides and cancels; only the run-to-run
//! variation of one workload remains. Each run's logarithm is a workload effect, plus the change on the candidate
//! side, plus noise. With one workload this is the two-sample t test, with several and a run on each side the paired
//! t test.

use std::collections::BTreeMap;

use tacho_metrics::{interval::student, statistics::mean};

use super::{Confidence, side::Side};

/// The change between two paired sides.
#[derive(Debug, Clone, Copy)]
pub(super) struct Paired {
    /// The change of the logarithm.
    pub(super) change: f64,
    /// The weighted mean logarithm of the baseline; that of the candidate is higher by the change.
    pub(super) base: f64,
    /// The variance of the change is the variance of one run divided by this.
    weight: f64,
    /// The residual sum of squares.
    squares: f64,
    runs: f64,
    workloads: f64,
}

/// With fewer degrees of freedom the run-to-run variation is too uncertain to be used alone.
const MIN_DEGREES_OF_FREEDOM: f64 = 3.0;

impl Paired {
    /// `None` if a workload is unknown or was run on one side only.
    pub(super) fn of(base: &Side, new: &Side) -> Option<Self> {
        let (base, new) = (by_workload(base)?, by_workload(new)?);
        if !base.keys().eq(new.keys()) {
            return None;
        }
        let (mut weight, mut weighed, mut level) = (0.0, 0.0, 0.0);
        let pairs = || base.values().zip(new.values());
        for (before, after) in pairs() {
            let (first, second) = (before.len() as f64, after.len() as f64);
            let own = first * second / (first + second);
            weight += own;
            weighed += own * (mean(after) - mean(before));
            level += own * mean(before);
        }
        let change = weighed / weight;
        let left = |(before, after): (&Vec<f64>, &Vec<f64>)| {
            let moved: Vec<f64> = before.iter().copied().chain(after.iter().map(|log| log - change)).collect();
            let middle = mean(&moved);
            moved.iter().map(|log| (log - middle).powi(2)).sum::<f64>()
        };
        let runs = pairs().map(|(before, after)| before.len() + after.len()).sum::<usize>() as f64;
        Some(Paired {
            change,
            base: level / weight,
            weight,
            squares: pairs().map(left).sum(),
            runs,
            workloads: base.len() as f64,
        })
    }

    /// Residual degrees of freedom with `data` times as many runs; additional runs have new workloads if there are
    /// several.
    fn degrees_of_freedom(&self, data: f64) -> f64 {
        let runs = self.runs * data;
        runs - 1.0 - if self.workloads > 1.0 { self.workloads * data } else { 1.0 }
    }

    /// Returns whether the runs show the run-to-run variation.
    pub(super) fn has_variance(&self) -> bool {
        // Bit-identical runs are more likely copies of one run than exact repeats.
        self.degrees_of_freedom(1.0) > 0.0 && self.squares > 0.0
    }

    /// Returns whether the variation is known well enough to be used alone.
    pub(super) fn is_enough(&self, data: f64) -> bool {
        self.has_variance() && self.degrees_of_freedom(data) >= MIN_DEGREES_OF_FREEDOM
    }

    /// Half-width of the change's interval, with `data` times as many runs.
    pub(super) fn half(&self, confidence: Confidence, data: f64) -> Option<f64> {
        let variance = self.squares / self.degrees_of_freedom(1.0);
        let half =
            || student(confidence.share(), self.degrees_of_freedom(data)) * (variance / (self.weight * data)).sqrt();
        self.has_variance().then(half)
    }

    /// The same with an assumed run-to-run variation.
    pub(super) fn assumed(&self, noise: f64, confidence: Confidence, data: f64) -> f64 {
        student(confidence.share(), f64::INFINITY) * noise / (self.weight * data).sqrt()
    }
}

fn by_workload(side: &Side) -> Option<BTreeMap<&str, Vec<f64>>> {
    let mut all: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for (workload, log) in side.workloads.iter().zip(&side.logs) {
        all.entry(workload.as_deref()?).or_default().push(*log);
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(runs: &[(&str, f64)]) -> Side {
        Side::known(runs.iter().map(|(workload, log)| (Some((*workload).to_owned()), *log)).collect())
    }

    #[test]
    fn one_workload_is_a_test_of_two_samples() {
        let paired = Paired::of(&side(&[("a", 1.0), ("a", 1.2)]), &side(&[("a", 1.5), ("a", 1.9)])).unwrap();
        // Means 1.1 and 1.7, pooled variance (0.02 + 0.08) / 2, over two runs each: t(2) is 4.303.
        assert!((paired.change - 0.6).abs() < 1e-12);
        let half = paired.half(Confidence::USUAL, 1.0).unwrap();
        assert!((half - 4.303 * 0.05_f64.sqrt()).abs() < 1e-3, "{half}");
        assert!(paired.has_variance() && !paired.is_enough(1.0) && paired.is_enough(2.0));
    }

    #[test]
    fn several_workloads_are_pairs() {
        let base = side(&[("a", 1.0), ("b", 5.0), ("c", 3.0), ("d", 9.0)]);
        let new = side(&[("c", 3.2), ("a", 1.1), ("d", 9.1), ("b", 5.2)]);
        let paired = Paired::of(&base, &new).unwrap();
        // Differences 0.1, 0.2, 0.2, 0.1: their standard deviation is 0.0577, over four pairs 0.0289; t(3) is 3.182.
        assert!((paired.change - 0.15).abs() < 1e-12);
        let half = paired.half(Confidence::USUAL, 1.0).unwrap();
        assert!((half - 3.182 * 0.028_87).abs() < 1e-3, "{half}");
        assert!(paired.is_enough(1.0));
    }

    #[test]
    fn other_workloads_are_not_alike() {
        assert!(Paired::of(&side(&[("a", 1.0)]), &side(&[("b", 1.0)])).is_none());
        assert!(Paired::of(&side(&[("a", 1.0), ("b", 1.0)]), &side(&[("a", 1.0)])).is_none());
        let untold = Side::known(vec![(None, 1.0)]);
        assert!(Paired::of(&untold, &untold).is_none());
        let single = Paired::of(&side(&[("a", 1.0)]), &side(&[("a", 2.0)])).unwrap();
        assert_eq!((single.has_variance(), single.half(Confidence::USUAL, 1.0)), (false, None));
        assert!((single.assumed(0.01, Confidence::USUAL, 1.0) - 1.96 * 0.01 * 2.0_f64.sqrt()).abs() < 1e-4);
        let equal = side(&[("a", 1.0), ("a", 1.0), ("a", 1.0)]);
        assert!(!Paired::of(&equal, &equal).unwrap().has_variance());
    }
}
