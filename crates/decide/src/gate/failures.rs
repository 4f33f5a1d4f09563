//! Failed requests, judged before any latency: a server that is fast because it refuses requests has not improved.

use tacho_metrics::interval::fisher_at_least;
use tacho_record::StoredRun;

use super::Judgement;

/// How many requests may fail.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct FailureRule {
    /// The largest share on the new side; without it, no more than on the base side but for chance.
    pub most: Option<f64>,
}

/// Failed requests on both sides.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Failures {
    /// Failed and all requests of the base; nothing where its files do not say.
    pub base: Option<(u64, u64)>,
    /// The same of the new side.
    pub new: Option<(u64, u64)>,
    /// How likely as many failures on the new side are if both sides fail alike.
    pub chance: f64,
    /// The verdict.
    pub judgement: Judgement,
    /// The limit that was given.
    pub most: Option<f64>,
}

impl FailureRule {
    /// Counts both sides and holds them to the limit.
    pub(super) fn judge(&self, base: &[StoredRun], new: &[StoredRun]) -> Failures {
        let count = |runs: &[StoredRun]| {
            let counts: Option<Vec<(u64, u64)>> = runs.iter().map(StoredRun::failures).collect();
            counts.map(|counts| counts.iter().fold((0, 0), |(a, b), (c, d)| (a + c, b + d)))
        };
        let (base, new) = (count(base), count(new));
        let chance = match (base, new) {
            (Some((before, all_before)), Some((after, all_after))) => {
                fisher_at_least(after, all_after, before + after, all_before + all_after)
            }
            _ => 1.0,
        };
        let share = new.map_or(0.0, |(failed, all)| failed as f64 / all.max(1) as f64);
        // A side without one answer has nothing that could be within a limit.
        let none = new.is_some_and(|(failed, all)| failed == all);
        let beyond = self.most.is_some_and(|most| share > most) || none;
        let judgement = if beyond { Judgement::Beyond } else { Judgement::Within };
        Failures { base, new, chance, judgement, most: self.most }
    }
}

impl Failures {
    /// Whether the sides can be compared and chance has a word in it.
    pub(super) fn is_testable(&self) -> bool {
        let failed = |side: Option<(u64, u64)>| side.map_or(0, |(failed, _)| failed);
        let told = self.base.is_some() && self.new.is_some();
        // Where nothing failed there is nothing to test, and other rules need not share their chances with it.
        self.most.is_none() && told && failed(self.base) + failed(self.new) > 0 && self.judgement == Judgement::Within
    }

    /// Calls the new side's failures more than chance.
    pub(super) fn beyond_chance(&mut self) {
        self.judgement = Judgement::Beyond;
    }
}
