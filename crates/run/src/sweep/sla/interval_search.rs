//! The search where results have confidence intervals: each run is made where it says most about the answer, and the
//! estimate rests on all runs.

use tacho_core::event::SearchNote;
use tacho_core::json::Dict;
use tacho_decide::search::{
    Answer, Boundary, Criterion, Growth, Held, Next, Terms, Tried, UNLIMITED, Verdict, borne_out, is_monotone, next_run,
};

use super::answers::{Outcome, StopReason};
use super::level::{Level, WAVES, values};
use super::pair::Pair;
use super::result::{SteadyState, interval, mean_latency, number, own_number};
use super::{LONGEST_RUN, level_directory};
use crate::experiment::{Failure, Slot, load_value, run_file};
use crate::sweep::combination::Combination;
use crate::sweep::session::{Session, Stop};
use crate::sweep::workload::LoadVariable;

/// The search ends when the 95% range reaches no further than this many times the tolerance either way.
pub(super) const PRECISE: f64 = 2.25;
/// Fewest requests of a run, where the plan has that many.
const MIN_REQUESTS: u64 = 50;
/// The same where that many would take too long.
const MIN_SLOW_REQUESTS: u64 = 10;

/// The results of each level, in order of the levels.
type Known = Vec<(f64, Vec<Dict>)>;

/// The results of a level, which is added where it is new.
fn results_of(known: &mut Known, level: f64) -> &mut Vec<Dict> {
    let at = known.partition_point(|(other, _)| *other < level);
    if known.get(at).is_none_or(|(other, _)| *other != level) {
        known.insert(at, (level, Vec::new()));
    }
    &mut known[at].1
}

