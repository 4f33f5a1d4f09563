//! The search for the largest load that meets an SLO: a pure function from the runs so far to the next step.
//!
//! The search grows the load until a run fails, halves it until a run passes, and narrows the bracket between the
//! two: by bisection with repeats of both ends, or where a [`Model`] of latency against load expects the most
//! information. Exact measurements (error 0) are not repeated.

mod answer;
mod bracket;
mod closed_loop;
mod criterion;
mod levels;
mod open_loop;
mod posterior;
mod sampling;

#[cfg(test)]
mod known;

pub use answer::{LevelAnswer, Means, SearchAnswer, Verdict, load_value};
pub use bracket::LoadLevel;
pub use criterion::{BadCriterion, Criterion};
pub use levels::{Growth, Levels, Spacing, rate_step};

/// One run at one load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measurement {
    /// The load.
    pub level: f64,
    /// Actual arrival rate, requests per second: by chance more or less than the load.
    pub arrival_rate: f64,
    /// Duration; 0 if unknown.
    pub seconds: f64,
    /// Relative distance of the worst criterion from its target; positive if it is missed.
    pub margin: f64,
    /// Relative standard error of the metric; `None` if unknown, zero if exact.
    pub error: Option<f64>,
    /// The 95% interval of the margin that the outputs of the run alone tell; infinite where they tell nothing.
    pub bounds: (f64, f64),
    /// Whether the server kept up with the load.
    pub sustained: bool,
    /// Requests completed per second.
    pub completed_rate: f64,
    /// The metric over a long time, if the run tells it.
    pub long_run: Option<LongRunRatio>,
}

/// A metric over a long time at a load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LongRunRatio {
    /// The metric as a fraction of its target.
    pub ratio: f64,
    /// The part of the variance of a run that it is free of.
    pub explained: f64,
}

impl Measurement {
    /// A load that was decided without noise.
    pub fn exact(level: f64, passes: bool) -> Self {
        let margin = if passes { -1.0 } else { 1.0 };
        Measurement {
            level,
            arrival_rate: level,
            seconds: 0.0,
            margin,
            error: Some(0.0),
            bounds: (f64::NEG_INFINITY, f64::INFINITY),
            sustained: true,
            completed_rate: level,
            long_run: None,
        }
    }

    /// Returns whether the server kept up and met the target.
    pub fn passes(&self) -> bool {
        self.sustained && self.margin <= 0.0
    }

    /// The metric as a fraction of its target: over a long time, if the run tells it.
    fn ratio(&self) -> f64 {
        // A load that was not sustained has no latency over a long time.
        self.long_run.filter(|_| self.sustained).map_or(1.0 + self.margin, |long| long.ratio)
    }
}

/// How a metric depends on the load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Model {
    /// Monotone: more load is never better.
    Monotone,
    /// An open-loop queue: latency grows as the reciprocal of the spare capacity.
    OpenLoop {
        /// The largest allowed latency, in seconds.
        limit: f64,
    },
    /// A closed loop of users who wait for each response: latency grows with a power of their number.
    ClosedLoop,
}

/// The settings of a search.
#[derive(Clone, Copy)]
pub struct Search<'s> {
    /// The candidate loads.
    pub levels: Levels,
    /// How the metric depends on the load.
    pub model: Model,
    /// Seconds that a run at a load needs for a decision.
    pub unit: &'s dyn Fn(f64) -> f64,
    /// Total seconds of all runs. Bisection may exceed it, but then repeats nothing.
    pub budget: f64,
    /// Relative precision of the result: the bracket's width, or the half-width of a model's range.
    pub tolerance: f64,
}

/// The next step of a search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Step {
    /// Run a load.
    Run {
        /// The load.
        level: f64,
        /// Its duration.
        seconds: f64,
    },
    /// The search is over.
    Done(StopReason),
}

tacho_core::named! {
    /// Why a search ended.
    pub enum StopReason, "a reason to stop" {
        /// The result has the requested precision.
        Precise = "precision",
        /// The budget is spent.
        Budget = "budget",
        /// The maximum number of runs is reached.
        Runs = "runs",
        /// Even the lowest load fails.
        Infeasible = "infeasible",
        /// Even the largest load passes.
        Unlimited = "unlimited",
    }
}

/// The largest load that meets the target, with its 95% range.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The estimate.
    pub value: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end; `None` if no load fails significantly.
    pub high: Option<f64>,
}

impl Estimate {
    /// Relative distance from the estimate to the far end of the range; `None` without an upper end.
    pub fn reach(&self) -> Option<f64> {
        self.high.map(|high| (high - self.value).max(self.value - self.low) / self.value)
    }

