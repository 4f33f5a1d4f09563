//! Values of a run in the units that they come in, and the error of their mean.

use std::sync::{Arc, OnceLock};

use super::long_run_variance::{batch_sums, long_run_variance, remove_control};
use crate::statistics::mean;

/// Most units of a series; more are joined with their neighbors, which loses nothing because correlation lasts longer.
const MAX_UNITS: usize = 2000;
/// Values whose autocorrelation inflates the variance by more than this factor are strongly correlated.
const STRONG_CORRELATION: f64 = 3.0;
/// Long-run variances of correlated values are too small, by this over the effective sample size.
const BIAS: f64 = 5.0;
/// Batches whose sums show how much a few events dominate a mean.
const BATCHES: usize = 20;
/// Least effective sample size of strongly correlated values for an upper bound.
pub(super) const MIN_EFFECTIVE: f64 = 10.0;

/// Values in the order of their units.
#[derive(Debug, Clone, Default)]
pub struct Values {
    pub(super) values: Vec<f64>,
    /// The unit of each value.
    units: Vec<u32>,
    /// A control variate: one value per unit whose sum over the run the plan fixed; empty where there is none.
    control: Vec<f64>,
    /// Units at either end that fill or drain the server. Their latencies differ from the others in every run, which is not
    /// random variation.
    pub(super) edge: usize,
    /// The values in order, shared by the spreads of all percentiles.
    sorted: OnceLock<Arc<[f64]>>,
}

/// The error of a mean of scores.
#[derive(Debug, Clone, Copy)]
pub(super) struct Accuracy {
    pub(super) error: f64,
    pub(super) degrees_of_freedom: f64,
    /// By how much autocorrelation inflates the variance.
    pub(super) correlation: f64,
    /// The effective sample size.
    pub(super) effective: f64,
    /// The number of batches that dominate the variance: about a third of all of them, 1 if it is a single one.
    pub(super) dominant: f64,
}

impl Accuracy {
    /// The factor by which to widen an interval for the bias of a long-run variance from few effective values. Of very few,
    /// Student's distribution says how uncertain their variance is.
    pub(super) fn widening(&self) -> f64 {
        1.0 + BIAS / self.effective.max(MIN_EFFECTIVE) * self.excess()
    }

    /// The part of the variance that is due to correlation.
    pub(super) fn excess(&self) -> f64 {
        (1.0 - 1.0 / self.correlation).max(0.0)
    }

    pub(super) fn is_short(&self, min: f64) -> bool {
        self.correlation > STRONG_CORRELATION && self.effective < min
    }
}

impl Values {
    /// One value per unit.
    pub fn single(values: Vec<f64>) -> Self {
        let units = (0..values.len() as u32).collect();
        Values { values, units, ..Values::default() }
    }

    /// Adds a control variate with one value per unit: the gaps between planned arrivals, whose sum is the same in
    /// every run of the plan. What they explain does not vary between runs and is removed from the error.
    pub fn with_control(self, control: Vec<f64>) -> Self {
        Values { control, ..self }
    }

    /// Excludes this many units at either end from estimates of the variance.
    pub fn with_edge(self, edge: usize) -> Self {
        Values { edge, ..self }
    }

    /// Values with the unit that each belongs to.
    pub fn grouped(pairs: impl Iterator<Item = (f64, u32)>) -> Self {
        let (values, units) = pairs.unzip();
        Values { values, units, ..Values::default() }
    }

    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }

    pub(super) fn sorted(&self) -> &Arc<[f64]> {
        self.sorted.get_or_init(|| {
            let mut sorted: Arc<[f64]> = self.values.as_slice().into();
            Arc::make_mut(&mut sorted).sort_unstable_by(f64::total_cmp);
            sorted
        })
    }

    /// Number of units after joining, and how many neighbors are joined.
    pub(super) fn joined(&self) -> (usize, usize) {
        let units = self.units.iter().max().map_or(0, |last| *last as usize + 1).max(self.control.len());
        let joined = units.div_ceil(MAX_UNITS).max(1);
        (units.div_ceil(joined), joined)
    }

    /// The error of the mean of `score`, whose mean is 0.
    pub(super) fn error(&self, score: impl Fn(f64) -> f64) -> Accuracy {
        let (count, joined) = self.joined();
        let mut sums = vec![0.0; count];
        for (value, unit) in self.values.iter().zip(&self.units) {
            sums[*unit as usize / joined] += score(*value);
        }
        let edge = (self.edge / joined).min(count / 4);
        let mut sums = centered(sums[edge..count - edge].to_vec());
        let plain = sums.iter().map(|sum| sum * sum).sum::<f64>() / sums.len().saturating_sub(1).max(1) as f64;
        let batches = batch_sums(&sums, BATCHES.min(sums.len().max(1)));
        let power = |exponent: i32| batches.iter().map(|sum| sum.powi(exponent)).sum::<f64>();
        let dominant = power(2).powi(2) / power(4);
        let control: Vec<f64> = self.control.chunks(joined).map(|part| part.iter().sum()).collect();
        let control = centered(control.get(edge..count - edge).unwrap_or_default().to_vec());
        let bias = remove_control(&mut sums, &control);
        let found = long_run_variance(&sums);
        let variance = found.variance * bias;
        let error = (count as f64 * variance).sqrt() / self.values.len().max(1) as f64;
        let correlation = if plain > 0.0 { variance / plain } else { 1.0 };
        let effective = count as f64 / correlation.max(f64::MIN_POSITIVE);
        Accuracy { error, degrees_of_freedom: found.degrees_of_freedom, correlation, effective, dominant }
    }

    /// How often the values that count for a variance are on the rarer side of a threshold.
    pub(super) fn crossings(&self, threshold: f64) -> usize {
        let (count, joined) = self.joined();
        let edge = (self.edge / joined).min(count / 4);
        let inner = self
            .values
            .iter()
            .zip(&self.units)
            .filter(|(_, unit)| (edge..count - edge).contains(&(**unit as usize / joined)));
        let (below, above): (Vec<&f64>, Vec<&f64>) =
            inner.map(|(value, _)| value).partition(|value| **value <= threshold);
        below.len().min(above.len())
    }

    /// The error of the mean of the values.
    pub(super) fn accuracy(&self) -> Accuracy {
        let mean = mean(&self.values);
        self.error(|value| value - mean)
    }

    /// Whether most units with a value of at least `limit` belong to the burst that starts a closed loop. It is one observation.
    pub(super) fn is_start(&self, limit: f64) -> bool {
        let above = || self.values.iter().zip(&self.units).filter(|(value, _)| **value >= limit);
        self.control.is_empty()
            && above().filter(|(_, unit)| (**unit as usize) < self.edge).count() * 2 > above().count()
    }
}

fn centered(mut sums: Vec<f64>) -> Vec<f64> {
    let mean = mean(&sums);
    sums.iter_mut().for_each(|sum| *sum -= mean);
    sums
}
