//! Failed requests, judged before any latency: a server that is fast because it refuses requests has not improved.

use tacho_metrics::interval::fisher_at_least;
use tacho_record::StoredRun;

use super::Judgment;

/// The limit on failures.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct FailureRule {
    /// The largest failure rate of the candidate; without it, no significant increase over the baseline.
    pub max: Option<f64>,
}

/// Failed requests on both sides.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Failures {
    /// Failed and all requests of the baseline; `None` if its files lack them.
    pub base: Option<(u64, u64)>,
    /// Failed and all requests of the candidate.
    pub new: Option<(u64, u64)>,
    /// p-value: the probability of at least as many failures on the candidate side under equal failure rates
    /// (Fisher's exact test).
    pub chance: f64,
    /// The verdict.
    pub judgment: Judgment,
    /// The given limit.
    pub max: Option<f64>,
}

impl FailureRule {
    /// Counts both sides and judges them by the limit.
    pub fn judge(&self, base: &[StoredRun], new: &[StoredRun]) -> Failures {
        let count = |runs: &[StoredRun]| {
            let counts: Option<Vec<(u64, u64)>> = runs.iter().map(StoredRun::failures).collect();
            counts.map(|counts| counts.iter().fold((0, 0), |(a, b), (c, d)| (a + c, b + d)))
        };
        let any = !new.is_empty();
        let (base, new) = (count(base), count(new));
        let chance = match (base, new) {
            (Some((before, all_before)), Some((after, all_after))) => {
                fisher_at_least(after, all_after, before + after, all_before + all_after)
            }
            _ => 1.0,
        };
        let share = new.map_or(0.0, |(failed, all)| failed as f64 / all.max(1) as f64);
        // A side without a successful request cannot be within a limit.
        let none = any && new.is_some_and(|(failed, all)| failed == all);
        let beyond = self.max.is_some_and(|max| share > max) || none;
        let judgment = if beyond { Judgment::Beyond } else { Judgment::Within };
        Failures { base, new, chance, judgment, max: self.max }
    }
}

impl Failures {
    /// The p-value corrected for being looked at for the `look`-th time: look k gets the share 1/(k(k+1)) of the error
    /// rate, and the shares of all looks add up to 1.
    pub(super) fn at_look(mut self, look: usize) -> Self {
        self.chance = (self.chance * (look * (look + 1)) as f64).min(1.0);
        self
    }

    /// Returns whether the failure rates can be tested against each other.
    pub(super) fn is_testable(&self) -> bool {
        let failed = |side: Option<(u64, u64)>| side.map_or(0, |(failed, _)| failed);
        let known = self.base.is_some() && self.new.is_some();
        // Without failures there is nothing to test, and the other rules need no correction for it.
        self.max.is_none() && known && failed(self.base) + failed(self.new) > 0 && self.judgment == Judgment::Within
    }
}
