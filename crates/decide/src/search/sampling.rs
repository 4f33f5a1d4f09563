//! Places runs by the posterior of a model: at the loads that give the most information, with increasing durations.

use super::{Estimate, Measurement, Model, Search, Step, StopReason, closed_loop, open_loop, posterior::Posterior};

const EXPLORING_RUNS: usize = 4;
/// Relative width of the range below which exploration ends.
const FOUND: f64 = 0.1;
/// Loads within this relative distance of the estimate count as near it.
const NEAR: f64 = 0.15;
/// A latency beyond this multiple of the target is not due to chance near the estimate.
const CLEARLY: f64 = 1.8;
/// Each run is longer than the longest before it by this factor.
const LONGER: f64 = 1.5;
/// Largest fraction of the budget of one run.
const RUN_FRACTION: f64 = 0.2;
/// A run of at least this fraction of the time for a decision counts as full.
const FULL: f64 = 0.7;
const MAX_RUNS: usize = 60;
/// A load is light up to this fraction of the throughput under unlimited load.
const LIGHT: f64 = 0.25;
/// Load of the first run, as a fraction of the throughput under unlimited load.
const FIRST: f64 = 0.9;
/// With less time than this multiple of a decision left, a load is confirmed that very likely meets the target.
const LAST: f64 = 2.0;
/// The next load below the first one that fails, but not clearly, as a fraction of it.
const NEARBY: f64 = 0.75;
/// A load beyond the capacity, as a multiple of that throughput.
const BEYOND_CAPACITY: f64 = 1.3;

