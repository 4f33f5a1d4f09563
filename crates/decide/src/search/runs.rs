//! The next run of a search for the largest load: where it says most of the answer, and for how long.

use super::boundary::Boundary;
use super::posterior::{Held, Likely, capacity, likely};
use super::users::likely_users;

/// A run to be made.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Next {
    /// The load.
    pub level: f64,
    /// For how long it is held.
    pub seconds: f64,
}

/// How a latency grows with the load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Growth {
    /// With a rate of requests, without end towards the capacity of the server.
    Rate {
        /// The largest latency allowed, in seconds.
        limit: f64,
    },
    /// With the number of users, each of whom waits for an answer before the next request.
    Users,
}

impl Growth {
    /// Where the target is met.
    fn likely(self, runs: &[Held]) -> Option<Likely> {
        match self {
            Growth::Rate { limit } => likely(runs, limit),
            Growth::Users => likely_users(runs),
        }
    }
}

impl Terms<'_> {
    /// The smallest load worth a run: a fiftieth of what the server manages is zero load, where nothing waits.
    fn least(&self) -> f64 {
        match self.growth {
            Growth::Rate { .. } => rate_step(ZERO_LOAD * self.first).min(1.0),
            Growth::Users => 1.0,
        }
    }

    /// The load nearest to one that is wanted: whole users, and rates of two digits below 10 requests per second.
    fn level(&self, load: f64) -> f64 {
        let load = if self.growth == Growth::Users { load.round() } else { rate_step(load) };
        load.clamp(self.least(), self.top - 1.0)
    }
}

/// The fraction of the capacity at which nothing waits.
const ZERO_LOAD: f64 = 0.02;

/// A rate with two significant digits below 10 requests per second, and a whole number above.
fn rate_step(rate: f64) -> f64 {
    let digits = (1.0 - rate.log10().floor()).clamp(0.0, 6.0);
    let parts = if rate < 10.0 { 10_f64.powf(digits) } else { 1.0 };
    (rate * parts).round() / parts
}

/// What a search may take.
pub struct Terms<'t> {
    /// What the server managed of unlimited load.
    pub first: f64,
    /// The largest load.
    pub top: f64,
    /// How a latency grows with the load.
    pub growth: Growth,
    /// How long a load must be held to say something.
    pub unit: &'t dyn Fn(f64) -> f64,
    /// For how long all runs together may be held.
    pub budget: f64,
    /// A range that reaches no further either way, as a fraction of the answer, is narrow enough.
    pub precise: f64,
}

/// The first runs are held for this part of what they need: they only show where to look.
const BRIEF: f64 = 0.4;
/// This many of them.
const FIRST: usize = 4;
/// A range that is narrower than this, as a fraction of the answer, needs no more of them.
const FOUND: f64 = 0.1;
/// Loads up to this share away from the answer tell of it.
const NEAR: f64 = 0.15;
/// More than this many times the target is no chance near the answer.
const CLEARLY: f64 = 1.8;
/// Each run is so much longer than the longest before it.
const LONGER: f64 = 1.5;
/// No run takes more than this share of the budget.
const SHARE: f64 = 0.2;
/// A search makes no more runs than this.
const MOST_RUNS: usize = 60;

