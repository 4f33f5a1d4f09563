//! The search: which level is measured next, and what is said of the levels at its end.

use tacho_core::event::{Most, SearchNote, SearchRow};
use tacho_core::json::{Dict, Value};
use tacho_decide::search::{Answer, Criterion, Step, Tried, UNLIMITED, boundary, bracket, is_monotone, next, refine};
use tacho_metrics::statistics::mean;

use super::answers::{Answers, Outcome, StopReason, Verdict};
use super::level::{Level, WAVES, nearest, values};
use super::pair::Pair;
use super::result::{SteadyState, mean_latency, number, unreliable_client};
use super::{level_directory, marker};
use crate::experiment::{Failure, Slot, Style};
use crate::sweep::combination::Combination;
use crate::sweep::session::{Session, Stop};
use crate::sweep::workload::LoadVariable;

/// Loads up to this many times another count as slightly larger.
const SLIGHTLY_LARGER: f64 = 1.1;
/// A range that reaches no further than this share of the answer either way is narrow enough.
const PRECISE: f64 = 0.05;
/// For how many times as long as one level a search holds all of its levels together: 29 in one of the simulator with
/// everything as it is by default. It is a forecast and no limit.
const LEVELS: f64 = 30.0;

impl Pair<'_> {
    pub(super) fn search(
        &self,
        session: &mut Session<'_>,
        slot: &mut Slot,
        target: &[Criterion],
        answers: &mut Answers,
    ) -> Result<(), Stop> {
        let key = self.plan.variable.key();
        let done = marker(&self.base, target);
        if session.archive.has(&done) && answers.has(&self.base, target) {
            session.count();
            return Ok(());
        }
        let conditions: Vec<String> = target.iter().map(Criterion::to_string).collect();
        session.say(SearchNote::Begins(conditions));
        if self.plan.sweep.dry_run {
            let (bench, directory) = (self.set(self.top(), 1, &[]), level_directory(self.plan, &self.base, self.top()));
            let what = Combination { serve: self.serve, bench: &bench, directory: &directory };
            session.combine_runs(slot, what, self.plan.sweep.num_runs)?;
            session.say(SearchNote::Omitted);
            session.say(SearchNote::Ends);
            return Ok(());
        }
        session.say(SearchNote::Testing { load: self.load(), level: self.top() });
        let top = self.level(session, slot, self.top(), target, false)?;
        if let Some(top) = &top {
            self.report_level(session, top, target);
        }
        if let Some(top) = top.filter(|top| self.has_intervals(target, &top.results)) {
            let (levels, outcome) = self.interval_search(session, slot, target, top)?;
            return self.conclude(session, target, &levels, outcome, answers);
        }
        let mut levels: Vec<Level> = Vec::new();
        for level in self.stored(session.archive) {
            levels.extend(self.level(session, slot, level, target, false)?);
        }
        let (mut first, top, load) = (None, self.top(), self.load());
        let answer = loop {
            let tried = self.tried(&levels);
            if first.is_none() && tried.iter().any(|tried| tried.level == top) {
                let start = self.first(&levels);
                session.say(SearchNote::From { load, level: start });
                self.forecast_duration(session, &levels, start);
                first = Some(start);
            }
            let step = next(&tried, first.unwrap_or(1.0), top, self.plan.tolerance, self.guess(&levels));
            let step = match step {
                Step::Done(answer) => self.narrower(&levels, &tried).unwrap_or(Step::Done(answer)),
                step => step,
            };
            let (tested, confirm) = match step {
                Step::Done(answer) => break answer,
                Step::Try(level) => (level, false),
                Step::Confirm(level) => (level, true),
            };
            session.say(SearchNote::Testing { load, level: tested });
            let Some(level) = self.level(session, slot, tested, target, confirm)? else {
                let text = format!("no result at {key}={tested}, which the search cannot do without");
                return Err(Stop::Sweep(Failure::new("ValueError", text)));
            };
            let before = levels.iter().find(|known| known.tried.level == tested).map_or(0, |known| known.runs);
            if confirm && level.runs <= before {
                // A run that fails again and again would be tried for ever.
                let text = format!("no further result at {key}={tested}, which the search cannot do without");
                return Err(Stop::Sweep(Failure::new("ValueError", text)));
            }
            self.report_level(session, &level, target);
            levels.retain(|known| known.tried.level != tested);
            levels.push(level);
        };
        // A search taken up again knows its levels in another order; what it leaves must be the same.
        levels.sort_by(|one, other| one.tried.level.total_cmp(&other.tried.level));
        let judged = self.tried(&levels);
        levels.iter_mut().zip(judged).for_each(|(level, judged)| level.tried = judged);
        let tried: Vec<Tried> = levels.iter().map(|level| level.tried).collect();
        let (left, right) = bracket(&tried);
        let (found, range) = (boundary(&tried), (left, right.min(self.top())));
        let stopped = match answer {
            Answer::Infeasible => StopReason::Infeasible,
            Answer::Unbounded => StopReason::Unlimited,
            Answer::Level(_) if self.spent(&levels) => StopReason::Budget,
            Answer::Level(_) => StopReason::Precise,
        };
        let outcome = Outcome { answer, found, range, monotone: is_monotone(&tried), stopped };
        self.conclude(session, target, &levels, outcome, answers)
    }

    /// What to measure beyond the answer, while there is time and its range is wide.
    fn narrower(&self, levels: &[Level], tried: &[Tried]) -> Option<Step> {
        refine(tried, PRECISE).filter(|_| !self.spent(levels))
    }

    /// Whether the time budget of the search is spent.
    fn spent(&self, levels: &[Level]) -> bool {
        levels.iter().map(|level| level.seconds).sum::<f64>() >= self.plan.longest
    }

    /// The verdicts. What the server did not answer under a little more load it does not answer under this one either: a
    /// run may be too short for such a backlog to show.
    fn tried(&self, levels: &[Level]) -> Vec<Tried> {
        let judged = |level: &Level| {
            let load = level.tried.level;
            let slightly_larger = |other: &&Level| {
                let (more, verdict) = (other.tried.level, other.tried.verdict);
                // A brief run may have met a hiccup.
                more > load && more <= SLIGHTLY_LARGER * load && !verdict.is_sustained() && !verdict.brief
            };
            let beyond = levels.iter().filter(slightly_larger).filter_map(saturated).any(|answered| answered < load);
            let swamped = if beyond { level.tried.verdict.runs } else { level.tried.verdict.swamped };
            Tried { verdict: level.tried.verdict.with_swamped(swamped), ..level.tried }
        };
        levels.iter().map(judged).collect()
    }

    /// A load that is likely a little too large: what the server answered of more than it could.
    fn guess(&self, levels: &[Level]) -> Option<f64> {
        let limited = levels.iter().filter(|level| level.tried.level < UNLIMITED);
        let most =
            limited.filter(|level| !level.tried.verdict.is_sustained()).filter_map(saturated).reduce(f64::max)?;
        Some((most * (1.0 + SLIGHTLY_LARGER) / 2.0).ceil())
    }

    /// Where to begin: what the server managed under the largest load, a whole number.
    fn first(&self, levels: &[Level]) -> f64 {
        let top = levels.iter().find(|level| level.tried.level == self.top());
        let estimate = top.and_then(|level| self.plan.variable.estimate(&level.results)).unwrap_or(1.0);
        estimate.ceil().clamp(1.0, UNLIMITED - 1.0)
    }

    /// Says how long the search will take, by what the largest load showed.
    fn forecast_duration(&self, session: &Session<'_>, levels: &[Level], start: f64) {
        let answer = levels.iter().find(|level| level.tried.level == self.top()).map(|top| mean_latency(&top.results));
        let level_seconds = match self.plan.variable {
            LoadVariable::RequestRate => self.plan.seconds(start, 0.0),
            LoadVariable::MaxConcurrency => WAVES * answer.unwrap_or(0.0),
        };
        if levels.len() < 2 {
            session.say(SearchNote::Takes { level_seconds, seconds: level_seconds * LEVELS });
        }
    }

    /// The verdict on a level, criterion by criterion.
    pub(super) fn report_level(&self, session: &Session<'_>, level: &Level, target: &[Criterion]) {
        let Ok(values) = values(self.plan.variable, target, level.results.iter()) else { return };
        for (criterion, values) in target.iter().zip(&values) {
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            let (metric, condition) = (criterion.metric.clone(), criterion.condition());
            session.say(SearchNote::Criterion { metric, mean, condition, met: criterion.is_met(mean) });
        }
        let swamped = level.tried.verdict.swamped;
        if swamped > 0 && level.tried.level < UNLIMITED {
            let runs = level.results.len();
            session.say(SearchNote::NotSustained { swamped, runs });
        }
        let verdict = level.tried.verdict;
        if verdict.is_doubtful() {
            session.say(SearchNote::Doubtful);
        }
        session.say(SearchNote::Verdict { met: verdict.passes() });
    }

    fn conclude(
        &self,
        session: &mut Session<'_>,
        target: &[Criterion],
        levels: &[Level],
        outcome: Outcome,
        answers: &mut Answers,
    ) -> Result<(), Stop> {
        let Outcome { answer, found, range: (left, right), monotone, stopped } = outcome;
        let load = self.load();
        let (metrics, rows) =
            (target.iter().map(|one| one.metric.clone()).collect(), table(self.plan.variable, target, levels));
        session.say(SearchNote::Table { load, metrics, rows });
        session.say(SearchNote::Range { load, left, right });
        let most = match (answer, self.plan.variable) {
            (Answer::Infeasible, _) => Most::Nothing,
            (Answer::Unbounded, LoadVariable::RequestRate) => Most::Unbounded(UNLIMITED),
            (Answer::Unbounded, LoadVariable::MaxConcurrency) => Most::AllPrompts(self.top()),
            (Answer::Level(level), _) => Most::Level(level),
        };
        session.say(SearchNote::Most { load, most });
        if let (Answer::Level(_), Some(found)) = (answer, found) {
            let spoken = target.iter().map(Criterion::spoken).collect::<Vec<_>>().join(" and ");
            let (value, low, high, stopped) = (found.value, found.low, found.high, stopped.text());
            session.say(SearchNote::Estimate { load, value, low, high, spoken, stopped });
        }
        if let Some(nearest) = nearest(levels).filter(|_| answer == Answer::Infeasible) {
            let (level, sustained) = (nearest.tried.level, nearest.tried.verdict.is_sustained());
            let means = values(self.plan.variable, target, nearest.results.iter()).unwrap_or_default();
            let found = target
                .iter()
                .zip(&means)
                .map(|(one, values)| format!("{} = {:.2}{}", one.metric, mean(values), one.condition()));
            session.say(SearchNote::Nearest { load, level, found: found.collect(), sustained });
        }
        if let Some((level, verdict)) = unreliable(levels) {
            session.warn(SearchNote::ClientDoubted { load, level, verdict });
        }
        if let Verdict::Inconclusive(why) = Verdict::of(&outcome, levels, self.plan.tolerance) {
            session.warn(SearchNote::Inconclusive { why });
        }
        if !monotone {
            session.warn(SearchNote::NotMonotone { load });
        }
        session.say(SearchNote::Ends);
        answers.add(self, target, levels, outcome);
        let all = levels.iter().flat_map(|level| level.results.iter().cloned().map(Value::Dict)).collect();
        session.archive.keep(&marker(&self.base, target), &Value::List(all), Style::Result).map_err(Stop::Sweep)?;
        answers.store(session.archive).map_err(Stop::Sweep)
    }
}

