//! Means over outputs: the share that differs from its reference, the accuracy, a score. Zero is a usual value, so that a
//! change is a difference. The errors of both sides combine as independent (MOVER); for shares, from Wilson's intervals,
//! this is Newcombe's interval.

use tacho_metrics::interval::student;
use tacho_metrics::outputs::{independent_outcomes, wilson};
use tacho_record::metric::{Known, Unit};
use tacho_record::{Error, StoredRun};

use super::{Confidence, side::of_group};

#[derive(Debug, Clone, Copy)]
struct Mean {
    value: f64,
    spread: Spread,
    /// Outputs behind it.
    count: f64,
}

#[derive(Debug, Clone, Copy)]
enum Spread {
    /// A share: Wilson's interval follows from the number of independent outcomes.
    Share,
    /// Distances of the 95% confidence bounds.
    Bounds(f64, f64),
}

/// The means of the baseline and of the candidate.
#[derive(Debug, Clone, Copy)]
pub(super) struct Means {
    base: Mean,
    new: Mean,
    /// How often the sides were compared, if after every pair.
    looks: usize,
}

impl Means {
    /// `None` if a side has no run.
    pub(super) fn of(
        key: &str,
        known: Known,
        (base, new): (&[StoredRun], &[StoredRun]),
        looks: usize,
    ) -> Result<Option<Self>, Error> {
        let sides = Mean::of(key, known, base)?.zip(Mean::of(key, known, new)?);
        Ok(sides.map(|(base, new)| Means { base, new, looks }))
    }

    pub(super) fn values(&self) -> (f64, f64) {
        (self.base.value, self.new.value)
    }

    /// Outputs on the smaller side.
    pub(super) fn count(&self) -> usize {
        self.base.count.min(self.new.count).round() as usize
    }

    /// The bounds of the difference. Look k gets the share 1/(k(k+1)) of the error rate, so that all looks share it.
    pub(super) fn bounds(&self, confidence: Confidence, data: f64) -> (f64, f64) {
        let confidence = confidence.each_of(self.looks * (self.looks + 1));
        let ((base_low, base_high), (new_low, new_high)) =
            (self.base.gaps(confidence, data), self.new.gaps(confidence, data));
        let change = self.new.value - self.base.value;
        (change - new_low.hypot(base_high), change + new_high.hypot(base_low))
    }
}

impl Mean {
    fn of(key: &str, known: Known, runs: &[StoredRun]) -> Result<Option<Self>, Error> {
        if let Some((key, part)) = of_group(key, runs)? {
            return Mean::of(key, known, &part);
        }
        let one = |run: &StoredRun| {
            let missing = || Error::Missing { key: key.to_owned() };
            let (value, interval) = run.number(key).zip(run.interval(key)).ok_or_else(missing)?;
            Ok(match known.unit() {
                Unit::Fraction => Mean { value, spread: Spread::Share, count: independent_outcomes(value, interval) },
                _ => {
                    let spread = Spread::Bounds(value - interval.low, interval.high - value);
                    Mean { value, spread, count: run.view().score_count(key).unwrap_or(1.0) }
                }
            })
        };
        let means: Vec<Mean> = runs.iter().map(one).collect::<Result<_, Error>>()?;
        let all: f64 = means.iter().map(|mean| mean.count).sum();
        let weighted = |of: &dyn Fn(&Mean) -> f64| means.iter().map(|mean| of(mean) * mean.count).sum::<f64>() / all;
        // The same requests again say nothing about other requests.
        let mut workloads: Vec<Option<&str>> = runs.iter().map(StoredRun::workload).collect();
        workloads.sort_unstable();
        workloads.dedup();
        let independent = workloads.len() as f64;
        let spread = |first: &Mean| match first.spread {
            Spread::Share => Spread::Share,
            Spread::Bounds(..) => {
                let gap = |low: bool| {
                    weighted(&|mean| match mean.spread {
                        Spread::Bounds(below, above) => {
                            if low {
                                below
                            } else {
                                above
                            }
                        }
                        Spread::Share => 0.0,
                    }) / independent.sqrt()
                };
                Spread::Bounds(gap(true), gap(false))
            }
        };
        Ok(means.first().map(|first| Mean {
            value: weighted(&|mean| mean.value),
            spread: spread(first),
            count: all / means.len() as f64 * independent,
        }))
    }

    /// Distances of the lower and upper confidence bound.
    fn gaps(&self, confidence: Confidence, data: f64) -> (f64, f64) {
        let z = |share: f64| student(share, f64::INFINITY);
        match self.spread {
            Spread::Share => {
                let interval = wilson(self.value, self.count * data, z(confidence.share()));
                (self.value - interval.low, interval.high - self.value)
            }
            Spread::Bounds(low, high) => {
                let factor = z(confidence.share()) / z(Confidence::USUAL.share()) / data.sqrt();
                (low * factor, high * factor)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_shrink_with_the_root_of_the_data() {
        let mean = Mean { value: 1.0, spread: Spread::Bounds(1.0, 2.0), count: 1.0 };
        assert_eq!(mean.gaps(Confidence::USUAL, 4.0), (0.5, 1.0));
        let (wide, _) = mean.gaps(Confidence::USUAL.each_of(2), 1.0);
        assert!((wide - 2.241_403 / 1.959_964).abs() < 1e-4, "{wide}");
    }
}