impl Search<'_> {
    /// The next run according to the model.
    pub(super) fn sample(&self, runs: &[Measurement]) -> Step {
        let rest = self.budget - runs.iter().map(|run| run.seconds).sum::<f64>();
        let (made, runs) = (runs.len(), &without_lucky(runs)[..]);
        let explore = |load: f64| self.explore(self.levels.nearest(load));
        let loads = || runs.iter().map(|run| run.level);
        let (Some(min), Some(max)) = (loads().reduce(f64::min), loads().reduce(f64::max)) else {
            return explore(FIRST * self.levels.first);
        };
        let over = match () {
            () if self.is_infeasible(runs, rest <= 0.0) => Some(StopReason::Infeasible),
            () if rest <= 0.0 => Some(StopReason::Budget),
            () if made >= MAX_RUNS => Some(StopReason::Runs),
            () => None,
        };
        if let Some(reason) = over {
            return self.stop(runs, reason);
        }
        if runs.iter().all(Measurement::passes) {
            return self.grow(runs, max);
        }
        if self.model != Model::ClosedLoop && runs.len() < EXPLORING_RUNS - 1 && open_loop::capacity(runs).is_none() {
            return explore(BEYOND_CAPACITY * self.levels.first.max(max));
        }
        if !runs.iter().any(Measurement::passes) {
            // Where no light load meets the target, an idle server shows whether any does.
            let light = min <= LIGHT * self.levels.first;
            // The first failure may be just above the target.
            let near = runs.iter().filter(|run| !fails_clearly(run)).count() == 1;
            let lower = if near { NEARBY * min } else { min / 2.0 };
            return explore(if light { self.levels.min } else { lower });
        }
        match self.posterior(runs) {
            Some(found) => self.refine(runs, &found, rest),
            None => Step::Done(StopReason::Runs),
        }
    }

    /// The run that narrows the posterior.
    fn refine(&self, runs: &[Measurement], found: &Posterior, rest: f64) -> Step {
        let half = (found.high - found.low) / 2.0 / found.median;
        if runs.len() < EXPLORING_RUNS && half > FOUND {
            let load = if runs.len().is_multiple_of(2) { found.median } else { found.below };
            return self.explore(self.levels.nearest(load));
        }
        let unit = (self.unit)(self.levels.nearest(found.median));
        let near = |run: &&Measurement| (run.level / found.median - 1.0).abs() < NEAR;
        let full = runs.iter().filter(near).filter(|run| run.seconds >= FULL * unit).count();
        if rest < super::EXPLORING * unit {
            return self.stop(runs, StopReason::Budget);
        }
        if half <= self.tolerance && full >= 2 {
            let Some(level) = only_failure(runs) else { return self.confirm(runs, StopReason::Precise) };
            return Step::Run { level, seconds: unit.min(rest) };
        }
        let time = |below: bool| {
            let side = runs.iter().filter(near).filter(|run| (run.level <= found.median) == below);
            side.map(|run| run.seconds).sum::<f64>()
        };
        let confirmed = self.outcome(runs).largest_met.is_some();
        let load = match confirmed {
            // The answer must be a load that was measured and met. Of loads near the estimate, only those below it count.
            false if rest < LAST * unit || full >= 2 => found.safe,
            false => found.below,
            true if time(true) <= time(false) => found.below,
            true => found.above,
        };
        let longest = runs.iter().map(|run| run.seconds).fold(0.0, f64::max);
        let seconds = (LONGER * longest).clamp(unit, (RUN_FRACTION * self.budget).max(unit)).min(rest);
        Step::Run { level: self.levels.nearest(load), seconds }
    }

    /// The end of the search; precise if the range is, whatever else ended it.
    fn stop(&self, runs: &[Measurement], reason: StopReason) -> Step {
        let precise = self.sampled(runs).and_then(|found| found.reach()).is_some_and(|reach| reach <= self.tolerance);
        Step::Done(if precise { StopReason::Precise } else { reason })
    }

    /// The posterior within the loads that decide by themselves: a latency may rise more steeply than a model assumes.
    fn posterior(&self, runs: &[Measurement]) -> Option<Posterior> {
        let found = match self.model {
            Model::OpenLoop { limit } => open_loop::posterior(runs, limit),
            Model::ClosedLoop | Model::Monotone => closed_loop::posterior(runs),
        }?;
        let failing = runs.iter().filter(|run| !run.passes()).map(|run| run.level).fold(f64::INFINITY, f64::min);
        let met = repeated(runs, |run| run.sustained && run.ratio() < 1.0 / CLEARLY).filter(|level| *level < failing);
        Some(found.at_least(met.fold(0.0, f64::max)))
    }

    /// The estimate as far as runs support it, because a model extrapolates beyond them. `None` if no run up to it
    /// met the target; no upper end if none missed it.
    pub(super) fn sampled(&self, runs: &[Measurement]) -> Option<Estimate> {
        let runs = &without_lucky(runs)[..];
        let met = || runs.iter().filter(|run| run.passes()).map(|run| run.level);
        let (min, max) = (met().reduce(f64::min)?, met().reduce(f64::max)?);
        if runs.iter().all(Measurement::passes) {
            return Some(Estimate { value: max, low: max, high: None });
        }
        let found = self.posterior(runs).filter(|found| min <= found.high)?;
        Some(Estimate { value: found.median, low: found.low, high: Some(found.high) })
    }

    /// Returns whether even the smallest load fails: more than once, or clearly and like other light loads, for which there is
    /// no time at the end of the budget.
    fn is_infeasible(&self, runs: &[Measurement], is_over: bool) -> bool {
        let lowest = || runs.iter().filter(|run| run.level <= self.levels.min);
        let light = runs.iter().filter(|run| run.level <= LIGHT * self.levels.first);
        let others = is_over || light.filter(|run| fails_clearly(run)).count() > 1;
        let clear = lowest().any(fails_clearly) && others;
        !lowest().any(Measurement::passes) && (lowest().count() > 1 || clear)
    }
}

/// Returns whether it fails by so much that it is not near the estimate.
fn fails_clearly(run: &Measurement) -> bool {
    !run.sustained || run.ratio() > CLEARLY
}

/// The runs without those that met the target above a load that failed clearly every time: they passed by chance.
fn without_lucky(runs: &[Measurement]) -> Vec<Measurement> {
    let broken = repeated(runs, fails_clearly).fold(f64::INFINITY, f64::min);
    runs.iter().filter(|run| run.level < broken || !run.passes()).copied().collect()
}

