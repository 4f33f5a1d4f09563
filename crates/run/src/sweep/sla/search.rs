//! A search in progress, and its report at the end.

use std::cell::Cell;

use tacho_core::{Note, json::Value};
use tacho_decide::search::{
    Criterion, Growth, Levels, LoadLevel, Measurement, Model, Search, StopReason, Verdict, load_value,
};
use tacho_metrics::{Interval, outputs::ACCURACY};
use tacho_record::metric::{Known, is_fraction};
use tacho_record::{ResultFields, groups::split};

use super::answers::{Answer, Answers, Found, client_doubt};
use super::{level_directory, load_text, marker, pair::Pair};
use crate::experiment::{Failure, Level, Slot, Stop, Style, explore, required, spelled};
use crate::{sweep::combination::Combination, sweep::session::Sweep, sweep::workload::LoadVariable};

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
        let (variable, key) = (self.plan.variable, self.plan.variable.name());
        let criteria: Vec<String> = target.iter().map(Criterion::to_string).collect();
        session.note(format!("[SLA START]\nSLA criteria: {}", criteria.join(", ")));
        if self.plan.sweep.dry_run {
            return self.show(session, slot);
        }
        let (mut known, top): (Vec<Level>, Vec<Level>) =
            self.stored(session.tools.archive).into_iter().partition(|level| level.level != self.top());
        let mut top = top.into_iter().next().unwrap_or_else(|| Level::new(self.top()));
        session.note(format!("Testing {key}: {}", variable.amount(top.level)));
        if top.results.len() < self.plan.sweep.num_runs {
            self.run(session, slot, &mut top, None, None)?;
        }
        let mut lost = 0.0;
        if self.plan.first_run.is_some() && self.completed_rate(&top).is_none() {
            let few = self.few();
            session.note(format!("No request ended: testing {} of them", few.prompts));
            self.run(session, slot, &mut top, Some(few), None)?;
            lost = ResultFields(&top.results.remove(0)).number("duration").unwrap_or(0.0);
        }
        self.report_level(session, &top, target)?;
        let (model, levels) = self.model(target, &top);
        let fastest = Cell::new(shortest_latency(&known));
        let unit = |level: f64| self.plan.seconds(level, fastest.get());
        let tolerance = if model == Model::Monotone { 1.0 } else { PRECISE } * self.plan.tolerance;
        let spent = top.runs().filter_map(|run| run.number("duration")).sum::<f64>();
        let search = Search { levels, model, unit: &unit, budget: self.plan.budget - spent - lost, tolerance };
        let top_summary = self.summary(target, &top)?;
        let stopped = if top_summary.passes() {
            StopReason::Unlimited
        } else {
            session.note(format!("Initial {key} to search: {}.", variable.amount(levels.first)));
            let (time, flag) = (duration_text(self.plan.budget), self.plan.flags.budget);
            session.note(format!("Runs take {time} at most ({flag}), less where the answer is known sooner."));
            let before = (levels.first, self.completed_rate(&top).unwrap_or(1.0));
            let read = |known: &[Level]| self.all_measurements(target, known).map_err(Stop::Run);
            explore(&search, &mut known, read, |known, level, seconds| {
                session.note(format!("Testing {key}: {}", variable.amount(level)));
                let size = self.size_for((level, seconds), known, before);
                let runs = top.results.len() + known.iter().map(|level| level.results.len()).sum::<usize>();
                let runs = Some(runs).filter(|_| model != Model::Monotone || is_graded(target));
                let at = Level::among(known, level);
                self.run(session, slot, at, Some(size), runs)?;
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
        session.note("Omitting SLA search.\n[SLA END]");
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
        let max = (spelled(self.top()) - 1.0).max(1.0);
        match (self.plan.variable, limit) {
            (LoadVariable::RequestRate, limit) => {
                let first = if estimate < 10.0 { estimate } else { estimate.ceil() }.min(max);
                match limit {
                    Some(limit) => {
                        (Model::OpenLoop { limit }, Levels { growth: SAMPLED_GROWTH, ..Levels::rates(first, max) })
                    }
                    None => (Model::Monotone, Levels::whole_rates(first, max)),
                }
            }
            (LoadVariable::MaxConcurrency, Some(_)) => {
                // Little's law: the users whose requests take as long as a limit allows, at that rate.
                let times = target.iter().filter_map(|one| one.limit_seconds().map(|limit| limit * steps(one, top)));
                let users = self.completed_rate(top).unwrap_or(1.0) * times.fold(0.0, f64::max);
                let levels = Levels::users(users.ceil().clamp(1.0, max), max);
                (Model::ClosedLoop, Levels { growth: SAMPLED_GROWTH, ..levels })
            }
            // At the largest load all sessions run at once; pauses between their requests hide how many a server takes.
            (LoadVariable::Sessions, limit) => {
                let levels = Levels::users((estimate / 4.0).ceil().clamp(1.0, max), max);
                let model = limit.map_or(Model::Monotone, |_| Model::ClosedLoop);
                (model, Levels { growth: SAMPLED_GROWTH, ..levels })
            }
            (LoadVariable::MaxConcurrency, None) => {
                (Model::Monotone, Levels::users(estimate.ceil().clamp(1.0, max), max))
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
        let mut brief = vec![format!("  {}", self.plan.variable.amount(level.level))];
        for (criterion, (metric, mean)) in target.iter().zip(self.means(target, level)?) {
            let verdict = if criterion.is_met(mean) { "PASSED" } else { "FAILED" };
            session.note(format!("Validating SLA: {metric} = {mean:.2}{} | {verdict}", criterion.condition()));
            let name = if is_fraction(&metric) { metric.replace('_', " ") } else { metric.clone() };
            let known = Known::find(split(&metric).1);
            let mean = known.map_or_else(|| format!("{mean:.1}"), |known| known.text(mean, 1));
            brief.push(format!("{name} {mean}"));
        }
        let LoadLevel { overloaded, runs, .. } = summary;
        if overloaded > 0 {
            if level.level.is_finite() {
                session.note(format!(
                    "Not sustained: in {overloaded} of {runs} runs the server did not keep up with the load, or requests failed"
                ));
            }
            brief.push("not sustained".to_owned());
        }
        let verdict = if summary.passes() { "met" } else { "not met" };
        let noted = if summary.passes() && summary.brief { ", brief run" } else { "" };
        brief.push(format!("{verdict}{noted}"));
        session.say(Note::Sweep { text: format!("SLA criteria are {verdict}."), brief: brief.join(", ") });
        Ok(())
    }

    fn conclude(
        &self,
        session: &mut Sweep<'_>,
        target: &[Criterion],
        found: &Found,
        answers: &mut Answers,
    ) -> Result<(), Stop> {
        let (variable, key) = (self.plan.variable, self.plan.variable.name());
        session.say(self.table(target, found)?);
        let (left, right) = found.bracket();
        session.note(format!("Range of {key} to search: [{left}, {}] {}.", load_text(right), variable.unit()));
        let (verdict, inconclusive) = found.verdict(target, self.plan);
        let max = self.headline(target, found, verdict)?;
        session.note(format!(
            "Maximum {key} for SLA: {max}.\nThe search stopped: {}.",
            found.stop_text(target, self.plan)
        ));
        if let Some((nearest, level)) = found.nearest().filter(|_| found.answer == Answer::Infeasible) {
            let means = self.means(target, level)?;
            let shown = target.iter().zip(&means);
            let shown =
                shown.map(|(one, (metric, mean))| format!("{metric} = {}{}", one.value_text(*mean), one.condition()));
            let shown = shown.collect::<Vec<_>>().join(", ");
            let kept_up = if nearest.is_sustained() { "" } else { ", and the server did not keep up with it" };
            session.note(format!("Nearest is {key} {}: {shown}{kept_up}.", variable.amount(nearest.level)));
        }
        if let Some((level, verdict)) = found.unreliable(target) {
            session.warn(format!("{key} {level}: {verdict}; it may have decided whether this level passes"));
        }
        if let Answer::Level(level) = found.answer {
            self.unsure(target, found, level).into_iter().for_each(|text| session.warn(text));
        }
        if let Some(why) = inconclusive {
            session.warn(format!("Inconclusive: {why}"));
        }
        if !found.monotone {
            session.warn(format!("{key}: a level passed although a lower one failed; the answer is the lower one"));
        }
        session.note("[SLA END]");
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
                one.described()
            );
            (one.is_met(low) != one.is_met(high)).then_some(text)
        };
        runs.take(1).flat_map(|run| target.iter().filter_map(move |one| unsure(run, one))).collect()
    }

    /// The criteria in words, with the part of the runs at a load that they were compared with.
    fn described(&self, target: &[Criterion], found: &Found, level: f64) -> Result<Vec<String>, Failure> {
        let runs = found.levels.iter().find(|known| known.level == level);
        let means = runs.map_or(Ok(Vec::new()), |runs| self.means(target, runs))?;
        let whole = |at: usize| means.get(at).is_none_or(|(key, _)| *key == target[at].metric);
        let described = |at: usize| target[at].described() + if whole(at) { "" } else { " (steady part)" };
        Ok((0..target.len()).map(described).collect())
    }

    /// The highest measured load that meets the criteria, then the estimate with its range.
    fn headline(&self, target: &[Criterion], found: &Found, verdict: Verdict) -> Result<String, Failure> {
        Ok(match (found.answer, self.plan.variable) {
            (Answer::Infeasible, _) if verdict == Verdict::Infeasible => {
                "no feasible value: even the lowest load fails".to_owned()
            }
            (Answer::Infeasible, _) => "not found".to_owned(),
            (Answer::Unlimited, LoadVariable::RequestRate) => "unlimited".to_owned(),
            (Answer::Unlimited, LoadVariable::MaxConcurrency | LoadVariable::Sessions) => {
                format!("{} or more: all at a time meet it; a longer run would show more", self.top())
            }
            (Answer::Level(level), variable) => {
                let estimate = found.estimate.map_or_else(String::new, |found| match found.high {
                    Some(high) => format!("; estimate {:.1} (95% CI {:.1}–{high:.1})", found.value, found.low),
                    None => format!("; estimate {:.1} (at least {:.1})", found.value, found.low),
                });
                let criteria = self.described(target, found, level)?.join(" and ");
                format!("{}, measured and met{estimate}, for {criteria}", variable.amount(level))
            }
        })
    }

    /// The measurements at each load, and which of them failed.
    fn table(&self, target: &[Criterion], found: &Found) -> Result<Note, Failure> {
        let means = found.levels.iter().map(|level| self.means(target, level)).collect::<Result<Vec<_>, _>>()?;
        // A level whose runs have no steady part is compared by its whole runs: a column of its own.
        let mut keys: Vec<&str> = means.iter().flatten().map(|(key, _)| key.as_str()).collect();
        keys.sort_by_key(|key| (target.iter().position(|one| key.ends_with(one.metric.as_str())), *key));
        keys.dedup();
        let rounded = |number: f64| Value::Float((number * 100.0).round() / 100.0);
        let shown = |key: &str, number: f64| match Known::find(split(key).1).filter(|_| is_fraction(key)) {
            Some(known) => Value::from(known.text(number, 2)),
            None => rounded(number),
        };
        let mut rows = Vec::new();
        for ((one, level), means) in found.each().zip(&means) {
            let load = if one.level.is_finite() { load_value(one.level) } else { load_text(one.level).into() };
            let mut row = vec![load, Value::from(one.runs)];
            let mean = |key: &&str| means.iter().find(|(known, _)| known == key);
            row.extend(keys.iter().map(|key| mean(key).map_or(Value::Null, |(key, mean)| shown(key, *mean))));
            row.push(rounded(required(level.mean("request_throughput"), "request_throughput", "--bench-cmd")?));
            row.push(verdict_text(one, client_doubt(level, target).is_some()).into());
            rows.push(row);
        }
        let first = [self.plan.variable.name(), "runs"].into_iter().chain(keys);
        Ok(Note::Table { headings: first.chain(["completed/s", "verdict"]).map(str::to_owned).collect(), rows })
    }
}

/// Whether a criterion is of grades, which other questions repeat and the same ones do not.
fn is_graded(target: &[Criterion]) -> bool {
    let metrics = target.iter().map(|one| split(&one.metric).1);
    metrics.into_iter().any(|metric| metric == ACCURACY || matches!(Known::find(metric), Some(Known::Score(_))))
}

fn verdict_text(one: &LoadLevel, client_unreliable: bool) -> String {
    let text = match (one.is_met(), one.is_sustained()) {
        (true, _) if one.brief => "met, brief run",
        (true, _) => "met",
        (false, true) if one.by_chance => "met by chance",
        (false, true) => "not met",
        (false, false) => "not sustained",
    };
    if client_unreliable { format!("{text}, client unreliable") } else { text.to_owned() }
}

fn duration_text(seconds: f64) -> String {
    if seconds < 90.0 { format!("{seconds:.0} seconds") } else { format!("{:.0} minutes", seconds / 60.0) }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_tell_brief_runs_backlogs_and_unreliable_clients() {
        let text = |passes: bool, unreliable: bool, change: fn(&mut LoadLevel)| {
            let mut one = LoadLevel::of(&[Measurement::exact(80.0, passes)]);
            change(&mut one);
            verdict_text(&one, unreliable)
        };
        assert_eq!(text(true, false, |_| {}), "met");
        assert_eq!(text(true, true, |_| {}), "met, client unreliable");
        assert_eq!(text(true, false, |one| one.brief = true), "met, brief run");
        assert_eq!(text(true, false, |one| one.by_chance = true), "met by chance");
        assert_eq!(text(false, false, |_| {}), "not met");
        assert_eq!(text(false, false, |one| one.overloaded = 1), "not sustained");
    }
}