impl Pair<'_> {
    /// Whether a target is on latencies, and results have their confidence intervals.
    pub(super) fn has_intervals(&self, target: &[Criterion], results: &[Dict]) -> bool {
        self.top() > 1.0 && have_intervals(target, results) && limit(target).is_some()
    }

    /// Searches, after the largest load, and returns the levels and the outcome.
    pub(super) fn interval_search(
        &self,
        session: &mut Session<'_>,
        slot: &mut Slot,
        target: &[Criterion],
        top: Level,
    ) -> Result<(Vec<Level>, Outcome), Stop> {
        if top.tried.verdict.passes() {
            let (answer, stopped) = (Answer::Unbounded, StopReason::Unlimited);
            let outcome = Outcome { answer, found: None, range: (0.0, self.top()), monotone: true, stopped };
            return Ok((vec![top], outcome));
        }
        let limit = limit(target).unwrap_or(1.0);
        let first = self.begin(&top, limit);
        let (load, growth) = (self.load(), self.growth(limit));
        session.say(SearchNote::From { load, level: first });
        session.say(SearchNote::TakesAtMost { seconds: self.plan.longest });
        let mut known: Known = self.known(session);
        loop {
            let held = self.held(target, &known)?;
            let answer = fastest(&known);
            let terms = Terms {
                first,
                top: self.top(),
                growth,
                unit: &|level| self.plan.seconds(level, answer),
                budget: self.plan.longest - top.seconds,
                precise: PRECISE * self.plan.tolerance,
            };
            let Some(next) = next_run(&held, &terms) else {
                let spent = held.iter().map(|run| run.seconds).sum::<f64>();
                return self.found(target, &known, top, growth, spent + 1.0 >= terms.budget);
            };
            session.say(SearchNote::Testing { load, level: next.level });
            let prompts = self.lasting(next, &known, &top, first);
            let results = results_of(&mut known, next.level);
            self.hold(session, slot, (next.level, prompts), results)?;
            self.report_level(session, &self.summed(next.level, target, results)?, target);
        }
    }

    /// How its latencies grow with the load.
    fn growth(&self, limit: f64) -> Growth {
        match self.plan.variable {
            LoadVariable::RequestRate => Growth::Rate { limit },
            LoadVariable::MaxConcurrency => Growth::Users,
        }
    }

    /// Where to begin: the rate completed under the largest load, or as many users as wait for the latency limit
    /// at that rate (Little's law).
    fn begin(&self, top: &Level, limit: f64) -> f64 {
        match self.plan.variable {
            LoadVariable::RequestRate => {
                let rate = self.plan.variable.estimate(&top.results).filter(|rate| *rate > 0.0).unwrap_or(1.0);
                if rate < 10.0 { rate } else { rate.ceil().min(UNLIMITED - 1.0) }
            }
            LoadVariable::MaxConcurrency => {
                let users = answered(&top.results).unwrap_or(1.0) * limit;
                users.ceil().clamp(1.0, self.top() - 1.0)
            }
        }
    }

    /// How many prompts a run takes. Fewer users get fewer answers than were seen, and more of them no more.
    fn lasting(&self, next: Next, known: &Known, top: &Level, first: f64) -> u64 {
        let level = next.level;
        if self.plan.variable == LoadVariable::RequestRate {
            // Of a slow server, as many as a run may take of the budget.
            let fewest = MIN_REQUESTS.min((LONGEST_RUN * self.plan.longest * level) as u64).max(MIN_SLOW_REQUESTS);
            return ((level * next.seconds).ceil() as u64).max(self.prompts().min(fewest));
        }
        let seen = known.iter().filter_map(|(users, results)| Some((*users, answered(results)?)));
        let nearest = seen.min_by(|one, other| (one.0 - level).abs().total_cmp(&(other.0 - level).abs()));
        let (users, rate) = nearest.unwrap_or((first, answered(&top.results).unwrap_or(1.0)));
        let rate = rate * (level / users).min(1.0);
        (rate * next.seconds).max(WAVES * level).ceil() as u64
    }

    /// What is stored of limited loads.
    fn known(&self, session: &Session<'_>) -> Known {
        let results = |level: f64| {
            let directory = level_directory(self.plan, &self.base, level);
            (0..).map_while(|number| session.archive.result(&run_file(&directory, number))).collect()
        };
        let stored = self.stored(session.archive).into_iter().filter(|level| *level < self.top());
        stored.map(|level| (level, results(level))).collect()
    }

    /// Makes a run, or as many as were asked for of each level.
    fn hold(
        &self,
        session: &mut Session<'_>,
        slot: &mut Slot,
        (level, prompts): (f64, u64),
        results: &mut Vec<Dict>,
    ) -> Result<(), Stop> {
        let key = self.plan.variable.key();
        let bench = self.bench.with(key, load_value(level)).with("num_prompts", prompts);
        let directory = level_directory(self.plan, &self.base, level);
        for _ in 0..self.plan.sweep.num_runs {
            let (what, before) =
                (Combination { serve: self.serve, bench: &bench, directory: &directory }, results.len());
            if before == 0 {
                *results = session.combine_runs(slot, what, 1)?;
            } else {
                session.combine_once_more(slot, what, before, results)?;
            }
            if results.len() == before {
                // A run that fails again and again would be tried for ever.
                let text = format!("no result at {key}={level}, which the search cannot do without");
                return Err(Stop::Sweep(Failure::new("ValueError", text)));
            }
        }
        Ok(())
    }

    /// All runs as the search sees them: by the criterion that is furthest beyond its limit.
    fn held(&self, target: &[Criterion], known: &Known) -> Result<Vec<Held>, Stop> {
        let mut held = Vec::new();
        for (level, results) in known {
            let level = *level;
            for result in results {
                let values = values(self.plan.variable, target, std::iter::once(result)).map_err(Stop::Sweep)?;
                let ratios = target.iter().zip(&values).map(|(one, value)| (one, value[0] / one.target()));
                let worst = ratios.max_by(|a, b| a.1.total_cmp(&b.1));
                let steady = SteadyState::of(result).and_then(SteadyState::request_throughput);
                let planned = own_number(result, "planned_request_rate");
                let planned = planned.filter(|_| self.plan.variable == LoadVariable::RequestRate);
                held.extend(worst.map(|(criterion, ratio)| Held {
                    level,
                    came: planned.unwrap_or(level),
                    seconds: number(result, "duration").unwrap_or(0.0).max(0.001),
                    ratio,
                    error: error(criterion, result).filter(|error| error.is_finite()),
                    kept_up: !self.is_overloaded(level, result),
                    answered: steady.or(number(result, "request_throughput")).unwrap_or(0.0),
                }));
            }
        }
        Ok(held)
    }

    /// A level by its own runs.
    fn summed(&self, level: f64, target: &[Criterion], results: &[Dict]) -> Result<Level, Stop> {
        let seconds = |result: &Dict| number(result, "duration").unwrap_or(0.0);
        let lengths: Vec<f64> = results.iter().map(seconds).collect();
        let values = values(self.plan.variable, target, results.iter()).map_err(Stop::Sweep)?;
        let swamped = results.iter().filter(|result| self.is_overloaded(level, result)).count();
        let verdict = Verdict { half_width: 0.0, ..Verdict::weighted(target, &values, &lengths) }.with_swamped(swamped);
        let (runs, seconds, results) = (results.len(), lengths.iter().sum(), results.to_vec());
        Ok(Level { tried: Tried { level, verdict }, results, runs, seconds })
    }

    /// Why no further run is made.
    fn stop_reason(&self, found: Option<Boundary>, spent: bool) -> StopReason {
        let wanted = PRECISE * self.plan.tolerance;
        match found {
            Some(found) if found.reach().is_some_and(|reach| reach <= wanted) => StopReason::Precise,
            _ if spent => StopReason::Budget,
            None => StopReason::Infeasible,
            Some(_) => StopReason::Runs,
        }
    }

    /// The answer, and the levels in order.
    fn found(
        &self,
        target: &[Criterion],
        known: &Known,
        top: Level,
        growth: Growth,
        spent: bool,
    ) -> Result<(Vec<Level>, Outcome), Stop> {
        let held = self.held(target, known)?;
        let found = borne_out(&held, growth);
        let summed = known.iter().map(|(level, results)| self.summed(*level, target, results));
        let mut levels = summed.collect::<Result<Vec<Level>, Stop>>()?;
        let monotone = is_monotone(&levels.iter().map(|level| level.tried).collect::<Vec<Tried>>());
        for level in &mut levels {
            if found.is_none_or(|found| level.tried.level > found.value) {
                level.tried.verdict = level.tried.verdict.beyond_the_answer();
            }
        }
        // The answer is a load that was measured and met; the estimate of all runs may lie above it.
        let met =
            levels.iter().filter(|level| level.tried.verdict.passes()).map(|level| level.tried.level).reduce(f64::max);
        let answer = met.map_or(Answer::Infeasible, Answer::Level);
        let stopped = self.stop_reason(found, spent);
        levels.push(top);
        let range = found.map_or((0.0, 1.0), |found| (found.low.floor(), found.high.map_or(self.top(), f64::ceil)));
        Ok((levels, Outcome { answer, found, range, monotone, stopped }))
    }
}

