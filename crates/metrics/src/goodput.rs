//! Goodput: requests that met every limit.

use crate::latency::{successes, tpot};
use crate::{Sample, Samples};

tacho_core::record! {
    /// Upper limits in milliseconds; a request must meet all that are set.
    ///
    /// ```
    /// use tacho_metrics::{GoodputLimits, Sample, Samples};
    ///
    /// let request = |ttft| Sample { ttft, latency: 1.0, output_len: 11, ..Sample::default() };
    /// let samples = Samples::from([request(0.1), request(0.3)]);
    /// let limits = GoodputLimits { ttft_ms: Some(200.0), ..GoodputLimits::default() };
    /// assert_eq!(limits.count(&samples), 1);
    /// ```
    #[derive(Debug, Clone, Copy, Default, PartialEq)]
    pub struct GoodputLimits {
        /// On the time to the first token.
        pub ttft_ms: Option<f64> = None,
        /// On the time per output token; a response of at most one token counts as 0.
        pub tpot_ms: Option<f64> = None,
        /// On the time to the last token.
        pub e2el_ms: Option<f64> = None,
    }
}

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
