//! `sweep plot`: curves over the results of a sweep, in figures, rows and columns; and the swept variables.

mod curves;
mod data;
mod figure;

pub use data::{Binner, Combination, Filter, python_text, read_sweep};
pub use figure::{Figure, figures};

use tacho_core::json::{Dict, Value};
use tacho_record::StoredRun;

use super::ScaleKind;
use crate::compare::settings::{settings, varying};

#[derive(Debug, Clone, PartialEq)]
pub struct SweepPlotSpec {
    pub fig_by: Vec<String>,
    pub row_by: Vec<String>,
    pub col_by: Vec<String>,
    /// The variables that separate curves; by default the swept ones.
    pub curve_by: Option<Vec<String>>,
    pub x: String,
    pub y: String,
    pub filters: Vec<Filter>,
    pub binners: Vec<Binner>,
    pub scale_x: ScaleKind,
    pub scale_y: ScaleKind,
    pub name: String,
    /// Whether the variation between runs is shown.
    pub error_bars: bool,
    /// Side length of a panel in inches.
    pub panel: f64,
}

/// Load variables: if one of them was swept, curves run along it.
const LOADS: [&str; 3] = ["request_rate", "max_concurrency", "sessions_concurrency"];

/// The settings that differ between the combinations of a sweep, in order of appearance.
pub(crate) fn swept(combinations: &[Combination]) -> Vec<String> {
    let first = combinations.iter().filter_map(|combination| combination.runs.first());
    let sets: Vec<_> = first.filter_map(|run| StoredRun::from_dict(run).ok()).map(|run| settings(&run)).collect();
    let spelt = |key: &str| key.replace('-', "_");
    let mut keys: Vec<String> = Vec::new();
    // A parameter may appear in addition to the result's own key of the same meaning.
    for key in varying(sets.iter()) {
        if !keys.iter().any(|known| spelt(known) == spelt(&key)) {
            keys.push(key);
        }
    }
    keys
}

/// The variables that separate curves, and the one along them.
pub(super) struct Curves {
    pub(super) by: Vec<String>,
    pub(super) along: Option<String>,
}

impl Curves {
    /// The requested variables; by default every swept one except the one along the curves.
    pub(super) fn of(spec: &SweepPlotSpec, swept: &[String], records: &[&Dict]) -> Self {
        let placed = [&spec.fig_by, &spec.row_by, &spec.col_by];
        let free: Vec<&String> = swept.iter().filter(|key| !placed.iter().any(|by| by.contains(key))).collect();
        let named = |key: &&&String| spec.curve_by.as_ref().is_some_and(|by| by.contains(key));
        let left: Vec<&String> = free.iter().filter(|key| !named(key)).copied().collect();
        let along = along(&spec.x, &left, records).cloned();
        let rest = || left.iter().filter(|key| Some(**key) != along.as_ref()).map(|key| (*key).clone()).collect();
        Curves { by: spec.curve_by.clone().unwrap_or_else(rest), along }
    }
}

fn along<'a>(x: &str, keys: &[&'a String], records: &[&Dict]) -> Option<&'a String> {
    let spelt = |key: &str| key.replace('-', "_");
    let named = |name: &str| keys.iter().copied().find(|key| spelt(key) == spelt(name));
    let values = |key: &str| {
        let mut values: Vec<Option<f64>> = records.iter().map(|record| number(record, key)).collect();
        let numbers = values.iter().all(Option::is_some);
        values.sort_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
        values.dedup();
        (numbers, values.len())
    };
    let numeric = || keys.iter().copied().filter(|key| values(key).0).max_by_key(|key| values(key).1);
    named(x).or_else(|| LOADS.into_iter().find_map(named)).or_else(numeric)
}

/// A number, infinity included.
fn number(record: &Dict, key: &str) -> Option<f64> {
    record.get(key).and_then(Value::as_f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tacho_core::json::parse;

    fn combination(seqs: i64, level: i64) -> Combination {
        let run = |number: i64| {
            let text = format!(
                r#"{{"max_num_seqs": {seqs}, "max_concurrency": {level}, "run_number": {number}, "date": "{number}",
                    "duration": {number}.5, "p99_ttft_ms": {number}.0, "mode": "a"}}"#
            );
            parse(&text).unwrap().as_dict().unwrap().clone()
        };
        Combination { path: "x".into(), runs: vec![run(0), run(1)] }
    }

    #[test]
    fn what_was_measured_was_not_swept() {
        let all = [combination(1, 1), combination(1, 2), combination(4, 1), combination(4, 2)];
        assert_eq!(swept(&all), ["max_num_seqs", "max_concurrency"]);
        assert!(swept(&all[..1]).is_empty());
    }
}
