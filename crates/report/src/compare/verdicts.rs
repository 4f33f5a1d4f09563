//! Whether differences between runs are real: each side against the first, number by number.

use tacho_core::json::Value;
use tacho_metrics::compare::{Effect, compare, shared_keys};
use tacho_metrics::{ResultKind, StoredRun};

use super::CompareSpec;
use super::side::{Row, Side};
use crate::Error;
use crate::markdown::{Table, plain};

/// The columns that say which runs are repetitions of each other.
const SAME: [&str; 6] = ["Model", "Dataset Name", "Input Len", "Output Len", "# of max concurrency.", "qps"];

/// The effects between two sides at one setting.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdicts {
    /// What is compared with what.
    pub title: String,
    /// The effects.
    pub effects: Vec<Effect>,
    /// Whether a side has one run only, which cannot tell what differs from run to run.
    pub single: bool,
}

impl Verdicts {
    /// As a table.
    pub fn table(&self, spec: &CompareSpec) -> Table {
        let headings = ["metric", "base", "new", "change", "interval", "verdict", "basis"].map(str::to_owned).to_vec();
        let percent = |share: f64| format!("{:+.2} %", share * 100.0);
        let rows = self.effects.iter().map(|effect| {
            let interval =
                effect.interval.map_or_else(String::new, |(low, high)| format!("{} … {}", percent(low), percent(high)));
            let verdict = effect.verdict().text();
            let cells = [percent(effect.change), interval, verdict.to_owned(), effect.basis.text()];
            let numbers = [Value::Float(effect.base), Value::Float(effect.new)];
            let first = Value::from(effect.key.as_str());
            [first].into_iter().chain(numbers).chain(cells.map(Value::from)).collect()
        });
        let mut table = Table { headings, rows: rows.collect() };
        table.headings[4] = format!("{} % interval", spec.confidence.percent());
        table
    }
}

/// Compares every side with the first where both have runs at the same setting. Two sides of one setting each are
/// compared even when the settings differ: that is then what was asked for.
pub fn verdicts(sides: &[Side], spec: &CompareSpec) -> Result<Vec<Verdicts>, Error> {
    let Some((base, others)) = sides.split_first() else { return Ok(Vec::new()) };
    let (kinds, base_settings) = (base.kinds(), settings(base));
    let mut all = Vec::new();
    for new in others {
        let new_settings = settings(new);
        let pairs: Vec<(&Setting, &Setting)> = match (&base_settings[..], &new_settings[..]) {
            ([one], [other]) if one.kind == other.kind => vec![(one, other)],
            (ones, others) => {
                let same = |one: &Setting, other: &Setting| (one.kind, &one.name) == (other.kind, &other.name);
                ones.iter().filter_map(|one| Some((one, others.iter().find(|other| same(one, other))?))).collect()
            }
        };
        for (before, after) in pairs {
            let keys = match &spec.keys {
                Some(keys) => keys.clone(),
                None => shared_keys(&before.runs, &after.runs),
            };
            let mut title = format!("{} against {}", new.label, base.label);
            if base_settings.len() > 1 {
                title += &match (before.kind, before.name.as_str()) {
                    (ResultKind::Serving, name) => format!(" at {name}"),
                    (kind, "") => format!(", {}", kind.name()),
                    (kind, name) => format!(", {} of {name}", kind.name()),
                };
            }
            let failed = |problem| Error::Key { label: title.clone(), problem };
            let effects = keys.iter().map(|key| compare(key, &before.runs, &after.runs, spec.confidence));
            // Numbers that were asked for need not be those of every kind.
            let effects: Vec<Effect> = match kinds.len() {
                1 => effects.collect::<Result<_, _>>().map_err(failed)?,
                _ => effects.filter_map(Result::ok).collect(),
            };
            if !effects.is_empty() {
                let single = before.runs.len() == 1 || after.runs.len() == 1;
                all.push(Verdicts { effects, title, single });
            }
        }
    }
    Ok(all)
}

/// The runs of a side with the same settings.
struct Setting {
    kind: ResultKind,
    name: String,
    runs: Vec<StoredRun>,
}

fn settings(side: &Side) -> Vec<Setting> {
    let name = |row: &Row| {
        if let Some(test) = row.cells.get("Test name") {
            return plain(test);
        }
        let parts = SAME.iter().filter_map(|key| Some(format!("{key} {}", plain(row.cells.get(key)?))));
        parts.collect::<Vec<_>>().join(", ")
    };
    let mut settings: Vec<Setting> = Vec::new();
    for row in &side.rows {
        let Some(run) = row.run.clone() else { continue };
        let (kind, name) = (row.kind(), name(row));
        match settings.iter_mut().find(|setting| (setting.kind, &setting.name) == (kind, &name)) {
            Some(setting) => setting.runs.push(run),
            None => settings.push(Setting { kind, name, runs: vec![run] }),
        }
    }
    let level = |setting: &Setting| {
        let run = setting.runs.first();
        ["max_concurrency", "request_rate"].map(|key| run.and_then(|run| run.number(key)).unwrap_or(0.0))
    };
    settings.sort_by(|a, b| level(a).partial_cmp(&level(b)).unwrap_or(std::cmp::Ordering::Equal));
    settings
}
