//! One metric of all sides.

use tacho_core::json::Value;

use crate::tables::markdown::Table;

/// One metric of all sides at all levels.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricTable {
    pub metric: String,
    /// The table: level, values, ratios.
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

/// A number without a fractional part as an integer.
pub(super) fn whole(number: f64) -> Value {
    if number.fract() == 0.0 && number.abs() < 1e15 { Value::Int(number as i64) } else { Value::Float(number) }
}
