//! The answers of the searches as they are stored, in `sla_summary.json`.

use std::path::{Path, PathBuf};

use tacho_core::json::{Dict, Value};
use tacho_decide::search::{Answer, Boundary, Criterion};
use tacho_metrics::statistics::mean;

use super::level::{Level, nearest, values};
use super::marker;
use super::pair::Pair;
use crate::experiment::{Archive, Failure, Style};
use crate::sweep::workload::LoadVariable;

/// What a search found.
#[derive(Clone, Copy)]
pub(super) struct Outcome {
    pub(super) answer: Answer,
    /// Where the target is met exactly.
    pub(super) found: Option<Boundary>,
    /// The loads that are left.
    pub(super) range: (u64, u64),
    /// Whether no level passed although a lower one failed.
    pub(super) monotone: bool,
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

    /// How many of the searches found nothing.
    pub(super) fn unmet(&self) -> usize {
        let found_nothing = |entry: &&Value| entry.get("verdict").and_then(Value::as_str) == Some("infeasible");
        self.list.iter().filter(found_nothing).count()
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
        let (verdict, value) = match answer {
            Answer::Infeasible => ("infeasible", None),
            Answer::Unbounded => ("unbounded", None),
            Answer::Level(level) => ("found", Some(level)),
        };
        entry.set("verdict", verdict);
        entry.set("value", Value::from(value));
        let found = outcome.found.filter(|_| value.is_some());
        entry.set("boundary", Value::from(found.map(|found| found.value)));
        entry.set("boundary_low", Value::from(found.map(|found| found.low)));
        // Without an upper end no level surely fails: the answer is at least the lower one.
        entry.set("boundary_high", Value::from(found.and_then(|found| found.high)));
        entry.set("monotone", outcome.monotone);
        // The answer of all runs together may lie between levels.
        let upto = |level: &&Level| value.is_some_and(|value| level.tried.level <= value);
        let chosen = levels.iter().filter(upto).max_by_key(|level| level.tried.level);
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
            entry.set("nearest", nearest.tried.level);
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

/// Each level with its values and verdict, for tables and pictures.
fn curve(by: LoadVariable, target: &[Criterion], levels: &[Level]) -> Vec<Value> {
    let entry = |level: &Level| {
        let mut entry = Dict::new();
        entry.set("level", level.tried.level);
        entry.set("runs", level.results.len());
        entry.set("met", level.tried.verdict.passes());
        entry.set("sustained", level.tried.verdict.is_sustained());
        entry.set("brief", level.tried.verdict.brief);
        for (criterion, values) in target.iter().zip(values(by, target, level.results.iter()).unwrap_or_default()) {
            entry.set(criterion.metric.as_str(), mean(&values));
        }
        Value::Dict(entry)
    };
    levels.iter().map(entry).collect()
}