    fn contains(&self, level: f64) -> bool {
        self.low <= level && self.high.is_none_or(|high| level <= high)
    }
}

/// The result of a search.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The largest measured load that met the target in a run that was long enough to decide.
    pub largest_met: Option<f64>,
    /// The estimated largest load that meets the target.
    pub estimate: Option<Estimate>,
    /// All loads in ascending order.
    pub levels: Vec<LoadLevel>,
    /// `true` if no load passed above a failing one.
    pub monotone: bool,
}

/// Exploring runs last this fraction of the time for a decision.
const EXPLORING: f64 = 0.4;

impl Search<'_> {
    /// The next step after these runs.
    pub fn next(&self, runs: &[Measurement]) -> Step {
        match self.model {
            Model::Monotone => self.bisect(runs),
            Model::OpenLoop { .. } | Model::ClosedLoop => self.sample(runs),
        }
    }

    /// The result of these runs.
    pub fn outcome(&self, runs: &[Measurement]) -> Outcome {
        let mut levels = bracket::summarize(runs);
        let failing = levels.iter().find(|level| !level.passes()).map(|level| level.level);
        let estimate = match self.model {
            Model::Monotone => bracket::estimate(&levels),
            Model::OpenLoop { .. } | Model::ClosedLoop => self.sampled(runs),
        };
        let monotone = !levels.iter().any(|level| level.passes() && failing.is_some_and(|at| level.level > at));
        let end = match self.model {
            Model::Monotone => failing.unwrap_or(f64::INFINITY),
            Model::OpenLoop { .. } | Model::ClosedLoop => estimate.map_or(0.0, |found| found.value),
        };
        for level in &mut levels {
            let proven = estimate.is_some_and(|found| found.contains(level.level)) && level.is_proven();
            level.by_chance = level.passes() && level.level > end && (self.model == Model::Monotone || !proven);
            level.brief = level.is_brief((self.unit)(level.level));
        }
        let met = levels.iter().filter(|level| level.is_met() && !level.brief);
        Outcome { largest_met: met.map(|level| level.level).reduce(f64::max), estimate, levels, monotone }
    }

    fn explore(&self, level: f64) -> Step {
        Step::Run { level, seconds: EXPLORING * (self.unit)(level) }
    }

    /// A larger load than any so far, if there is one. Rates that all pass grow faster each time: the first was far too low.
    fn grow(&self, runs: &[Measurement], largest: f64) -> Step {
        let is_open = matches!(self.model, Model::OpenLoop { .. });
        let steps = if is_open { bracket::summarize(runs).len() } else { 1 };
        match (0..steps).fold(largest, |load, _| self.levels.above(load).unwrap_or(load)) {
            level if level > largest => self.explore(level),
            _ => self.confirm(runs, StopReason::Unlimited),
        }
    }

    /// The end of the search, once the largest load that met the target has a run that is long enough to decide.
    fn confirm(&self, runs: &[Measurement], reason: StopReason) -> Step {
        let rest = self.budget - runs.iter().map(|run| run.seconds).sum::<f64>();
        let levels = self.outcome(runs).levels;
        let largest = levels.iter().rfind(|level| level.is_met()).filter(|level| level.brief);
        let seconds = |level: &LoadLevel| (self.unit)(level.level);
        match largest.filter(|level| rest >= bracket::BRIEF * seconds(level)) {
            Some(level) => Step::Run { level: level.level, seconds: seconds(level) },
            None => Step::Done(reason),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NO_TIME: &dyn Fn(f64) -> f64 = &|_| 0.0;

    fn whole(first: f64, max: f64) -> Search<'static> {
        let levels = Levels { first, min: 1.0, max, spacing: Spacing::Whole, growth: Growth::Factor(2.0) };
        Search { levels, model: Model::Monotone, unit: NO_TIME, budget: 1.0, tolerance: 0.0 }
    }

    /// The loads that a search tries if loads up to `limit` pass, and its result.
    fn found(search: &Search<'_>, limit: f64) -> (Vec<f64>, StopReason, Option<f64>) {
        let mut runs = Vec::new();
        loop {
            match search.next(&runs) {
                Step::Run { level, .. } => runs.push(Measurement::exact(level, level <= limit)),
                Step::Done(reason) => {
                    let tried = runs.iter().map(|run| run.level).collect();
                    return (tried, reason, search.outcome(&runs).largest_met);
                }
            }
        }
    }

    #[test]
    fn loads_are_doubled_and_bisected() {
        let search = |limit: f64| found(&whole(20.0, 1000.0), limit);
        let precise = |levels: &[f64], answer: f64| (levels.to_vec(), StopReason::Precise, Some(answer));
        assert_eq!(search(14.0), precise(&[20.0, 10.0, 15.0, 12.0, 13.0, 14.0], 14.0));
        assert_eq!(search(53.0), precise(&[20.0, 40.0, 80.0, 60.0, 50.0, 55.0, 52.0, 53.0, 54.0], 53.0));
        assert_eq!(search(0.5), (vec![20.0, 10.0, 5.0, 2.0, 1.0], StopReason::Infeasible, None));
        let (levels, reason, answer) = search(f64::INFINITY);
        assert_eq!((levels.last(), reason, answer), (Some(&1000.0), StopReason::Unlimited, Some(1000.0)));
    }

    #[test]
    fn steps_can_double_instead_of_loads() {
        let growth = Growth::Steps { from: 16.0, step: 8.0 };
        let mut search = whole(16.0, 1024.0);
        search.levels.growth = growth;
        assert_eq!(found(&search, 60.0).0, [16.0, 24.0, 40.0, 72.0, 56.0, 64.0, 60.0, 62.0, 61.0]);
    }

    #[test]
    fn ratios_are_bisected_by_their_geometric_mean() {
        let levels = Levels { spacing: Spacing::Geometric, ..whole(0.01, 1e6).levels };
        let search = Search { levels, tolerance: 0.01, ..whole(0.01, 1e6) };
        let (levels, _, answer) = found(&search, 80.0);
        assert!(answer.is_some_and(|answer| answer <= 80.0 && answer * 1.01 > 80.0), "{answer:?} {levels:?}");
    }

    #[test]
    fn rates_below_ten_are_fractions() {
        let levels = Levels::rates(1.0, 65535.0);
        let (_, _, answer) = found(&Search { levels, tolerance: 0.02, ..whole(1.0, 1.0) }, 0.704);
        assert_eq!(answer, Some(0.7));
    }

    #[test]
    fn the_ends_of_the_bracket_are_repeated_unless_they_are_exact() {
        let search = whole(10.0, 100.0);
        let noisy = |level: f64, margin: f64| Measurement { margin, error: None, ..Measurement::exact(level, true) };
        let mut runs = vec![noisy(10.0, -0.5), noisy(20.0, 0.5), noisy(11.0, 0.5)];
        for (level, margin) in [(10.0, -0.5), (10.0, -0.5), (11.0, 0.5), (11.0, 0.5)] {
            assert_eq!(search.next(&runs), Step::Run { level, seconds: 0.0 });
            runs.push(noisy(level, margin));
        }
        assert_eq!(search.next(&runs), Step::Done(StopReason::Precise));
        // A repeat may reverse the verdict: the search continues below.
        runs.extend([noisy(10.0, 9.0)]);
        assert_eq!(search.next(&runs), Step::Run { level: 5.0, seconds: 0.0 });
        let spent = Search { budget: 0.0, ..search };
        assert_eq!(spent.next(&runs[..3]), Step::Done(StopReason::Budget));
    }

    #[test]
    fn a_pass_above_a_failure_is_noticed() {
        let runs = [(10.0, false), (20.0, true), (5.0, true)].map(|(level, passes)| Measurement::exact(level, passes));
        let outcome = whole(10.0, 100.0).outcome(&runs);
        assert!(!outcome.monotone);
        assert_eq!(outcome.largest_met, Some(5.0));
        assert!(outcome.levels.iter().any(|level| level.level == 20.0 && level.by_chance));
    }

    proptest! {
        #[test]
        fn the_answer_is_the_largest_load_that_passes(limit in 1_u32..32768, first in 1_u32..60000) {
            let (levels, _, answer) = found(&whole(f64::from(first), 65535.0), f64::from(limit));
            prop_assert_eq!(answer, Some(f64::from(limit)));
            prop_assert!(levels.len() <= 40 && !levels.contains(&0.0));
        }

        #[test]
        fn a_resumed_search_ends_the_same(limit in 0_u32..5000, first in 1_u32..3000, cut in 0_usize..20) {
            let (search, limit) = (whole(f64::from(first), 65535.0), f64::from(limit));
            let (levels, reason, _) = found(&search, limit);
            let mut runs: Vec<Measurement> =
                levels.iter().take(cut).rev().map(|&level| Measurement::exact(level, level <= limit)).collect();
            while let Step::Run { level, .. } = search.next(&runs) {
                runs.push(Measurement::exact(level, level <= limit));
            }
            let mut all: Vec<f64> = runs.iter().map(|run| run.level).collect();
            all.sort_by(f64::total_cmp);
            let mut expected = levels.clone();
            expected.sort_by(f64::total_cmp);
            prop_assert_eq!(search.next(&runs), Step::Done(reason));
            prop_assert_eq!(all, expected);
        }
    }
}
