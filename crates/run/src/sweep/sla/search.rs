//! A search in progress, and its report at the end.

use std::cell::Cell;

use tacho_core::event::{Most, SearchNote, SearchRow};
use tacho_core::json::Value;
use tacho_decide::search::{Criterion, Growth, Levels, LoadLevel, Measurement, Model, Search, StopReason, Verdict};
use tacho_metrics::Interval;
use tacho_record::ResultFields;
use tacho_record::groups::split;
use tacho_record::metric::Known;

use super::answers::{Answer, Answers, Found, client_doubt};
use super::pair::Pair;
use super::{level_directory, marker};
use crate::experiment::{Failure, Level, Slot, Stop, Style, explore, required, spelled};
use crate::sweep::combination::Combination;
use crate::sweep::session::Sweep;
use crate::sweep::workload::LoadVariable;

/// Largest half-width of a model's 95% range, as a multiple of the tolerance.
pub(super) const PRECISE: f64 = 2.25;
/// Growth of loads while all pass; a model places the others.
const SAMPLED_GROWTH: Growth = Growth::Factor(1.5);

impl Pair<'_> {
    pub(super) fn search(
        &self,
        session: &mut Sweep<'_>,
        slot: &mut Slot,
        target: &[Criterion],
        answers: &mut Answers,
    ) -> Result<(), Stop> {
        if session.tools.archive.value(&marker(&self.base, target)).is_some() && answers.has(&self.base, target) {
            session.count();
            return Ok(());
        }
        session.say(SearchNote::Begins(target.iter().map(Criterion::to_string).collect()));
        if self.plan.sweep.dry_run {
            return self.show(session, slot);
        }
        let (mut known, top): (Vec<Level>, Vec<Level>) =
            self.stored(session.tools.archive).into_iter().partition(|level| level.level != self.top());
        let mut top = top.into_iter().next().unwrap_or_else(|| Level::new(self.top()));
        session.say(SearchNote::Testing { load: self.load(), level: top.level });
        if top.results.len() < self.plan.sweep.num_runs {
            self.run(session, slot, &mut top, None, None)?;
        }
        self.report_level(session, &top, target)?;
        let (model, levels) = self.model(target, &top);
        let fastest = Cell::new(shortest_latency(&known));
        let unit = |level: f64| self.plan.seconds(level, fastest.get());
        let tolerance = if model == Model::Monotone { 1.0 } else { PRECISE } * self.plan.tolerance;
        let spent = top.runs().filter_map(|run| run.number("duration")).sum::<f64>();
        let search = Search { levels, model, unit: &unit, budget: self.plan.budget - spent, tolerance };
        let top_summary = self.summary(target, &top)?;
        let stopped = if top_summary.passes() {
            StopReason::Unlimited
        } else {
            session.say(SearchNote::From { load: self.load(), level: levels.first });
            session.say(SearchNote::TakesAtMost { seconds: self.plan.budget, flag: self.plan.flags.budget });
            let before = (levels.first, self.completed_rate(&top).unwrap_or(1.0));
            let read = |known: &[Level]| self.all_measurements(target, known).map_err(Stop::Run);
            explore(&search, &mut known, read, |known, level, seconds| {
                session.say(SearchNote::Testing { load: self.load(), level });
                let prompts = self.prompts_for((level, seconds), known, before);
                let runs = top.results.len() + known.iter().map(|level| level.results.len()).sum::<usize>();
                let runs = Some(runs).filter(|_| model != Model::Monotone);
                let at = Level::among(known, level);
                self.run(session, slot, at, Some(prompts), runs)?;
                self.report_level(session, at, target)?;
                fastest.set(shortest_latency(known));
                Ok(())
            })?
        };
        let outcome = search.outcome(&self.all_measurements(target, &known)?);
        let found = Found::new(outcome, (stopped, model), known, (top_summary, top));
        self.conclude(session, target, &found, answers)
    }

    /// The largest load alone, in a dry run.
    fn show(&self, session: &mut Sweep<'_>, slot: &mut Slot) -> Result<(), Stop> {
        let (bench, directory) = (self.bench_at(self.top(), None), level_directory(self.plan, &self.base, self.top()));
        let what = Combination { serve: self.serve, bench: &bench, directory: &directory };
        session.combine_runs(slot, what, self.plan.sweep.num_runs)?;
        session.say(SearchNote::Omitted);
        session.say(SearchNote::Ends);
        Ok(())
    }

    /// The model of the metric against load, and the candidate loads. Latencies with confidence intervals follow the
    /// queue model.
    fn model(&self, target: &[Criterion], top: &Level) -> (Model, Levels) {
        let has_interval = |run: ResultFields<'_>| target.iter().all(|criterion| run.has_intervals(&criterion.metric));
        let limits = target.iter().map(|one| one.limit_seconds().filter(|limit| *limit > 0.0));
        let limit = limits.collect::<Option<Vec<f64>>>().and_then(|limits| limits.into_iter().reduce(f64::max));
        let limit = limit.filter(|_| top.runs().all(has_interval) && self.plan.tolerance > 0.0);
        let estimate = self.plan.variable.estimate(&top.results).filter(|load| *load > 0.0).unwrap_or(1.0);
        let most = (spelled(self.top()) - 1.0).max(1.0);
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
            (LoadVariable::MaxConcurrency, Some(_)) => {
                // Little's law: the users whose requests take as long as a limit allows, at that rate.
                let times = target.iter().filter_map(|one| one.limit_seconds().map(|limit| limit * steps(one, top)));
                let users = self.completed_rate(top).unwrap_or(1.0) * times.fold(0.0, f64::max);
                let levels = Levels::users(users.ceil().clamp(1.0, most), most);
                (Model::ClosedLoop, Levels { growth: SAMPLED_GROWTH, ..levels })
            }
            // At the largest load all sessions run at once; pauses between their requests hide how many a server takes.
            (LoadVariable::Sessions, limit) => {
                let levels = Levels::users((estimate / 4.0).ceil().clamp(1.0, most), most);
                let model = limit.map_or(Model::Monotone, |_| Model::ClosedLoop);
                (model, Levels { growth: SAMPLED_GROWTH, ..levels })
            }
            (LoadVariable::MaxConcurrency, None) => {
                (Model::Monotone, Levels::users(estimate.ceil().clamp(1.0, most), most))
            }
        }
    }

    fn all_measurements(&self, target: &[Criterion], known: &[Level]) -> Result<Vec<Measurement>, Failure> {
        let each = known.iter().map(|level| self.measurements(target, level)).collect::<Result<Vec<_>, _>>()?;
        Ok(each.concat())
    }

    /// The verdict on a load, criterion by criterion.
    fn report_level(&self, session: &Sweep<'_>, level: &Level, target: &[Criterion]) -> Result<(), Stop> {
        let summary = self.summary(target, level)?;
        for (criterion, (metric, mean)) in target.iter().zip(self.means(target, level)?) {
            let condition = criterion.condition();
            session.say(SearchNote::Criterion { metric, mean, condition, met: criterion.is_met(mean) });
        }
        if summary.overloaded > 0 && level.level.is_finite() {
            session.say(SearchNote::NotSustained { overloaded: summary.overloaded, runs: summary.runs });
        }
        session.say(SearchNote::Verdict { met: summary.passes() });
        Ok(())
    }

    fn conclude(
        &self,
        session: &mut Sweep<'_>,
        target: &[Criterion],
        found: &Found,
        answers: &mut Answers,
    ) -> Result<(), Stop> {
        let load = self.load();
        let rows = found.each().map(|(one, level)| self.row(target, one, level)).collect::<Result<_, _>>()?;
        session.say(SearchNote::Table { load, metrics: target.iter().map(|one| one.metric.clone()).collect(), rows });
        let (left, right) = found.bracket();
        session.say(SearchNote::Range { load, left, right });
        let (verdict, inconclusive) = found.verdict(target, self.plan);
        let most = match (found.answer, self.plan.variable) {
            (Answer::Infeasible, _) if verdict == Verdict::Infeasible => Most::Infeasible,
            (Answer::Infeasible, _) => Most::NotFound,
            (Answer::Unlimited, LoadVariable::RequestRate) => Most::Unlimited,
            (Answer::Unlimited, LoadVariable::MaxConcurrency | LoadVariable::Sessions) => Most::AllPrompts(self.top()),
            (Answer::Level(level), _) => {
                let range = found.estimate.map(|found| (found.value, found.low, found.high));
                Most::Level { level, range, spoken: self.spoken(target, found, level)? }
            }
        };
        session.say(SearchNote::Most { load, most });
        session.say(SearchNote::Stopped { reason: found.stop_text(self.plan) });
        if let Some((nearest, level)) = found.nearest().filter(|_| found.answer == Answer::Infeasible) {
            let means = self.means(target, level)?;
            let shown = target.iter().zip(&means);
            let shown =
                shown.map(|(one, (metric, mean))| format!("{metric} = {}{}", one.value_text(*mean), one.condition()));
            let (level, sustained) = (nearest.level, nearest.is_sustained());
            session.say(SearchNote::Nearest { load, level, found: shown.collect(), sustained });
        }
        if let Some((level, verdict)) = found.unreliable(target) {
            session.warn(SearchNote::ClientUnreliable { load, level, verdict });
        }
        if let Answer::Level(level) = found.answer {
            self.unsure(target, found, level).into_iter().for_each(|text| session.warn(text));
        }
        if let Some(why) = inconclusive {
            session.warn(SearchNote::Inconclusive { why });
        }
        if !found.monotone {
            session.warn(SearchNote::NotMonotone { load });
        }
        session.say(SearchNote::Ends);
        answers.add(self, target, found)?;
        let all = found.levels.iter().flat_map(|level| level.results.iter().cloned().map(Value::Dict)).collect();
        session.tools.archive.keep(&marker(&self.base, target), &Value::List(all), Style::Result)?;
        Ok(answers.store(session.tools.archive)?)
    }

    /// What the outputs at a load do not show for certain, though they met it.
    fn unsure(&self, target: &[Criterion], found: &Found, level: f64) -> Vec<String> {
        let runs = found.levels.iter().filter(|known| known.level == level).flat_map(Level::runs);
        let unsure = |run: ResultFields<'_>, one: &Criterion| {
            Known::find(split(&one.metric).1).filter(|known| known.is_of_outputs())?;
            let (value, Interval { low, high }) = run.number(&one.metric).zip(run.interval(&one.metric))?;
            let [value, from, to] = [value, low, high].map(|value| one.value_text(value));
            let text = format!(
                "at {level}, {} is met by {value}, 95% interval {from} to {to}: more outputs decide",
                one.spoken()
            );
            (one.is_met(low) != one.is_met(high)).then_some(text)
        };
        runs.take(1).flat_map(|run| target.iter().filter_map(move |one| unsure(run, one))).collect()
    }

    /// The criteria in words, with the part of the runs at a load that they were compared with.
    fn spoken(&self, target: &[Criterion], found: &Found, level: f64) -> Result<Vec<String>, Failure> {
        let runs = found.levels.iter().find(|known| known.level == level);
        let means = runs.map_or(Ok(Vec::new()), |runs| self.means(target, runs))?;
        let whole = |at: usize| means.get(at).is_none_or(|(key, _)| *key == target[at].metric);
        let spoken = |at: usize| target[at].spoken() + if whole(at) { "" } else { " (steady part)" };
        Ok((0..target.len()).map(spoken).collect())
    }

    fn row(&self, target: &[Criterion], one: &LoadLevel, level: &Level) -> Result<SearchRow, Failure> {
        Ok(SearchRow {
            level: one.level,
            runs: one.runs,
            means: self.means(target, level)?,
            answered: required(level.mean("request_throughput"), "request_throughput", "--bench-cmd")?,
            met: one.is_met(),
            doubtful: one.by_chance,
            brief: one.brief,
            sustained: one.is_sustained(),
            client_unreliable: client_doubt(level, target).is_some(),
        })
    }
}

/// How often the limit of a criterion applies to a request: once, or per output token.
fn steps(criterion: &Criterion, top: &Level) -> f64 {
    let tokens = |run: ResultFields<'_>| Some(run.number("total_output_tokens")? / run.number("completed")?);
    let per_token = criterion.metric.contains("tpot") || criterion.metric.contains("itl");
    let tokens = top.runs().next().filter(|_| per_token).and_then(tokens);
    tokens.filter(|tokens| tokens.is_finite()).unwrap_or(1.0).max(1.0)
}

/// The shortest mean latency in seconds; 0 if unknown.
fn shortest_latency(known: &[Level]) -> f64 {
    let first = known.iter().filter_map(|level| level.runs().next()?.number("mean_e2el_ms"));
    let seconds = first.filter(|mean| mean.is_finite() && *mean > 0.0).map(|mean| mean / 1000.0);
    seconds.reduce(f64::min).unwrap_or(0.0)
}
