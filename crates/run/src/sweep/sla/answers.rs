//! The answers of the searches as they are stored, in `sla_summary.json`.

use std::path::{Path, PathBuf};

use tacho_core::json::{Dict, Value};
use tacho_decide::search::{Answer, Boundary, Criterion, UNLIMITED};
use tacho_metrics::statistics::mean;

use super::interval_search::PRECISE;
use super::level::{Level, nearest, values};
use super::marker;
use super::pair::Pair;
use super::result::unreliable_client;
use crate::experiment::{Archive, Failure, Style, load_value};
use crate::sweep::workload::LoadVariable;

/// What a search found.
#[derive(Clone, Copy)]
pub(super) struct Outcome {
    /// The largest load that was measured and met the criteria.
    pub(super) answer: Answer,
    /// The estimate of the load at which they are just met, with its 95% range.
    pub(super) found: Option<Boundary>,
    /// The loads that are left.
    pub(super) range: (f64, f64),
    /// Whether no level passed although a lower one failed.
    pub(super) monotone: bool,
    pub(super) stopped: StopReason,
}

/// Why a search made no further run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StopReason {
    /// The estimate is as precise as the tolerance asks.
    Precise,
    /// The time budget was spent.
    Budget,
    /// The largest number of runs was made.
    Runs,
    /// Even the lowest load fails.
    Infeasible,
    /// Even unlimited load passes.
    Unlimited,
}

impl StopReason {
    fn name(self) -> &'static str {
        match self {
            StopReason::Precise => "precision",
            StopReason::Budget => "budget",
            StopReason::Runs => "runs",
            StopReason::Infeasible => "infeasible",
            StopReason::Unlimited => "unlimited",
        }
    }

    pub(super) fn text(self) -> &'static str {
        match self {
            StopReason::Precise => "the estimate is precise enough",
            StopReason::Budget => "the time budget (--sla-budget) is spent",
            StopReason::Runs => "the largest number of runs was made",
            StopReason::Infeasible => "even the lowest load fails",
            StopReason::Unlimited => "even unlimited load passes",
        }
    }
}

/// A range that reaches this many times further than wanted decides nothing.
const INCONCLUSIVE: f64 = 5.0;

/// The verdict of a search, the same in the console, in the file and in the exit code.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Verdict {
    Found,
    Infeasible,
    Unbounded,
    /// For this reason.
    Inconclusive(String),
}

impl Verdict {
    pub(super) fn of(outcome: &Outcome, levels: &[Level], tolerance: f64) -> Self {
        let level = match (outcome.answer, outcome.found) {
            (Answer::Unbounded, _) => return Verdict::Unbounded,
            (Answer::Infeasible, None) if outcome.stopped == StopReason::Budget => {
                return Verdict::Inconclusive(
                    "no load met the criteria within the time budget: raise --sla-budget".into(),
                );
            }
            (Answer::Infeasible, None) => return Verdict::Infeasible,
            (Answer::Infeasible, Some(_)) => {
                return Verdict::Inconclusive(
                    "runs of one load disagree, and no load met the criteria on average".into(),
                );
            }
            (Answer::Level(level), _) => level,
        };
        // The client decides where the answer was measured and where the first larger load failed.
        let above = levels
            .iter()
            .map(|level| level.tried.level)
            .filter(|&other| other > level && other < UNLIMITED)
            .reduce(f64::min);
        let decides = |one: &&Level| one.tried.level == level || Some(one.tried.level) == above;
        let decided: Vec<&Level> = levels.iter().filter(decides).collect();
        if decided.iter().any(|level| level.results.iter().any(|result| unreliable_client(result).is_some())) {
            return Verdict::Inconclusive("the client was not reliable next to the answer".into());
        }
        let most = INCONCLUSIVE * PRECISE * tolerance;
        match outcome.found.map(|found| found.reach()) {
            // Without intervals, two adjacent levels bound the answer.
            Some(None) if outcome.stopped != StopReason::Precise => {
                Verdict::Inconclusive("no load that was measured fails for certain: raise --sla-budget".into())
            }
            Some(Some(reach)) if reach > most && outcome.stopped != StopReason::Precise => {
                Verdict::Inconclusive(format!(
                    "the 95% range reaches {:.0}% away from the estimate, more than {:.0}%: raise --sla-budget",
                    reach * 100.0,
                    most * 100.0
                ))
            }
            _ => Verdict::Found,
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Verdict::Found => "found",
            Verdict::Infeasible => "infeasible",
            Verdict::Unbounded => "unbounded",
            Verdict::Inconclusive(_) => "inconclusive",
        }
    }
}

