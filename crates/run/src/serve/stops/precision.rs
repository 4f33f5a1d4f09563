//! `--until`: a metric has the requested precision. The cost of a check grows with the run, so that checks become
//! rarer. Two in a row must agree, because a single one may be precise by chance.

use std::time::Instant;

use tacho_core::Observation;
use tacho_metrics::{Sample, Samples, Setup};
use tacho_record::Estimate;

use super::Rule;
use crate::{plan::Precision, serve::request_table::RequestTable};

/// Least seconds between two checks.
const MIN_INTERVAL: f64 = 1.0;
/// Largest fraction of one thread's time for checks.
const MAX_LOAD: f64 = 0.1;
const AGREEING_CHECKS: usize = 2;

pub(super) struct Precise<'a> {
    wanted: &'a Precision,
    requests: &'a RequestTable,
    setup: &'a Setup,
    samples: Samples,
    next_check: f64,
    agreed: usize,
}

impl<'a> Precise<'a> {
    pub(super) fn new(wanted: &'a Precision, requests: &'a RequestTable, setup: &'a Setup) -> Self {
        let samples = Samples::default();
        Precise { wanted, requests, setup, samples, next_check: MIN_INTERVAL, agreed: 0 }
    }

    fn is_precise(&mut self, seconds: f64) -> bool {
        let estimate = Estimate::from_samples(&self.wanted.metric, &self.samples, seconds);
        estimate.is_some_and(|estimate| estimate.precision() <= self.wanted.share)
    }
}

impl Rule for Precise<'_> {
    fn rows(&mut self, rows: &[Observation]) {
        let requests = self.requests.lock();
        let sample = |row: &Observation| {
            let request = requests.get(row.index)?;
            // No metric with an interval needs the text.
            let row = Observation { text: Vec::new(), ..row.clone() };
            Some(Sample::from_observation(row, &request, self.setup, None))
        };
        self.samples.extend(rows.iter().filter_map(sample));
    }

    fn is_broken(&mut self, seconds: f64) -> bool {
        if seconds < self.next_check {
            return false;
        }
        let began = Instant::now();
        self.agreed = if self.is_precise(seconds) { self.agreed + 1 } else { 0 };
        self.next_check = seconds + MIN_INTERVAL.max(began.elapsed().as_secs_f64() / MAX_LOAD);
        self.agreed >= AGREEING_CHECKS
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tacho_core::Timestamp;
    use tacho_rowlog::RequestInfo;

    use super::*;

    /// The second at which the mean TTFT is known to 5%, for TTFTs of 10 ms plus or minus `spread_ms`.
    fn found(spread_ms: u64) -> Option<f64> {
        let wanted = Precision { metric: "mean_ttft_ms".into(), share: 0.05 };
        let (asks, setup) = (RequestTable::default(), Setup::example());
        asks.lock().extend(vec![RequestInfo::default(); 100_000]);
        let mut rule = Precise::new(&wanted, &asks, &setup);
        let mut noise = 12345_u64;
        for second in 0..60_u64 {
            let row = |at: u64| {
                let sent = Timestamp::from_secs(second as f64) + Duration::from_millis(at * 20);
                noise = noise.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let first = sent + Duration::from_micros(10_000 + (noise >> 33) % (spread_ms * 1000).max(1));
                let row = Observation::dispatched((second * 50 + at) as usize, sent, sent);
                Observation { sent, chunks: vec![first], done: first, ..row }
            };
            let rows: Vec<Observation> = (0..50).map(row).collect();
            rule.rows(&rows);
            if rule.is_broken(second as f64 + 1.0) {
                return Some(second as f64 + 1.0);
            }
        }
        None
    }

    #[test]
    fn precision_is_reached_later_with_more_variance() {
        let (steady, wild) = (found(1).unwrap(), found(400));
        assert!(steady <= 5.0, "{steady}");
        assert!(wild.is_none_or(|seconds| seconds > 2.0 * steady), "{wild:?}");
    }
}
