//! The search for a load whose runs tell how far they may be off: each run is made where it says most of the answer, and the
//! answer rests on all of them.

use std::collections::BTreeMap;

use tacho_core::event::SearchNote;
use tacho_core::json::{Dict, Value};
use tacho_decide::search::{
    Answer, Criterion, Growth, Held, Next, Terms, Tried, Verdict, borne_out, is_monotone, next_run,
};

use super::answers::Outcome;
use super::level::{Level, WAVES, answer_seconds, values};
use super::level_folder;
use super::pair::Pair;
use crate::experiment::{Failure, Slot, run_file};
use crate::sweep::combination::Combination;
use crate::sweep::session::{Session, Stop};
use crate::sweep::workload::LoadVariable;

/// A range that reaches no further than so many times the tolerance either way is narrow enough.
const PRECISE: f64 = 2.25;
/// No run has fewer requests, if so many were asked for.
const FEWEST: u64 = 50;

/// The results of each level.
type Known = BTreeMap<u64, Vec<Dict>>;

impl Pair<'_> {
    /// Whether a target is one of latencies, and results tell how far they may be off.
    pub(super) fn is_told(&self, target: &[Criterion], results: &[Dict]) -> bool {
        self.top() > 1 && tell(target, results) && limit(target).is_some()
    }

    /// Searches, after the largest load, and says what was found.
    pub(super) fn search_told(
        &self,
        session: &mut Session<'_>,
        slot: &mut Slot,
        target: &[Criterion],
        top: Level,
    ) -> Result<(Vec<Level>, Outcome), Stop> {
        if top.tried.verdict.passes() {
            let outcome = Outcome { answer: Answer::Unbounded, found: None, range: (0, self.top()), monotone: true };
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
                first: first as f64,
                top: self.top(),
                growth,
                unit: &|level| self.plan.seconds(level, answer),
                budget: self.plan.longest - top.seconds,
                precise: PRECISE * self.plan.tolerance,
            };
            let Some(next) = next_run(&held, &terms) else { break };
            session.say(SearchNote::Testing { load, level: next.level });
            let prompts = self.lasting(next, &known, &top, first);
            let results = known.entry(next.level).or_default();
            self.hold(session, slot, (next.level, prompts), results)?;
            self.tell(session, &self.summed(next.level, target, results)?, target);
        }
        self.found(target, &known, top, growth)
    }

    /// How its latencies grow with the load.
    fn growth(&self, limit: f64) -> Growth {
        match self.plan.variable {
            LoadVariable::RequestRate => Growth::Rate { limit },
            LoadVariable::MaxConcurrency => Growth::Users,
        }
    }

    /// Where to begin: the rate that was answered of the largest load, or so many users as wait for as long as is allowed
    /// where so many are answered (Little's law).
    fn begin(&self, top: &Level, limit: f64) -> u64 {
        let rate = self.first(std::slice::from_ref(top));
        match self.plan.variable {
            LoadVariable::RequestRate => rate,
            LoadVariable::MaxConcurrency => {
                let users = answered(&top.results).unwrap_or(1.0) * limit;
                (users.ceil() as u64).clamp(1, self.top() - 1)
            }
        }
    }

    /// How many prompts a run takes. Fewer users get fewer answers than were seen, and more of them no more.
    fn lasting(&self, next: Next, known: &Known, top: &Level, first: u64) -> u64 {
        let level = next.level as f64;
        if self.plan.variable == LoadVariable::RequestRate {
            return ((level * next.seconds).ceil() as u64).max(self.prompts().min(FEWEST));
        }
        let seen = known.iter().filter_map(|(&users, results)| Some((users, answered(results)?)));
        let nearest = seen.min_by_key(|(users, _)| users.abs_diff(next.level));
        let (users, rate) = nearest.unwrap_or((first, answered(&top.results).unwrap_or(1.0)));
        let rate = rate * (level / users as f64).min(1.0);
        (rate * next.seconds).max(WAVES * level).ceil() as u64
    }

    /// What is stored of limited loads.
    fn known(&self, session: &Session<'_>) -> Known {
        let results = |level: u64| {
            let folder = level_folder(self.plan, &self.base, level);
            (0..).map_while(|number| session.archive.result(&run_file(&folder, number))).collect()
        };
        let stored = self.stored(session.archive).into_iter().filter(|level| *level < self.top());
        stored.map(|level| (level, results(level))).collect()
    }

    /// Makes a run, or as many as were asked for of each level.
    fn hold(
        &self,
        session: &mut Session<'_>,
        slot: &mut Slot,
        (level, prompts): (u64, u64),
        results: &mut Vec<Dict>,
    ) -> Result<(), Stop> {
        let key = self.plan.variable.key();
        let bench = self.bench.with(key, level).with("num_prompts", prompts);
        let folder = level_folder(self.plan, &self.base, level);
        for _ in 0..self.plan.sweep.num_runs {
            let (what, before) = (Combination { serve: self.serve, bench: &bench, folder: &folder }, results.len());
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
        for (&level, results) in known {
            for result in results {
                let values = values(self.plan.variable, target, std::iter::once(result)).map_err(Stop::Sweep)?;
                let ratios = target.iter().zip(&values).map(|(one, value)| (one, value[0] / one.target()));
                let worst = ratios.max_by(|a, b| a.1.total_cmp(&b.1));
                let number = |value: Option<&Value>| value.and_then(Value::as_f64);
                let own = result.get("tacho");
                let steady = own.and_then(|own| own.get("steady_state")?.get("request_throughput"));
                let planned = own.filter(|_| self.plan.variable == LoadVariable::RequestRate);
                let planned = planned.and_then(|own| own.get("planned_request_rate"));
                held.extend(worst.map(|(criterion, ratio)| Held {
                    level,
                    came: number(planned).unwrap_or(level as f64),
                    seconds: number(result.get("duration")).unwrap_or(0.0).max(0.001),
                    ratio,
                    error: error(criterion, result).filter(|error| error.is_finite()),
                    kept_up: !self.is_swamped(level, result),
                    answered: number(steady).or(number(result.get("request_throughput"))).unwrap_or(0.0),
                }));
            }
        }
        Ok(held)
    }

    /// A level by its own runs.
    fn summed(&self, level: u64, target: &[Criterion], results: &[Dict]) -> Result<Level, Stop> {
        let seconds = |result: &Dict| result.get("duration").and_then(Value::as_f64).unwrap_or(0.0);
        let lengths: Vec<f64> = results.iter().map(seconds).collect();
        let values = values(self.plan.variable, target, results.iter()).map_err(Stop::Sweep)?;
        let swamped = results.iter().filter(|result| self.is_swamped(level, result)).count();
        let verdict = Verdict { half_width: 0.0, ..Verdict::weighted(target, &values, &lengths) }.with_swamped(swamped);
        let (runs, seconds, results) = (results.len(), lengths.iter().sum(), results.to_vec());
        Ok(Level { tried: Tried { level, verdict }, results, runs, seconds })
    }

    /// The answer, and the levels in order.
    fn found(
        &self,
        target: &[Criterion],
        known: &Known,
        top: Level,
        growth: Growth,
    ) -> Result<(Vec<Level>, Outcome), Stop> {
        let held = self.held(target, known)?;
        let found = borne_out(&held, growth);
        let answer = found.map_or(Answer::Infeasible, |found| Answer::Level(found.value as u64));
        let summed = known.iter().map(|(&level, results)| self.summed(level, target, results));
        let mut levels = summed.collect::<Result<Vec<Level>, Stop>>()?;
        let monotone = is_monotone(&levels.iter().map(|level| level.tried).collect::<Vec<Tried>>());
        for level in &mut levels {
            if found.is_none_or(|found| level.tried.level as f64 > found.value) {
                level.tried.verdict = level.tried.verdict.beyond_the_answer();
            }
        }
        levels.push(top);
        let above = |high: Option<f64>| high.map_or(self.top(), |high| high.ceil() as u64);
        let range = found.map_or((0, 1), |found| (found.low as u64, above(found.high)));
        Ok((levels, Outcome { answer, found, range, monotone }))
    }
}

