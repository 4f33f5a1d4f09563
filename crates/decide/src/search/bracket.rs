//! Bisection: narrows and confirms the bracket between passing and failing loads, and interpolates within it.

use tacho_metrics::interval::half_width;

use super::{Estimate, Measurement, Search, Step, StopReason};

/// Runs that decide on a load without a known error: the fewest that give a usable standard deviation.
const REPEATS: usize = 3;
/// Outputs that are too few to decide are followed by this many times as many.
const LONGER: f64 = 2.0;
/// A run shorter than this fraction of the time for a decision is brief.
pub(super) const BRIEF: f64 = 0.7;

/// All runs of one load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LoadLevel {
    /// The load.
    pub level: f64,
    /// Number of runs.
    pub runs: usize,
    /// Number of runs that did not keep up with the load.
    pub overloaded: usize,
    /// Duration of the longest run, in seconds; 0 if unknown.
    longest: f64,
    /// Mean relative distance from the target, weighted by duration; positive if it is missed.
    pub margin: f64,
    /// Its 95% interval; infinite if a single run has none.
    interval: (f64, f64),
    /// Whether every run has an interval of its own, and whether they decide without a repeat.
    is_bounded: bool,
    is_certain: bool,
    /// Whether it passes above the estimate from all runs, possibly by chance.
    pub by_chance: bool,
    /// Whether no run was long enough to decide.
    pub brief: bool,
}

impl LoadLevel {
    /// The summary of the runs of one load.
    pub fn of(runs: &[Measurement]) -> Self {
        let weights: f64 = runs.iter().map(weight).sum();
        let exact = runs.iter().all(|run| run.error == Some(0.0));
        let margins: Vec<f64> = runs.iter().map(|run| run.margin).collect();
        let mean = |of: fn(&Measurement) -> f64| runs.iter().map(|run| of(run) * weight(run)).sum::<f64>() / weights;
        let (margin, own) = (mean(|run| run.margin), (mean(|run| run.bounds.0), mean(|run| run.bounds.1)));
        let half_width = if exact { 0.0 } else { half_width(&margins).unwrap_or(f64::INFINITY) };
        let overloaded = runs.iter().filter(|run| !run.sustained).count();
        let is_bounded = own.1.is_finite();
        // Repeats of the same requests vary less than other requests would: outputs have their own interval.
        let interval = if is_bounded { own } else { (own.0.max(margin - half_width), margin + half_width) };
        LoadLevel {
            level: runs.first().map_or(0.0, |run| run.level),
            runs: runs.len(),
            overloaded,
            longest: runs.iter().map(|run| run.seconds).fold(0.0, f64::max),
            margin,
            interval,
            is_bounded,
            is_certain: exact || own.0 > 0.0 || (own.1 <= 0.0 && overloaded == 0),
            by_chance: false,
            brief: false,
        }
    }

    /// Returns whether the server kept up in most runs.
    pub fn is_sustained(&self) -> bool {
        self.overloaded * 2 <= self.runs
    }

    /// Returns whether its own runs meet the target.
    pub fn passes(&self) -> bool {
        self.margin <= 0.0 && self.is_sustained()
    }

    /// Returns whether it meets the target both by its own runs and by those of all loads.
    pub fn is_met(&self) -> bool {
        self.passes() && !self.by_chance
    }

    /// Returns whether no run was long enough to decide; `unit` is the required duration.
    pub(super) fn is_brief(&self, unit: f64) -> bool {
        self.longest > 0.0 && self.longest < BRIEF * unit
    }

    /// Returns whether several runs of its own show that it meets the target, whatever a model of all loads says.
    pub(super) fn is_proven(&self) -> bool {
        self.runs >= REPEATS && self.overloaded == 0 && self.upper() <= 0.0
    }

    /// Returns whether more runs would tell more.
    fn is_open(&self) -> bool {
        !self.is_certain && (self.runs < REPEATS || self.is_unsettled())
    }

    /// Returns whether the outputs of its runs are too few to tell whether it meets the target.
    pub fn is_unsettled(&self) -> bool {
        self.is_bounded && !self.is_certain && self.overloaded == 0
    }

    /// Upper confidence bound of the margin.
    fn upper(&self) -> f64 {
        if self.is_sustained() { self.interval.1 } else { f64::INFINITY }
    }