/// The next run; nothing where the answer is known well enough or the time is over.
pub fn next_run(runs: &[Held], terms: &Terms<'_>) -> Option<Next> {
    let seconds: f64 = runs.iter().map(|run| run.seconds).sum();
    let (made, runs) = (runs.len(), &believed(runs)[..]);
    let level = |load: f64| terms.level(load);
    let brief = |load: f64| Some(Next { level: level(load), seconds: BRIEF * (terms.unit)(level(load)) });
    let Some(most) = runs.iter().map(|run| run.level).reduce(f64::max) else { return brief(0.9 * terms.first) };
    let rest = terms.budget - seconds;
    if rest <= 0.0 || made >= MOST_RUNS || is_hopeless(runs, terms.least()) {
        return None;
    }
    if !runs.iter().any(fails) {
        return if most + 1.0 < terms.top { brief(most * LONGER) } else { None };
    }
    if terms.growth != Growth::Users && runs.len() < FIRST - 1 && capacity(runs).is_none() {
        return brief(1.3 * terms.first.max(most));
    }
    if let Some(least) = runs.iter().map(|run| run.level).reduce(f64::min).filter(|_| runs.iter().all(fails)) {
        return brief(least / 2.0);
    }
    let found = terms.growth.likely(runs)?;
    let half = (found.high - found.low) / 2.0 / found.value;
    if runs.len() < FIRST && half > FOUND {
        return brief(if runs.len().is_multiple_of(2) { found.value } else { found.below });
    }
    let unit = (terms.unit)(level(found.value));
    let near = |run: &&Held| (run.level / found.value - 1.0).abs() < NEAR;
    let full = runs.iter().filter(near).filter(|run| run.seconds >= 0.7 * unit).count();
    if rest < BRIEF * unit {
        return None;
    }
    if half <= terms.precise && full >= 2 {
        return only_failure(runs).map(|level| Next { level, seconds: unit.min(rest) });
    }
    let held = |below: bool| {
        let side = runs.iter().filter(near).filter(|run| (run.level <= found.value) == below);
        side.map(|run| run.seconds).sum::<f64>()
    };
    let load = if held(true) <= held(false) { found.below } else { found.above };
    let longest = runs.iter().map(|run| run.seconds).fold(0.0, f64::max);
    let seconds = (LONGER * longest).clamp(unit, (SHARE * terms.budget).max(unit)).min(rest);
    Some(Next { level: level(load), seconds })
}

fn fails(run: &Held) -> bool {
    !run.kept_up || run.ratio > 1.0
}

/// Whether it fails by so much that it is not near the answer.
fn fails_clearly(run: &Held) -> bool {
    !run.kept_up || run.ratio > CLEARLY
}

/// The runs without those that met the target at a larger load than one that failed clearly every time: they were lucky.
fn believed(runs: &[Held]) -> Vec<Held> {
    let at = |level: f64| runs.iter().filter(move |run| run.level == level);
    let beyond = |run: &&Held| at(run.level).count() > 1 && at(run.level).all(fails_clearly);
    let broken = runs.iter().filter(beyond).map(|run| run.level).fold(f64::INFINITY, f64::min);
    runs.iter().filter(|run| run.level < broken || fails(run)).copied().collect()
}

/// The lowest level that failed, if it was run but once: that may have been a hiccup, and it bounds the answer.
fn only_failure(runs: &[Held]) -> Option<f64> {
    let lowest = runs.iter().filter(|run| fails(run)).map(|run| run.level).reduce(f64::min)?;
    (runs.iter().filter(|run| run.level == lowest).count() == 1).then_some(lowest)
}

/// The answer, as far as runs bear it out: a curve goes on where no run was made. Nothing where no run up to it met the target;
/// no upper end where none missed it.
pub fn borne_out(runs: &[Held], growth: Growth) -> Option<Boundary> {
    let runs = &believed(runs)[..];
    let met = || runs.iter().filter(|run| !fails(run)).map(|run| run.level);
    let (least, most) = (met().reduce(f64::min)?, met().reduce(f64::max)?);
    if !runs.iter().any(fails) {
        return Some(Boundary { value: most, low: most, high: None });
    }
    let found = growth.likely(runs).filter(|found| least <= found.high)?;
    Some(Boundary { value: found.value, low: found.low, high: Some(found.high) })
}

