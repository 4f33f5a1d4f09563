//! A search in progress, and what is said of it at its end.

use tacho_core::event::{Most, SearchNote, SearchRow};
use tacho_core::json::{Dict, Value};
use tacho_decide::search::{Criterion, Growth, Levels, LoadLevel, Measurement, Model, Search, Step, StopReason};
use tacho_metrics::statistics::mean;

use super::answers::{Answer, Answers, Found, Verdict};
use super::pair::{Level, Pair, completed_rate, standard_error};
use super::result::{mean_latency, number, unreliable_client};
use super::{level_directory, marker};
use crate::experiment::{Slot, Style, UNLIMITED};
use crate::sweep::combination::Combination;
use crate::sweep::session::{Session, Stop};
use crate::sweep::workload::LoadVariable;

/// The 95% range of a model may reach this many times the tolerance either way.
pub(super) const PRECISE: f64 = 2.25;
/// By how much loads grow where a model places the others.
const SAMPLED_GROWTH: Growth = Growth::Factor(1.5);

impl Pair<'_> {
    pub(super) fn search(
        &self,
        session: &mut Session<'_>,
        slot: &mut Slot,
        target: &[Criterion],
        answers: &mut Answers,
    ) -> Result<(), Stop> {
        if session.archive.has(&marker(&self.base, target)) && answers.has(&self.base, target) {
            session.count();
            return Ok(());
        }
        session.say(SearchNote::Begins(target.iter().map(Criterion::to_string).collect()));
        if self.plan.sweep.dry_run {
            let (bench, directory) =
                (self.bench_at(self.top(), None), level_directory(self.plan, &self.base, self.top()));
            let what = Combination { serve: self.serve, bench: &bench, directory: &directory };
            session.combine_runs(slot, what, self.plan.sweep.num_runs)?;
            session.say(SearchNote::Omitted);
            session.say(SearchNote::Ends);
            return Ok(());
        }
        let (mut known, stored_top): (Vec<Level>, Vec<Level>) =
            self.stored(session.archive).into_iter().partition(|level| level.level != self.top());
        let mut top =
            Level { level: self.top(), results: stored_top.into_iter().flat_map(|top| top.results).collect() };
        session.say(SearchNote::Testing { load: self.load(), level: top.level });
        if top.results.len() < self.plan.sweep.num_runs {
            self.run(session, slot, &mut top, None)?;
        }
        self.report_level(session, &top, target)?;
        let (model, levels) = self.model(target, &top);
        let fastest = std::cell::Cell::new(0.0);
        let unit = |level: f64| self.plan.seconds(level, fastest.get());
        let tolerance = if model == Model::Monotone { 1.0 } else { PRECISE } * self.plan.tolerance;
        let spent = top.results.iter().filter_map(|result| number(result, "duration")).sum::<f64>();
        let search = Search { levels, model, unit: &unit, budget: self.plan.budget - spent, tolerance };
        let stopped = if self.summary(target, &top)?.passes() {
            StopReason::Unlimited
        } else {
            session.say(SearchNote::From { load: self.load(), level: levels.first });
            session.say(SearchNote::TakesAtMost { seconds: self.plan.budget });
            loop {
                fastest.set(shortest_latency(&known));
                match search.next(&self.all_measurements(target, &known)?) {
                    Step::Done(reason) => break reason,
                    Step::Run { level, seconds } => {
                        session.say(SearchNote::Testing { load: self.load(), level });
                        let before = (levels.first, completed_rate(&top.results).unwrap_or(1.0));
                        let prompts = self.prompts_for((level, seconds), &known, before);
                        let at = at_level(&mut known, level);
                        self.run(session, slot, at, Some(prompts))?;
                        self.report_level(session, at, target)?;
                    }
                }
            }
        };
        let outcome = search.outcome(&self.all_measurements(target, &known)?);
        let (mut loads, monotone) = (outcome.levels, outcome.monotone);
        let answer = match outcome.largest_met {
            _ if stopped == StopReason::Unlimited && known.is_empty() => Answer::Unbounded,
            Some(level) => Answer::Level(level),
            None => Answer::Infeasible,
        };
        loads.push(self.summary(target, &top)?);
        known.push(top);
        let found = Found { answer, estimate: outcome.estimate, loads, levels: known, monotone, stopped, model };
        self.conclude(session, target, &found, answers, &unit)
    }

    /// How the metric depends on the load, and the loads. Latencies with confidence intervals follow the model of a queue.
    fn model(&self, target: &[Criterion], top: &Level) -> (Model, Levels) {
        let has_interval = |result: &Dict| target.iter().all(|criterion| standard_error(criterion, result).is_some());
        let limits = target.iter().map(|one| one.limit_seconds().filter(|limit| *limit > 0.0));
        let limit = limits.collect::<Option<Vec<f64>>>().and_then(|limits| limits.into_iter().reduce(f64::max));
        let limit = limit.filter(|_| top.results.iter().all(has_interval) && self.plan.tolerance > 0.0);
        let estimate = self.plan.variable.estimate(&top.results).filter(|load| *load > 0.0).unwrap_or(1.0);
        let most = (self.top() - 1.0).max(1.0);
        match (self.plan.variable, limit) {
            (LoadVariable::RequestRate, limit) => {
                let first = if estimate < 10.0 { estimate } else { estimate.ceil() }.min(most);
                match limit {
                    Some(limit) => {
                        (Model::OpenLoop { limit }, Levels { growth: SAMPLED_GROWTH, ..Levels::rates(first, most) })
                    }
                    None => (Model::Monotone, Levels::whole_rates(first, most)),
                }
            }
            (LoadVariable::MaxConcurrency, Some(limit)) => {
                // Little's law: as many users as wait for the latency limit at that rate.
                let users = completed_rate(&top.results).unwrap_or(1.0) * limit;
                let levels = Levels::users(users.ceil().clamp(1.0, most), most);
                (Model::ClosedLoop, Levels { growth: SAMPLED_GROWTH, ..levels })
            }
            (LoadVariable::MaxConcurrency, None) => {
                (Model::Monotone, Levels::users(estimate.ceil().clamp(1.0, most), most))
            }
        }
    }

    fn all_measurements(&self, target: &[Criterion], known: &[Level]) -> Result<Vec<Measurement>, Stop> {
        let mut all = Vec::new();
        for level in known {
            all.extend(self.measurements(target, level)?);
        }
        Ok(all)
    }

    /// The verdict on a load, criterion by criterion.
    fn report_level(&self, session: &Session<'_>, level: &Level, target: &[Criterion]) -> Result<(), Stop> {
        let summary = self.summary(target, level)?;
        let values = self.values(target, &level.results).map_err(Stop::Sweep)?;
        for (criterion, values) in target.iter().zip(&values) {
            let (metric, condition, mean) = (criterion.metric.clone(), criterion.condition(), mean(values));
            session.say(SearchNote::Criterion { metric, mean, condition, met: criterion.is_met(mean) });
        }
        if summary.overloaded > 0 && level.level < UNLIMITED {
            session.say(SearchNote::NotSustained { overloaded: summary.overloaded, runs: summary.runs });
        }
        session.say(SearchNote::Verdict { met: summary.passes() });
        Ok(())
    }

    fn conclude(
        &self,
        session: &mut Session<'_>,
        target: &[Criterion],
        found: &Found,
        answers: &mut Answers,
        unit: &dyn Fn(f64) -> f64,
    ) -> Result<(), Stop> {
        let load = self.load();
        let rows = found.each().map(|(one, level)| self.row(target, one, level, unit)).collect();
        session.say(SearchNote::Table { load, metrics: target.iter().map(|one| one.metric.clone()).collect(), rows });
        let (left, right) = found.bracket();
        session.say(SearchNote::Range { load, left, right });
        let most = match (found.answer, self.plan.variable) {
            (Answer::Infeasible, _) => Most::Nothing,
            (Answer::Unbounded, LoadVariable::RequestRate) => Most::Unbounded(UNLIMITED),
            (Answer::Unbounded, LoadVariable::MaxConcurrency) => Most::AllPrompts(self.top()),
            (Answer::Level(level), _) => {
                let range = found.estimate.map(|found| (found.value, found.low, found.high));
                Most::Level { level, range, spoken: target.iter().map(Criterion::spoken).collect() }
            }
        };
        session.say(SearchNote::Most { load, most });
        session.say(SearchNote::Stopped { reason: found.stop_text(self.plan) });
        if let Some((nearest, level)) = found.nearest().filter(|_| found.answer == Answer::Infeasible) {
            let means = self.values(target, &level.results).unwrap_or_default();
            let shown = target
                .iter()
                .zip(&means)
                .map(|(one, values)| format!("{} = {:.2}{}", one.metric, mean(values), one.condition()));
            let (level, sustained) = (nearest.level, nearest.is_sustained());
            session.say(SearchNote::Nearest { load, level, found: shown.collect(), sustained });
        }
        if let Some((level, verdict)) = found.unreliable() {
            session.warn(SearchNote::ClientDoubted { load, level, verdict });
        }
        if let Verdict::Inconclusive(why) = Verdict::of(found, self.plan.tolerance) {
            session.warn(SearchNote::Inconclusive { why });
        }
        if !found.monotone {
            session.warn(SearchNote::NotMonotone { load });
        }
        session.say(SearchNote::Ends);
        answers.add(self, target, found, unit);
        let all = found.levels.iter().flat_map(|level| level.results.iter().cloned().map(Value::Dict)).collect();
        session.archive.keep(&marker(&self.base, target), &Value::List(all), Style::Result).map_err(Stop::Sweep)?;
        answers.store(session.archive).map_err(Stop::Sweep)
    }

    fn row(&self, target: &[Criterion], one: &LoadLevel, level: &Level, unit: &dyn Fn(f64) -> f64) -> SearchRow {
        let means = self.values(target, &level.results).unwrap_or_default();
        let rates: Vec<f64> = level.results.iter().filter_map(|one| number(one, "request_throughput")).collect();
        SearchRow {
            level: one.level,
            runs: one.runs,
            means: means.iter().map(|values| mean(values)).collect(),
            answered: mean(&rates),
            met: one.is_met(),
            doubtful: one.by_chance,
            brief: one.is_brief(unit(one.level)),
            sustained: one.is_sustained(),
            client_unreliable: level.results.iter().any(|result| unreliable_client(result).is_some()),
        }
    }
}

/// A load among the others, in their order; it is added where it is new.
fn at_level(known: &mut Vec<Level>, level: f64) -> &mut Level {
    let at = known.partition_point(|other| other.level < level);
    if known.get(at).is_none_or(|other| other.level != level) {
        known.insert(at, Level { level, results: Vec::new() });
    }
    &mut known[at]
}

/// How long a response takes where it takes least, in seconds.
fn shortest_latency(known: &[Level]) -> f64 {
    let each = known.iter().map(|level| mean_latency(&level.results)).filter(|seconds| *seconds > 0.0);
    each.reduce(f64::min).unwrap_or(0.0)
}