/// The answers so far.
pub(super) struct Answers {
    path: PathBuf,
    list: Vec<Value>,
}

impl Answers {
    pub(super) fn stored(archive: &dyn Archive, experiment: &Path) -> Self {
        let path = experiment.join("sla_summary.json");
        let list = archive.list(&path).unwrap_or_default();
        Answers { path, list }
    }

    pub(super) fn has(&self, base: &Path, target: &[Criterion]) -> bool {
        let marker = marker(base, target).display().to_string();
        self.list.iter().any(|entry| entry.get("search").and_then(Value::as_str) == Some(&marker))
    }

    /// How many of the searches did not find a load that meets the criteria.
    pub(super) fn unmet(&self) -> usize {
        let word = |entry: &Value| entry.get("verdict").and_then(Value::as_str).map(str::to_owned);
        let unmet = ["infeasible", "inconclusive"];
        self.list.iter().filter_map(word).filter(|word| unmet.contains(&word.as_str())).count()
    }

    pub(super) fn add(&mut self, pair: &Pair<'_>, target: &[Criterion], levels: &[Level], outcome: Outcome) {
        let answer = outcome.answer;
        let mut entry = Dict::new();
        let name = marker(&pair.base, target).display().to_string();
        self.list.retain(|known| known.get("search").and_then(Value::as_str) != Some(&name));
        entry.set("search", name);
        entry.set("serve", pair.serve.shown());
        entry.set("bench", pair.bench.shown());
        entry.set("criteria", Value::List(target.iter().map(|one| Value::from(one.to_string())).collect()));
        entry.set("variable", pair.plan.variable.key());
        let verdict = Verdict::of(&outcome, levels, pair.plan.tolerance);
        let measured = if let Answer::Level(level) = answer { Some(level) } else { None };
        entry.set("verdict", verdict.name());
        if let Verdict::Inconclusive(why) = &verdict {
            entry.set("reason", why.as_str());
        }
        entry.set("stopped", outcome.stopped.name());
        entry.set("max_measured", measured.map_or(Value::Null, load_value));
        let found = outcome.found.filter(|_| answer != Answer::Unbounded);
        let estimate = found.map(|found| found.value).or(measured);
        entry.set("estimate", Value::from(estimate));
        entry.set("ci_low", Value::from(found.map(|found| found.low)));
        // Without an upper end no level fails for certain.
        entry.set("ci_high", Value::from(found.and_then(|found| found.high)));
        entry.set("monotone", outcome.monotone);
        let chosen = levels.iter().find(|level| Some(level.tried.level) == measured);
        let by = pair.plan.variable;
        let mut achieved = Dict::new();
        for (criterion, values) in chosen
            .iter()
            .flat_map(|level| target.iter().zip(values(by, target, level.results.iter()).unwrap_or_default()))
        {
            achieved.set(criterion.metric.as_str(), values.iter().sum::<f64>() / values.len() as f64);
        }
        entry.set("achieved", achieved);
        if let Some(nearest) = nearest(levels).filter(|_| answer == Answer::Infeasible) {
            entry.set("best_attempt", load_value(nearest.tried.level));
        }
        entry.set("levels", levels.len());
        entry.set("curve", curve(by, target, levels));
        entry.set("runs", levels.iter().map(|level| level.results.len()).sum::<usize>());
        self.list.push(Value::Dict(entry));
    }

    pub(super) fn store(&self, archive: &dyn Archive) -> Result<(), Failure> {
        archive.keep(&self.path, &Value::List(self.list.clone()), Style::Result)
    }
}

/// Each level with its values and verdict, for tables and charts.
fn curve(by: LoadVariable, target: &[Criterion], levels: &[Level]) -> Vec<Value> {
    let entry = |level: &Level| {
        let mut entry = Dict::new();
        entry.set("level", load_value(level.tried.level));
        entry.set("runs", level.results.len());
        entry.set("met", level.tried.verdict.passes());
        entry.set("sustained", level.tried.verdict.is_sustained());
        entry.set("brief", level.tried.verdict.brief);
        entry.set("client_unreliable", level.results.iter().any(|result| unreliable_client(result).is_some()));
        for (criterion, values) in target.iter().zip(values(by, target, level.results.iter()).unwrap_or_default()) {
            entry.set(criterion.metric.as_str(), mean(&values));
        }
        Value::Dict(entry)
    };
    levels.iter().map(entry).collect()
}
