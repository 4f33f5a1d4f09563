//! What was measured of a candidate, level by level.

use tacho_core::json::{Dict, Value};
use tacho_decide::search::{Criterion, Estimate, LoadLevel, Measurement};
use tacho_metrics::statistics::mean;

use crate::experiment::Failure;

/// A load and the results of its runs.
pub(super) struct Level {
    pub(super) level: f64,
    pub(super) results: Vec<Dict>,
}

impl Level {
    /// Its runs as the search reads them. All have equally many prompts, so they count equally.
    pub(super) fn measurements(&self, criteria: &[Criterion]) -> Result<Vec<Measurement>, Failure> {
        let one = |result: &Dict| {
            let values = values(criteria, std::slice::from_ref(result))?;
            let margins = criteria.iter().zip(&values).map(|(criterion, values)| criterion.margin(values[0]));
            let margin = margins.reduce(f64::max).unwrap_or(f64::INFINITY);
            Ok(Measurement { margin, error: None, ..Measurement::exact(self.level, true) })
        };
        self.results.iter().map(one).collect()
    }

    pub(super) fn passes(&self, criteria: &[Criterion]) -> Result<bool, Failure> {
        Ok(LoadLevel::of(&self.measurements(criteria)?).passes())
    }
}

/// What became of a candidate.
pub(super) struct Found {
    pub(super) levels: Vec<Level>,
    /// The load that is accepted.
    pub(super) accepted: Option<f64>,
    /// Where the criteria are just met.
    pub(super) estimate: Option<Estimate>,
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