/// Whether even the smallest load fails more than once.
fn is_hopeless(runs: &[Held], least: f64) -> bool {
    let lowest = || runs.iter().filter(|run| run.level <= least);
    lowest().count() > 1 && lowest().all(fails)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Growth = Growth::Rate { limit: 0.2 };

    fn terms(unit: &dyn Fn(f64) -> f64) -> Terms<'_> {
        Terms { first: 100.0, top: 65536.0, growth: RATE, unit, budget: 600.0, precise: 0.05 }
    }

    /// Runs until the search ends, on a server whose latencies are what the closure says.
    fn search(server: impl Fn(f64, usize) -> (f64, bool)) -> Vec<Held> {
        let unit = |_: f64| 10.0;
        let mut runs: Vec<Held> = Vec::new();
        while let Some(Next { level, seconds }) = next_run(&runs, &terms(&unit)) {
            let (ratio, kept_up) = server(level, runs.len());
            let (answered, came) = (level.min(100.0), level);
            runs.push(Held { level, came, seconds, ratio, error: Some(0.05), kept_up, answered });
        }
        runs
    }

    fn queue(level: f64) -> (f64, bool) {
        if level < 100.0 { (0.1 + 0.9 * 20.0 / (100.0 - level), true) } else { (20.0, false) }
    }

    #[test]
    fn a_search_ends_near_the_answer() {
        let runs = search(|level, _| queue(level));
        let found = likely(&runs, 0.2).unwrap();
        assert!((found.value - 80.0).abs() < 4.0 && runs.len() < 30, "{found:?} {}", runs.len());
        assert!(runs.iter().map(|run| run.seconds).sum::<f64>() <= 601.0);
    }

    #[test]
    fn a_single_failure_is_run_again() {
        let hiccup = |level: f64, number: usize| if number == 0 { (30.0, true) } else { queue(level) };
        let found = likely(&search(hiccup), 0.2).unwrap();
        assert!((found.value - 80.0).abs() < 6.0, "{found:?}");
    }

    #[test]
    fn what_fails_at_one_is_hopeless_and_costs_little() {
        let runs = search(|_, _| (5.0, true));
        assert!(is_hopeless(&runs, 1.0) && runs.len() < 20, "{}", runs.len());
    }

    fn run(level: i32, ratio: f64) -> Held {
        let (level, came) = (f64::from(level), f64::from(level));
        Held { level, came, seconds: 10.0, ratio, error: Some(0.05), kept_up: true, answered: came }
    }

    #[test]
    fn what_no_run_met_is_no_answer() {
        let missed = [200, 100, 50].map(|level| run(level, 40.0));
        assert!(likely(&missed, 0.2).is_some(), "the curve goes on below them");
        assert_eq!(borne_out(&missed, RATE), None);
        assert_eq!(borne_out(&[], RATE), None);
        // Luck far above what failed again and again.
        let lucky =
            [run(400, 0.9), run(100, 9.0), run(100, 9.0), run(50, 5.0), run(50, 5.0), run(25, 3.0), run(25, 3.0)];
        assert_eq!(borne_out(&lucky, RATE), None);
    }

    #[test]
    fn what_no_run_missed_has_no_upper_end() {
        let met = [90, 135].map(|level| run(level, 0.2));
        assert_eq!(borne_out(&met, RATE), Some(Boundary { value: 135.0, low: 135.0, high: None }));
    }

    #[test]
    fn rates_below_ten_have_fractions() {
        assert_eq!([0.0123, 0.7049, 7.34, 9.99, 10.4, 104.6].map(rate_step), [0.012, 0.7, 7.3, 10.0, 10.0, 105.0]);
    }

    #[test]
    fn a_server_below_one_request_a_second_has_an_answer() {
        // It saturates at 1 request per second and meets the target up to 0.8.
        let latency = |level: f64| if level < 1.0 { (0.1 + 0.9 * 0.2 / (1.0 - level), true) } else { (20.0, false) };
        let (growth, unit) = (Growth::Rate { limit: 20.0 }, |_: f64| 600.0);
        let terms = Terms { first: 1.0, top: 65536.0, growth, unit: &unit, budget: 36_000.0, precise: 0.05 };
        let mut runs: Vec<Held> = Vec::new();
        while let Some(Next { level, seconds }) = next_run(&runs, &terms) {
            let (ratio, kept_up) = latency(level);
            runs.push(Held {
                level,
                came: level,
                seconds,
                ratio,
                error: Some(0.05),
                kept_up,
                answered: level.min(1.0),
            });
        }
        let found = borne_out(&runs, growth).unwrap();
        assert!((found.value - 0.8).abs() < 0.05, "{found:?} {runs:?}");
    }
}