/// The loads with several runs that are all alike.
fn repeated(runs: &[Measurement], alike: fn(&Measurement) -> bool) -> impl Iterator<Item = f64> {
    let at = move |level: f64| runs.iter().filter(move |run| run.level == level);
    runs.iter().map(|run| run.level).filter(move |level| at(*level).count() > 1 && at(*level).all(alike))
}

/// The lowest failing load, if it was run only once: it may be an outlier, and it bounds the result.
fn only_failure(runs: &[Measurement]) -> Option<f64> {
    let fails = |run: &&Measurement| !run.passes() || run.ratio() > 1.0;
    let lowest = runs.iter().filter(fails).map(|run| run.level).reduce(f64::min)?;
    (runs.iter().filter(|run| run.level == lowest).count() == 1).then_some(lowest)
}

#[cfg(test)]
mod tests {
    use super::super::{Growth, Levels};
    use super::*;

    const UNIT: &dyn Fn(f64) -> f64 = &|_| 10.0;

    fn search(first: f64) -> Search<'static> {
        let levels = Levels { growth: Growth::Factor(1.5), ..Levels::rates(first, 65535.0) };
        Search { levels, model: Model::OpenLoop { limit: 0.2 }, unit: UNIT, budget: 600.0, tolerance: 0.05 }
    }

    fn run(level: f64, seconds: f64, (ratio, sustained): (f64, bool)) -> Measurement {
        let (margin, error, completed_rate) = (ratio - 1.0, Some(0.05), level.min(100.0));
        Measurement { seconds, margin, error, sustained, completed_rate, ..Measurement::exact(level, true) }
    }

    /// All runs of a search on a server with latencies from the closure, and why it stopped.
    fn all_runs(search: &Search<'_>, server: impl Fn(f64, usize) -> (f64, bool)) -> (Vec<Measurement>, StopReason) {
        let mut runs: Vec<Measurement> = Vec::new();
        loop {
            match search.next(&runs) {
                Step::Run { level, seconds } => runs.push(run(level, seconds, server(level, runs.len()))),
                Step::Done(reason) => return (runs, reason),
            }
        }
    }

    /// Capacity 100 requests/s; the target is met up to 80.
    fn queue(level: f64) -> (f64, bool) {
        if level < 100.0 { (0.1 + 0.9 * 20.0 / (100.0 - level), true) } else { (20.0, false) }
    }

    #[test]
    fn a_search_ends_near_the_answer() {
        let (runs, reason) = all_runs(&search(100.0), |level, _| queue(level));
        let found = search(100.0).outcome(&runs).estimate.unwrap();
        assert!((found.value - 80.0).abs() < 4.0 && runs.len() < 30, "{found:?} {}", runs.len());
        assert!(runs.iter().map(|run| run.seconds).sum::<f64>() <= 601.0);
        assert_eq!(reason, StopReason::Precise);
    }

    #[test]
    fn a_single_failure_is_run_again() {
        let outlier = |level: f64, number: usize| if number == 0 { (30.0, true) } else { queue(level) };
        let (runs, _) = all_runs(&search(100.0), outlier);
        let found = search(100.0).outcome(&runs).estimate.unwrap();
        assert!((found.value - 80.0).abs() < 6.0, "{found:?}");
    }

    #[test]
    fn what_fails_at_the_lowest_load_is_infeasible_and_costs_little() {
        for ratio in [5.0, 1.2] {
            let (runs, reason) = all_runs(&search(100.0), |_, _| (ratio, true));
            assert!(reason == StopReason::Infeasible && runs.len() <= 7, "{reason:?} {}", runs.len());
        }
    }

    #[test]
    fn an_answer_needs_a_run_that_met_the_target() {
        let at = |level: f64, ratio: f64| run(level, 10.0, (ratio, true));
        let missed = [200.0, 100.0, 50.0].map(|level| at(level, 40.0));
        assert!(search(100.0).posterior(&missed).is_some(), "the curve continues below them");
        assert_eq!([search(100.0).sampled(&missed), search(100.0).sampled(&[])], [None, None]);
        // Passes by chance, far above loads that failed repeatedly.
        let lucky = [(400.0, 0.9), (100.0, 9.0), (100.0, 9.0), (50.0, 5.0), (50.0, 5.0), (25.0, 3.0), (25.0, 3.0)];
        assert_eq!(search(100.0).sampled(&lucky.map(|(level, ratio)| at(level, ratio))), None);
        let met = [90.0, 135.0].map(|level| at(level, 0.2));
        let open = Some(Estimate { value: 135.0, low: 135.0, high: None });
        assert_eq!(search(100.0).sampled(&met), open, "no upper end where no run missed the target");
    }

    /// Runs of a server whose queue begins when its batch is full: the TTFT jumps from 0.17 to 1.5 times the target.
    #[test]
    fn loads_that_met_the_target_clearly_bound_a_steep_rise() {
        let one = |(level, seconds, ratio): (f64, f64, f64)| Measurement {
            error: Some(0.6),
            completed_rate: level.min(12.0),
            ..run(level, seconds, (ratio, level < 17.0))
        };
        let runs = [(8.8, 10.0, 0.17), (13.2, 10.0, 3.8), (17.2, 10.0, 5.0), (10.2, 10.0, 1.02), (8.8, 24.0, 0.16)];
        let runs = [&runs[..], &[(11.7, 24.0, 1.33), (10.2, 18.0, 1.7)]].concat();
        let runs: Vec<Measurement> = runs.into_iter().map(one).collect();
        let search = Search { model: Model::OpenLoop { limit: 0.5 }, ..search(11.0) };
        let found = search.sampled(&runs).unwrap();
        assert!(found.low == 8.8 && (8.8..=10.2).contains(&found.value), "{found:?}");
        let once = search.sampled(&runs[1..]).unwrap();
        assert!(once.low < 8.0, "a single run does not decide: {once:?}");
    }

    #[test]
    fn a_server_below_one_request_per_second_has_an_answer() {
        // It saturates at 1 request per second and meets the target up to 0.8.
        let latency = |level: f64| if level < 1.0 { (0.1 + 0.9 * 0.2 / (1.0 - level), true) } else { (20.0, false) };
        let (model, unit) = (Model::OpenLoop { limit: 20.0 }, |_: f64| 600.0);
        let search = Search { model, unit: &unit, budget: 36_000.0, ..search(1.0) };
        let mut runs: Vec<Measurement> = Vec::new();
        while let Step::Run { level, seconds } = search.next(&runs) {
            runs.push(Measurement { completed_rate: level.min(1.0), ..run(level, seconds, latency(level)) });
        }
        let found = search.outcome(&runs).estimate.unwrap();
        assert!((found.value - 0.8).abs() < 0.05, "{found:?} {runs:?}");
    }

    #[test]
    fn the_next_load_follows_from_the_runs() {
        let users = Search { model: Model::ClosedLoop, levels: Levels::users(100.0, 1000.0), ..search(100.0) };
        let failed = |level| run(level, 4.0, (5.0, true));
        let next = |runs: &[Measurement]| users.next(runs);
        assert_eq!(next(&[]), Step::Run { level: FIRST * 100.0, seconds: 4.0 });
        assert_eq!(next(&[failed(90.0), failed(80.0)]), Step::Run { level: 40.0, seconds: 4.0 });
        assert_eq!(next(&[run(90.0, 4.0, (1.05, true))]), Step::Run { level: (NEARBY * 90.0).round(), seconds: 4.0 });
        // Rates far below the capacity grow by one and a half, then by its square, its cube, ….
        let met = |levels: &[f64]| levels.iter().map(|level| run(*level, 4.0, (0.1, true))).collect::<Vec<_>>();
        let grown = |levels: &[f64]| match search(1.0).next(&met(levels)) {
            Step::Run { level, .. } => level,
            Step::Done(_) => f64::NAN,
        };
        assert_eq!([grown(&[0.9]), grown(&[0.9, 1.4]), grown(&[0.9, 1.4, 3.2])], [1.4, 3.2, 10.8]);
        let brief = |seconds| users.outcome(&[run(50.0, seconds, (0.5, true))]).levels[0].brief;
        assert_eq!([brief(6.9), brief(7.1)], [true, false]);
    }
}
