//! A load with the results of its runs, and the search over loads.

use tacho_core::json::Dict;
use tacho_decide::search::{Criterion, Measurement, Search, Step, StopReason};
use tacho_metrics::statistics::mean;
use tacho_record::ResultFields;

use super::error::Failure;

#[derive(Debug, Clone)]
pub(crate) struct Level {
    pub(crate) level: f64,
    pub(crate) results: Vec<Dict>,
}

impl Level {
    pub(crate) fn new(level: f64) -> Self {
        Level { level, results: Vec::new() }
    }

    /// The entry of a load in order; it is inserted if it is new.
    pub(crate) fn among(known: &mut Vec<Level>, level: f64) -> &mut Level {
        let at = known.partition_point(|other| other.level < level);
        if known.get(at).is_none_or(|other| other.level != level) {
            known.insert(at, Level::new(level));
        }
        &mut known[at]
    }

    pub(crate) fn runs(&self) -> impl Iterator<Item = ResultFields<'_>> {
        self.results.iter().map(ResultFields)
    }

    pub(crate) fn mean(&self, key: &str) -> Option<f64> {
        let values = self.runs().map(|run| run.number(key)).collect::<Option<Vec<f64>>>();
        values.filter(|values| !values.is_empty()).map(|values| mean(&values))
    }
}

/// A metric that a result must have because of `flag`.
pub(crate) fn required(value: Option<f64>, key: &str, flag: &str) -> Result<f64, Failure> {
    let missing = || Failure::new("KeyError", format!("the results have no number {key:?}: check {flag}"));
    value.ok_or_else(missing)
}

/// The criterion with the largest violation, and its margin; `read` returns its metric's value.
pub(crate) fn worst<'c>(
    criteria: &'c [Criterion],
    read: impl Fn(&Criterion) -> Result<f64, Failure>,
) -> Result<(&'c Criterion, f64), Failure> {
    let margin = |criterion: &'c Criterion| Ok((criterion, criterion.margin(read(criterion)?)));
    let margins = criteria.iter().map(margin).collect::<Result<Vec<_>, Failure>>()?;
    let none = || Failure::new("ValueError", "a search needs a criterion");
    margins.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).ok_or_else(none)
}

/// Measures the loads that a search selects, until it ends; `read` returns the measurements of a load, `run` adds
/// one.
pub(crate) fn explore<E>(
    search: &Search<'_>,
    known: &mut Vec<Level>,
    read: impl Fn(&[Level]) -> Result<Vec<Measurement>, E>,
    mut run: impl FnMut(&mut Vec<Level>, f64, f64) -> Result<(), E>,
) -> Result<StopReason, E> {
    loop {
        match search.next(&read(known)?) {
            Step::Done(reason) => return Ok(reason),
            Step::Run { level, seconds } => run(known, level, seconds)?,
        }
    }
}
