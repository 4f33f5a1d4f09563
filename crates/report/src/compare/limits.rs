//! The largest load within latency limits.

use tacho_core::json::Value;

use super::CompareSpec;
use super::metric_table::{MetricTable, whole};
use crate::tables::markdown::{Table, significant};

/// A row per curve: the largest level within each limit and within both, and the measurements there. `metrics` are
/// throughput, TTFT and TPOT.
pub(super) fn summary(spec: &CompareSpec, x: &str, metrics: &[MetricTable]) -> Table {
    let bound = |name: &str, (limit, slack): (f64, f64)| {
        let most = limit * (1.0 + slack / 100.0);
        format!("Max {x} ({name} ≤ {}–{} ms (+{}%))", significant(limit), significant(most), significant(slack))
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
    let mut names: Vec<&str> = Vec::new();
    for curve in metrics.iter().flat_map(|metric| &metric.curves) {
        if !names.contains(&curve.name.as_str()) {
            names.push(&curve.name);
        }
    }
    let rows = names.into_iter().map(|name| {
        let points = |at: usize| {
            metrics[at].curves.iter().find(|curve| curve.name == name).map_or(&[][..], |curve| &curve.points)
        };
        let most = |(limit, slack): (f64, f64)| limit * (1.0 + slack / 100.0);
        let largest = |at: usize, limit: f64| {
            points(at).iter().filter(|(_, value)| *value <= limit).map(|(level, _)| *level).reduce(f64::max)
        };
        let value =
            |at: usize, level: f64| points(at).iter().find(|(other, _)| *other == level).map(|(_, value)| *value);
        let passes = |level: f64| {
            value(1, level).is_some_and(|value| value <= most(spec.ttft))
                && value(2, level).is_some_and(|value| value <= most(spec.tpot))
        };
        let both = points(1).iter().map(|(level, _)| *level).filter(|&level| passes(level)).reduce(f64::max);
        let gap = both.is_some_and(|both| points(1).iter().any(|(level, _)| *level < both && !passes(*level)));
        let shown = match both {
            Some(level) if gap => Value::from(format!("{} (a smaller level fails)", significant(level))),
            level => level.map_or(Value::Null, whole),
        };
        let at_both = |at: usize| Value::from(both.and_then(|level| value(at, level)));
        let level = |level: Option<f64>| level.map_or(Value::Null, whole);
        vec![
            Value::from(name),
            level(largest(1, most(spec.ttft))),
            level(largest(2, most(spec.tpot))),
            shown,
            at_both(0),
            at_both(1),
            at_both(2),
        ]
    });
    Table { headings, rows: rows.collect() }
}
