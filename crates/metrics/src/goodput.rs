//! Goodput: requests that met every limit.

use crate::latency::{successes, tpot};
use crate::{GoodputLimits, Sample, Samples, Setup, throughput::per_second};

impl GoodputLimits {
    /// Successes that meet the limits, timed from `sent`.
    pub fn count(&self, samples: &Samples) -> u64 {
        self.count_delayed(samples, |_| 0.0)
    }

    /// Like [`GoodputLimits::count`], with `delay` seconds added to the TTFT and E2EL of each.
    pub fn count_delayed(&self, samples: &Samples, delay: impl Fn(&Sample) -> f64) -> u64 {
        successes(samples).filter(|sample| self.met(sample, delay(sample))).count() as u64
    }

    pub(crate) fn met(&self, sample: &Sample, delay: f64) -> bool {
        let within = |limit_ms: Option<f64>, value: f64| limit_ms.is_none_or(|limit| limit / 1000.0 >= value);
        within(self.ttft_ms, sample.ttft + delay)
            && within(self.tpot_ms, tpot(sample).unwrap_or(0.0))
            && within(self.e2el_ms, sample.latency + delay)
    }
}

impl Setup {
    /// The goodput limits of a request: those of its class, else of the run.
    pub(crate) fn limits_of(&self, sample: &Sample) -> Option<GoodputLimits> {
        let class = sample.labels.get("class");
        let own = self.metrics.class_goodput.iter().find(|(name, _)| Some(name.as_str()) == class);
        own.map(|(_, limits)| *limits).or(self.metrics.goodput)
    }

    /// Whether a successful request meets its limits; `None` for a run without limits.
    pub fn is_good(&self, sample: &Sample) -> Option<bool> {
        self.has_goodput().then(|| self.limits_of(sample).is_none_or(|limits| limits.met(sample, 0.0)))
    }

    /// Successes per second that meet their limits, with `delay` seconds added to TTFT and E2EL; `None` without limits.
    pub(crate) fn goodput(&self, samples: &Samples, duration: f64, delay: impl Fn(&Sample) -> f64) -> Option<f64> {
        let good = |sample: &Sample| self.limits_of(sample).is_none_or(|limits| limits.met(sample, delay(sample)));
        let count = || successes(samples).filter(|sample| good(sample)).count();
        self.has_goodput().then(|| per_second(count() as f64, duration))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_inclusive_and_short_answers_have_no_tpot() {
        let sample = Sample { ttft: 0.1, latency: 0.5, output_len: 1, ..Sample::default() };
        let limits = GoodputLimits { ttft_ms: Some(100.0), tpot_ms: Some(0.0), e2el_ms: Some(500.0) };
        let samples = Samples::from([sample]);
        assert_eq!(limits.count(&samples), 1);
        assert_eq!(limits.count_delayed(&samples, |_| 0.001), 0);
    }
}