    /// Lower confidence bound of the margin. A load that was never sustained fails, whatever its latencies.
    fn lower(&self) -> f64 {
        if self.overloaded == self.runs && self.runs > 1 { f64::INFINITY } else { self.interval.0 }
    }
}

/// Runs of zero duration count equally.
fn weight(run: &Measurement) -> f64 {
    run.seconds.max(1e-9)
}

/// The loads in ascending order.
pub(super) fn summarize(runs: &[Measurement]) -> Vec<LoadLevel> {
    let mut sorted = runs.to_vec();
    sorted.sort_by(|one, other| one.level.total_cmp(&other.level));
    sorted.chunk_by(|one, other| one.level == other.level).map(LoadLevel::of).collect()
}

/// The largest passing load below the first failing one, and that one.
fn bracket(levels: &[LoadLevel]) -> (Option<&LoadLevel>, Option<&LoadLevel>) {
    let at = levels.iter().position(|level| !level.passes()).unwrap_or(levels.len());
    (at.checked_sub(1).map(|before| &levels[before]), levels.get(at))
}

impl Search<'_> {
    /// Grows, halves, then repeats the ends of the bracket.
    pub(super) fn bisect(&self, runs: &[Measurement]) -> Step {
        let levels = summarize(runs);
        let Some(largest) = levels.last() else { return self.explore(self.levels.nearest(self.levels.first)) };
        let (passing, failing) = bracket(&levels);
        let Some(failing) = failing else { return self.grow(runs, largest.level) };
        let left = passing.map_or(0.0, |passing| passing.level);
        let wide = failing.level - left > self.tolerance * left;
        if let Some(middle) = self.levels.between(left, failing.level).filter(|_| wide) {
            return self.explore(middle);
        }
        let rest = self.budget - runs.iter().map(|run| run.seconds).sum::<f64>();
        let confirm = |end: &LoadLevel| {
            let longer = if end.is_unsettled() { (LONGER * end.longest).min(rest) } else { 0.0 };
            Step::Run { level: end.level, seconds: (self.unit)(end.level).max(longer) }
        };
        // The answer never rests on a brief run, however certain.
        let is_brief = |end: &LoadLevel| end.is_bounded && end.passes() && end.is_brief((self.unit)(end.level));
        match passing.into_iter().chain([failing]).find(|end| end.is_open() || is_brief(end)) {
            Some(_) if rest <= 0.0 => match passing.filter(|end| end.is_brief((self.unit)(end.level))) {
                Some(end) => confirm(end),
                None if passing.is_none() && failing.runs > 1 && !failing.is_unsettled() => {
                    Step::Done(StopReason::Infeasible)
                }
                None => Step::Done(StopReason::Budget),
            },
            Some(end) => confirm(end),
            None if passing.is_none() => Step::Done(StopReason::Infeasible),
            None => Step::Done(StopReason::Precise),
        }
    }
}

/// The interpolated load that just meets the target: from the means, and from both ends of their intervals.
pub(super) fn estimate(levels: &[LoadLevel]) -> Option<Estimate> {
    let (passing, failing) = bracket(levels);
    let passing = passing?;
    let Some(failing) = failing else {
        return Some(Estimate { value: passing.level, low: passing.level, high: None });
    };
    let value = crossing(passing, failing, LoadLevel::likely).unwrap_or(f64::midpoint(passing.level, failing.level));
    // A load that passes significantly bounds the result from below, one that fails significantly from above.
    let sure = levels.iter().rposition(|level| level.upper() <= 0.0 && level.level <= passing.level);
    let low =
        sure.map_or(0.0, |at| crossing(&levels[at], &levels[at + 1], LoadLevel::upper).unwrap_or(levels[at].level));
    let fails = levels.iter().position(|level| level.lower() > 0.0 && level.level >= failing.level);
    let high = fails.map(|at| crossing(&levels[at - 1], &levels[at], LoadLevel::lower).unwrap_or(levels[at].level));
    Some(Estimate { value, low: low.min(value), high: high.map(|high| high.max(value)) })
}

impl LoadLevel {
    fn likely(&self) -> f64 {
        if self.is_sustained() { self.margin } else { f64::INFINITY }
    }
}