/// How many requests a second were answered, in the first of these runs.
fn answered(results: &[Dict]) -> Option<f64> {
    results.first()?.get("request_throughput")?.as_f64().filter(|rate| *rate > 0.0)
}

/// Whether results tell how far what a target asks for may be off.
pub(super) fn tell(target: &[Criterion], results: &[Dict]) -> bool {
    let tells = |result: &Dict| target.iter().all(|criterion| error(criterion, result).is_some());
    !results.is_empty() && results.iter().all(tells)
}

/// The largest latency that a target allows, in seconds; nothing where one of its conditions is on something else.
fn limit(target: &[Criterion]) -> Option<f64> {
    target
        .iter()
        .map(|one| one.limit_seconds().filter(|limit| *limit > 0.0))
        .try_fold(0.0, |most, limit| Some(limit?.max(most)))
}

/// How far a run's number may be too low, as a share of it: one standard deviation. Endless where it cannot be told.
fn error(criterion: &Criterion, result: &Dict) -> Option<f64> {
    let low = result.get("tacho")?.get("intervals")?.get(&criterion.metric)?.as_list()?.first()?.as_f64()?;
    let value = result.get(&criterion.metric)?.as_f64()?;
    Some(if low > 0.0 { (value / low).ln().max(0.0) / 1.96 } else { f64::INFINITY })
}

/// How long an answer takes where it takes least.
fn fastest(known: &Known) -> f64 {
    let each = known.values().map(|results| answer_seconds(results)).filter(|seconds| *seconds > 0.0);
    each.reduce(f64::min).unwrap_or(0.0)
}
