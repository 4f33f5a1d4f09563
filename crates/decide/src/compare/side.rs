//! One side of a comparison: a metric of one or more runs, and its variation within and between them.

use tacho_metrics::interval::{Spread, student};
use tacho_metrics::statistics::mean;
use tacho_record::{Error, ResultKind, StoredRun, groups::split, metric::Known};

use super::Confidence;

/// The metric of a group without the group's path, and the runs of the group; `None` for a metric of the whole run.
pub(super) fn of_group<'k>(key: &'k str, runs: &[StoredRun]) -> Result<Option<(&'k str, Vec<StoredRun>)>, Error> {
    let (Some(path), key) = split(key) else { return Ok(None) };
    let missing = |run: &StoredRun| Error::NoGroup { path: path.to_owned(), names: run.group_names() };
    let part = |run: &StoredRun| run.group(path).ok_or_else(|| missing(run));
    Ok(Some((key, runs.iter().map(part).collect::<Result<_, _>>()?)))
}

#[derive(Debug, Clone)]
pub(super) struct Side {
    /// The geometric mean of its runs, so that a change is a ratio of two of them; the arithmetic mean if one is 0.
    pub(super) value: f64,
    /// Logarithms of the runs' values.
    pub(super) logs: Vec<f64>,
    /// Workload of each run; `None` if a file lacks it.
    pub(super) workloads: Vec<Option<String>>,
    /// Sampling distribution of each run's metric; `None` if a file lacks it.
    spreads: Vec<Option<Spread>>,
    /// Whether these are distributions over iterations.
    iterations: bool,
}

/// Run-to-run variance, assumed equal on both sides.
#[derive(Debug, Clone, Copy)]
pub(super) struct Runs {
    variance: f64,
    degrees_of_freedom: f64,
}

impl Runs {
    /// Pooled over all sides with several runs; `None` if no side has them.
    pub(super) fn of(base: &Side, new: &Side) -> Option<Self> {
        let squares = |side: &Side| {
            let mean = mean(&side.logs);
            side.logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>()
        };
        let degrees_of_freedom = (base.runs() + new.runs() - 2) as f64;
        (degrees_of_freedom > 0.0)
            .then(|| Runs { variance: (squares(base) + squares(new)) / degrees_of_freedom, degrees_of_freedom })
    }
}

impl Side {
    /// The metric of `runs`; `None` if no request of any run succeeded. Runs without successes are excluded: their
    /// latencies of zero come from an empty sample.
    pub(super) fn of(key: &str, known: Known, runs: &[StoredRun]) -> Result<Option<Self>, Error> {
        if let Some((key, part)) = of_group(key, runs)? {
            return Side::of(key, known, &part);
        }
        let foreign = |run: &&StoredRun| run.kind().is_some_and(|kind| kind != known.kind());
        if let Some(kind) = runs.iter().find(foreign).and_then(StoredRun::kind) {
            return Err(Error::Foreign { key: key.to_owned(), kind: kind.name() });
        }
        let runs = &StoredRun::once(runs.to_vec());
        let counted: Vec<&StoredRun> =
            runs.iter().filter(|run| !(matches!(known, Known::Timed(_)) && run.is_empty())).collect();
        let spreads: Vec<Option<Spread>> = counted.iter().map(|run| run.spread(key)).collect();
        let numbers: Vec<f64> = counted
            .iter()
            .zip(&spreads)
            .map(|(run, spread)| {
                let number = run.number(key).or_else(|| spread.as_ref().map(|spread| spread.value));
                number.filter(|number| number.is_finite()).ok_or_else(|| Error::Missing { key: key.to_owned() })
            })
            .collect::<Result<_, _>>()?;
        if numbers.is_empty() {
            return Ok(None);
        }
        let logs: Vec<f64> = numbers.iter().map(|number| number.ln()).collect();
        let value = if logs.iter().all(|log| log.is_finite()) { mean(&logs).exp() } else { mean(&numbers) };
        let iterations = known.kind() != ResultKind::Serving;
        let workloads = counted.iter().map(|run| run.workload().map(str::to_owned)).collect();
        Ok(Some(Side { value, logs, workloads, spreads, iterations }))
    }

    /// Returns whether all runs have a logarithm: a run of zeros has none.
    pub(super) fn is_positive(&self) -> bool {
        self.value > 0.0 && self.logs.iter().all(|log| log.is_finite())
    }

    pub(super) fn runs(&self) -> usize {
        self.logs.len()
    }

    /// Number of values in total, and whether they are iterations.
    pub(super) fn requests(&self) -> (usize, bool) {
        (self.spreads.iter().flatten().map(|spread| spread.count).sum(), self.iterations)
    }

    /// Distances of the lower and upper confidence bound, on logarithms.
    pub(super) fn gaps(
        &self,
        between: Option<Runs>,
        noise: Option<f64>,
        confidence: Confidence,
        data: f64,
    ) -> Option<(f64, f64)> {
        let count = self.runs() as f64 * data;
        let own = self.variance_within();
        if let Some(noise) = noise {
            let half =
                student(confidence.share(), f64::INFINITY) * (own.unwrap_or(0.0).max(noise * noise) / count).sqrt();
            return Some((half, half));
        }
        let Some(between) = between else {
            let spread = self.spreads[0].as_ref()?;
            let (low, high) = spread.bounds(confidence.share(), data);
            return Some(((spread.value / low).ln(), (high / spread.value).ln()));
        };
        let variance = own.unwrap_or(0.0).max(between.variance);
        // Bit-identical runs are more likely copies of one run than exact repeats.
        if variance <= 0.0 {
            return None;
        }
        // The variance within runs is known well; only the additional variance between runs rests on the few runs.
        let added = 1.0 - own.unwrap_or(0.0) / variance;
        let degrees_of_freedom = if data > 1.0 {
            between.degrees_of_freedom * data + 2.0 * (data - 1.0)
        } else {
            between.degrees_of_freedom
        };
        let half = student(confidence.share(), degrees_of_freedom / added.max(1e-5)) * (variance / count).sqrt();
        Some((half, half))
    }

    /// The variance of one run's logarithm, from its own requests; `None` if a run lacks it.
    fn variance_within(&self) -> Option<f64> {
        const SURE: f64 = 0.95;
        let each = self.spreads.iter().map(|spread| {
            let (low, high) = spread.as_ref()?.bounds(SURE, 1.0);
            let deviation = (high / low).ln() / 2.0 / student(SURE, f64::INFINITY);
            deviation.is_finite().then_some(deviation * deviation)
        });
        let each: Vec<f64> = each.collect::<Option<_>>()?;
        Some(each.iter().sum::<f64>() / each.len() as f64)
    }
}

#[cfg(test)]
impl Side {
    /// Runs with known workloads and logarithms only.
    pub(super) fn known(runs: Vec<(Option<String>, f64)>) -> Self {
        let (workloads, logs): (Vec<_>, Vec<f64>) = runs.into_iter().unzip();
        Side { value: 1.0, spreads: vec![None; logs.len()], logs, workloads, iterations: false }
    }
}