/// The load at which the line between two loads reaches zero; `None` if a load was not sustained: its margin is
/// unknown, only that the load is too large. Outputs may change at any load between the two.
fn crossing(passing: &LoadLevel, failing: &LoadLevel, of: impl Fn(&LoadLevel) -> f64) -> Option<f64> {
    let ((x0, y0), (x1, y1)) = ((passing.level, of(passing)), (failing.level, of(failing)));
    (!passing.is_bounded && y0 <= 0.0 && y1 > 0.0 && y0.is_finite() && y1.is_finite())
        .then(|| x0 + (x1 - x0) * -y0 / (y1 - y0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three runs of a load around a margin.
    fn spread(level: f64, margin: f64, spread: f64) -> Vec<Measurement> {
        let run = |margin: f64| Measurement { margin, error: None, ..Measurement::exact(level, true) };
        [-spread, 0.0, spread].map(|off| run(margin + off)).to_vec()
    }

    fn found(loads: &[(f64, f64, f64)]) -> Option<Estimate> {
        estimate(&summarize(
            &loads.iter().flat_map(|&(level, margin, off)| spread(level, margin, off)).collect::<Vec<_>>(),
        ))
    }

    #[test]
    fn the_estimate_lies_between_pass_and_failure() {
        let found_at = found(&[(20.0, -0.6, 0.04), (30.0, -0.2, 0.04), (40.0, 0.1, 0.04), (50.0, 0.6, 0.04)]).unwrap();
        assert!((30.0..40.0).contains(&found_at.value), "{found_at:?}");
        assert!(found_at.low > 20.0 && found_at.high.is_some_and(|high| high <= 50.0), "{found_at:?}");
        assert!(found_at.low < found_at.value && found_at.high > Some(found_at.value), "{found_at:?}");
        assert_eq!(found(&[(20.0, -0.6, 0.04), (40.0, 0.02, 0.04)]).unwrap().high, None, "40 may fail by chance");
        assert_eq!(found(&[(20.0, 0.6, 0.04)]), None, "nothing passes");
    }

    #[test]
    fn where_nothing_varies_the_range_is_a_point() {
        let point = Estimate { value: 13.0, low: 13.0, high: Some(13.0) };
        assert_eq!(found(&[(10.0, -0.2, 0.0), (13.0, 0.0, 0.0), (14.0, 0.08, 0.0)]), Some(point));
    }

    #[test]
    fn a_load_that_was_not_sustained_fails_whatever_its_latencies() {
        let mut runs = spread(10.0, -0.5, 0.0);
        runs.iter_mut().skip(1).for_each(|run| run.sustained = false);
        let level = LoadLevel::of(&runs);
        assert!(!level.passes() && LoadLevel::of(&runs[..2]).passes());
    }

    #[test]
    fn outputs_decide_by_their_own_interval() {
        let run = |level: f64, margin: f64, half: f64| Measurement {
            bounds: (margin - half, margin + half),
            seconds: 5.0,
            ..spread(level, margin, 0.0)[0]
        };
        // One run at each load, without a repeat.
        let runs = [run(8.0, -0.08, 0.05), run(9.0, 0.3, 0.1)];
        let found = estimate(&summarize(&runs)).unwrap();
        assert_eq!((found.low, found.high), (8.0, Some(9.0)));
        // Equal repeats do not tell what other questions would.
        let unsure = [run(8.0, -0.02, 0.05); 3];
        assert!(LoadLevel::of(&unsure).is_unsettled() && LoadLevel::of(&unsure).upper() > 0.0);
        let backlog = Measurement { sustained: false, ..runs[0] };
        assert!(LoadLevel::of(&[backlog]).is_open() && !LoadLevel::of(&runs[..1]).is_open());
        // Latencies that decide too are not known by one run.
        let mixed = LoadLevel::of(&[Measurement { bounds: (-0.13, f64::INFINITY), ..runs[0] }]);
        assert!(mixed.is_open() && !mixed.is_unsettled());
    }

    #[test]
    fn longer_runs_count_more() {
        let run = |margin: f64, seconds: f64| Measurement { margin, seconds, ..Measurement::exact(10.0, true) };
        assert!(LoadLevel::of(&[run(-0.2, 1.0), run(0.1, 10.0)]).margin > 0.0);
    }
}
