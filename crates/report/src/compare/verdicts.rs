//! Whether differences between runs are real: each side against the first, number by number.

use tacho_core::json::Value;
use tacho_metrics::StoredRun;
use tacho_metrics::compare::{Effect, compare, shared_keys};

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
    let base_settings = settings(base);
    let mut all = Vec::new();
    for new in others {
        let new_settings = settings(new);
        let pairs: Vec<(&Setting, &Setting)> = match (&base_settings[..], &new_settings[..]) {
            ([one], [other]) => vec![(one, other)],
            (ones, others) => {
                ones.iter().filter_map(|one| Some((one, others.iter().find(|other| other.name == one.name)?))).collect()
            }
        };
        for (before, after) in pairs {
            let keys = match &spec.keys {
                Some(keys) => keys.clone(),
                None => shared_keys(&before.runs, &after.runs),
            };
            let mut title = format!("{} against {}", new.label, base.label);
            if base_settings.len() > 1 {
                title += &format!(" at {}", before.name);
            }
            let failed = |problem| Error::Key { label: title.clone(), problem };
            let effects: Result<Vec<Effect>, Error> = keys
                .iter()
                .map(|key| compare(key, &before.runs, &after.runs, spec.confidence).map_err(failed))
                .collect();
            all.push(Verdicts { effects: effects?, title });
        }
    }
    Ok(all)
}

/// The runs of a side with the same settings.
struct Setting {
    name: String,
    runs: Vec<StoredRun>,
}

fn settings(side: &Side) -> Vec<Setting> {
    let name = |row: &Row| {
        let parts = SAME.iter().filter_map(|key| Some(format!("{key} {}", plain(row.cells.get(key)?))));
        parts.collect::<Vec<_>>().join(", ")
    };
    let mut settings: Vec<Setting> = Vec::new();
    for row in &side.rows {
        let Some(run) = row.run.clone() else { continue };
        let name = name(row);
        match settings.iter_mut().find(|setting| setting.name == name) {
            Some(setting) => setting.runs.push(run),
            None => settings.push(Setting { name, runs: vec![run] }),
        }
    }
    let level = |setting: &Setting| {
        let run = setting.runs.first();
        ["max_concurrency", "request_rate"].map(|key| run.and_then(|run| run.number(key)).unwrap_or(0.0))
    };
    settings.sort_by(|a, b| level(a).partial_cmp(&level(b)).unwrap_or(std::cmp::Ordering::Equal));
    settings
}
