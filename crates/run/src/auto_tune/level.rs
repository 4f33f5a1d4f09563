//! What was measured of a candidate, level by level.

use tacho_core::json::{Dict, Value};
use tacho_decide::search::{Criterion, Tried};
use tacho_metrics::statistics::mean;

use crate::experiment::Failure;

/// A level and its results.
pub(super) struct Level {
    pub(super) tried: Tried,
    pub(super) results: Vec<Dict>,
}

/// What became of a candidate.
pub(super) struct Found {
    pub(super) levels: Vec<Level>,
    /// The level that is accepted.
    pub(super) accepted: Option<f64>,
}

/// The mean of a number over results that all have it.
pub(super) fn number(results: &[Dict], key: &str) -> Option<f64> {
    let values: Option<Vec<f64>> = results.iter().map(|result| result.get(key).and_then(Value::as_f64)).collect();
    values.filter(|values| !values.is_empty()).map(|values| mean(&values))
}

/// The values of each criterion's metric, one per result.
pub(super) fn values(criteria: &[Criterion], results: &[Dict]) -> Result<Vec<Vec<f64>>, Failure> {
    let of = |criterion: &Criterion| {
        let value = |result: &Dict| result.get(&criterion.metric).and_then(Value::as_f64);
        results.iter().map(value).collect::<Option<Vec<f64>>>().ok_or_else(|| {
            Failure::new("KeyError", format!("the results have no number {:?}: check --constraint", criterion.metric))
        })
    };
    criteria.iter().map(of).collect()
}
