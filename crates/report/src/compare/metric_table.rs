//! One metric of all sides, and the largest load within latency limits.

use tacho_core::json::Value;

use super::CompareSpec;
use crate::distinct::distinct;
use crate::tables::markdown::{Table, significant};

/// One metric of all sides at all levels.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricTable {
    pub metric: String,
    pub table: Table,
    /// The curves; those of a side are adjacent.
    pub(super) curves: Vec<Curve>,
}

/// The points of a side that differ only in the level.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Curve {
    pub(super) side: usize,
    /// The side's name, and the settings that distinguish the curve from others of the side.
    pub(super) name: String,
    pub(super) points: Vec<(f64, f64)>,
}

pub(super) fn whole(number: f64) -> Value {
    if number.fract() == 0.0 && number.abs() < 1e15 { Value::Int(number as i64) } else { Value::Float(number) }
}

/// A row per curve: the largest level within each limit and within both, and the measurements there. `metrics` are
/// throughput, TTFT and TPOT.
pub(super) fn summary(spec: &CompareSpec, x: &str, metrics: &[MetricTable]) -> Table {
    let max = |(limit, slack): (f64, f64)| limit * (1.0 + slack / 100.0);
    let bound = |name: &str, limit: (f64, f64)| {
        let [min, max, slack] = [limit.0, max(limit), limit.1].map(significant);
        format!("Max {x} ({name} ≤ {min}–{max} ms (+{slack}%))")
    };
    let headings = vec![
        "Configuration".into(),
        bound("TTFT", spec.ttft),
        bound("TPOT", spec.tpot),
        format!("Max {x} (Both)"),
        "Output Tput @ Both (tok/s)".into(),
        "TTFT @ Both (ms)".into(),
        "TPOT @ Both (ms)".into(),
    ];
    let names = distinct(metrics.iter().flat_map(|metric| &metric.curves).map(|curve| curve.name.as_str()));
    let rows = names.into_iter().map(|name| {
        let points = |at: usize| {
            metrics[at].curves.iter().find(|curve| curve.name == name).map_or(&[][..], |curve| &curve.points)
        };
        let largest = |at: usize, limit: f64| {
            points(at).iter().filter(|(_, value)| *value <= limit).map(|(level, _)| *level).reduce(f64::max)
        };
        let value =
            |at: usize, level: f64| points(at).iter().find(|(other, _)| *other == level).map(|(_, value)| *value);
        let passes = |level: f64| {
            value(1, level).is_some_and(|value| value <= max(spec.ttft))
                && value(2, level).is_some_and(|value| value <= max(spec.tpot))
        };
        let both = points(1).iter().map(|(level, _)| *level).filter(|&level| passes(level)).reduce(f64::max);
        let gap = both.is_some_and(|both| points(1).iter().any(|(level, _)| *level < both && !passes(*level)));
        let level = |level: Option<f64>| level.map_or(Value::Null, whole);
        let shown = match both {
            Some(level) if gap => Value::from(format!("{} (a smaller level fails)", significant(level))),
            both => level(both),
        };
        let within = [level(largest(1, max(spec.ttft))), level(largest(2, max(spec.tpot))), shown];
        let at_both = (0..3).map(|at| Value::from(both.and_then(|level| value(at, level))));
        [Value::from(name)].into_iter().chain(within).chain(at_both).collect()
    });
    Table { headings, rows: rows.collect() }
}