/// The largest limited level with a run whose client was not reliable, and the verdict on that client.
pub(super) fn unreliable(levels: &[Level]) -> Option<(f64, String)> {
    let limited = levels.iter().filter(|level| level.tried.level < UNLIMITED);
    let doubted =
        limited.filter_map(|level| Some((level.tried.level, level.results.iter().find_map(unreliable_client)?)));
    doubted.max_by(|one, other| one.0.total_cmp(&other.0)).map(|(level, verdict)| (level, verdict.to_owned()))
}

/// How many requests a second were answered in the steady part of a level's runs.
fn saturated(level: &Level) -> Option<f64> {
    let rate = |result: &Dict| SteadyState::of(result)?.request_throughput();
    level.results.iter().filter_map(rate).reduce(f64::max)
}

/// What was measured at each level.
fn table(by: LoadVariable, target: &[Criterion], levels: &[Level]) -> Vec<SearchRow> {
    let row = |level: &Level| {
        let means = values(by, target, level.results.iter()).unwrap_or_default();
        let rates: Vec<f64> = level.results.iter().filter_map(|one| number(one, "request_throughput")).collect();
        let verdict = &level.tried.verdict;
        SearchRow {
            level: level.tried.level,
            runs: level.results.len(),
            means: means.iter().map(|values| mean(values)).collect(),
            answered: mean(&rates),
            met: verdict.passes(),
            doubtful: verdict.is_doubtful(),
            brief: verdict.brief,
            sustained: verdict.is_sustained(),
        }
    };
    levels.iter().map(row).collect()
}