/// How many requests a second were answered, in the first of these runs.
fn answered(results: &[Dict]) -> Option<f64> {
    number(results.first()?, "request_throughput").filter(|rate| *rate > 0.0)
}

/// Whether results have the confidence intervals of all criteria.
pub(super) fn have_intervals(target: &[Criterion], results: &[Dict]) -> bool {
    let has = |result: &Dict| target.iter().all(|criterion| error(criterion, result).is_some());
    !results.is_empty() && results.iter().all(has)
}

/// The largest latency that a target allows, in seconds; nothing where one of its conditions is on something else.
fn limit(target: &[Criterion]) -> Option<f64> {
    target
        .iter()
        .map(|one| one.limit_seconds().filter(|limit| *limit > 0.0))
        .try_fold(0.0, |most, limit| Some(limit?.max(most)))
}

/// Relative standard error of a run's metric, on the lower side; infinite where it is unknown.
fn error(criterion: &Criterion, result: &Dict) -> Option<f64> {
    let (low, _) = interval(result, &criterion.metric)?;
    let value = number(result, &criterion.metric)?;
    Some(if low > 0.0 { (value / low).ln().max(0.0) / 1.96 } else { f64::INFINITY })
}

/// How long an answer takes where it takes least.
fn fastest(known: &Known) -> f64 {
    let each = known.iter().map(|(_, results)| mean_latency(results)).filter(|seconds| *seconds > 0.0);
    each.reduce(f64::min).unwrap_or(0.0)
}
