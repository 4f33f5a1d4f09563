//! Live metrics of a run: latency histograms and failures by kind, for progress views. Updated from finished rows, a few
//! times a second, on the thread that receives them; the workers never touch them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::rows::Watcher;
use crate::{Counters, Observation};

/// Inter-token gaps sampled per response; more would cost time without changing the percentiles.
const MAX_GAPS: usize = 64;

/// A histogram of times in log-scaled buckets, each about 2% wide.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
}

/// Buckets per doubling of time, as a power of two.
const BUCKET_BITS: u32 = 5;
/// The bits of the upper edge of the first bucket: about a microsecond.
const MIN_BITS: u64 = 0x3EB0_0000_0000_0000;
/// The number of buckets: up to about four hours.
const BUCKETS: usize = 34 << BUCKET_BITS;

impl Histogram {
    /// Counts a time in seconds. The bucket follows from the float's exponent and leading mantissa bits.
    pub fn add(&mut self, seconds: f64) {
        if self.counts.is_empty() {
            self.counts = vec![0; BUCKETS];
        }
        let above = seconds.max(0.0).to_bits().saturating_sub(MIN_BITS) >> (52 - BUCKET_BITS);
        self.counts[(above as usize).min(BUCKETS - 1)] += 1;
        self.total += 1;
    }

    /// How many times were counted.
    pub fn count(&self) -> u64 {
        self.total
    }

    /// The approximate quantile; none where nothing was counted.
    pub fn quantile(&self, quantile: f64) -> Option<f64> {
        let wanted = (quantile * self.total as f64).ceil().max(1.0) as u64;
        let mut sum = 0;
        let at = self.counts.iter().position(|count| {
            sum += count;
            sum >= wanted
        })?;
        let edge = |at: usize| f64::from_bits(MIN_BITS + ((at as u64) << (52 - BUCKET_BITS)));
        Some((edge(at) + edge(at + 1)) / 2.0)
    }
}

/// Metrics of the requests that have finished.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LiveMetrics {
    /// From sending to the first token event.
    pub ttft: Histogram,
    /// Between token events.
    pub itl: Histogram,
    /// From sending to the last token event.
    pub e2el: Histogram,
    /// Failures by kind.
    pub failures: BTreeMap<&'static str, u64>,
    /// From scheduled to dispatched: how late the client was.
    pub lateness: Histogram,
    /// Scheduled times in seconds from the start, in order, where requests may have to wait for a slot.
    pub scheduled: Arc<[f64]>,
    /// The server's own metrics: names and values.
    pub server: Vec<(&'static str, f64)>,
}

impl LiveMetrics {
    /// Requests that are scheduled by `elapsed` but have not begun; none where requests never wait.
    pub fn waiting(&self, elapsed: f64, begun: u64) -> Option<u64> {
        let due = self.scheduled.partition_point(|seconds| *seconds <= elapsed) as u64;
        (!self.scheduled.is_empty()).then(|| due.saturating_sub(begun))
    }

    fn add(&mut self, row: &Observation) {
        self.lateness.add(row.dispatched.secs_since(row.scheduled));
        if let Some(failure) = row.outcome.failure() {
            *self.failures.entry(failure.kind.name()).or_default() += 1;
            return;
        }
        if let Some(first) = row.chunks.first() {
            self.ttft.add(first.secs_since(row.sent));
        }
        self.e2el.add(row.chunks.last().unwrap_or(&row.done).secs_since(row.sent));
        let stride = row.chunks.len().div_ceil(MAX_GAPS).max(1);
        for pair in row.chunks.windows(2).step_by(stride) {
            self.itl.add(pair[1].secs_since(pair[0]));
        }
    }
}

/// The live metrics of a run, shared by the recorder and the views.
#[derive(Debug, Default)]
pub struct LiveBoard {
    state: Mutex<LiveMetrics>,
}

impl LiveBoard {
    /// Locks the metrics; hold the guard only briefly.
    pub fn lock(&self) -> MutexGuard<'_, LiveMetrics> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Records finished rows in the live metrics of the run's counters.
pub struct LiveRecorder<'a> {
    counters: &'a Counters,
}

impl<'a> LiveRecorder<'a> {
    /// A recorder for the live metrics of `counters`.
    pub fn new(counters: &'a Counters) -> Self {
        LiveRecorder { counters }
    }
}

impl Watcher for LiveRecorder<'_> {
    fn rows(&mut self, rows: &[Observation]) {
        let mut state = self.counters.live.lock();
        rows.iter().for_each(|row| state.add(row));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FailureKind, Outcome, Timestamp};

    #[test]
    fn quantiles_are_within_three_percent() {
        let mut buckets = Histogram::default();
        assert_eq!(buckets.quantile(0.5), None);
        (1..=10_000).for_each(|at| buckets.add(f64::from(at) * 1e-4));
        for quantile in [0.01, 0.5, 0.9, 0.99, 1.0] {
            let found = buckets.quantile(quantile).unwrap();
            assert!((found / quantile - 1.0).abs() < 0.03, "{quantile}: {found}");
        }
    }

    #[test]
    fn every_time_has_a_bucket() {
        let mut buckets = Histogram::default();
        for odd in [0.0, -1.0, 1e-12, 1e9, f64::INFINITY, f64::NAN] {
            buckets.add(odd);
        }
        assert_eq!(buckets.count(), 6);
        assert!(buckets.quantile(0.1).unwrap() < 2e-6 && buckets.quantile(1.0).unwrap() > 1e4);
    }

    #[test]
    fn scheduled_requests_that_have_not_begun_wait() {
        let state = LiveMetrics { scheduled: [0.0, 0.0, 1.0, 5.0].into(), ..LiveMetrics::default() };
        assert_eq!([state.waiting(0.5, 1), state.waiting(2.0, 1), state.waiting(9.0, 9)], [Some(1), Some(2), Some(0)]);
        assert_eq!(LiveMetrics::default().waiting(1.0, 0), None);
    }

    #[test]
    fn rows_are_aggregated() {
        let counters = Counters::default();
        let at = |ms: u64| Timestamp(ms * 1_000_000);
        let good = Observation {
            chunks: vec![at(100), at(110), at(130)],
            done: at(140),
            ..Observation::dispatched(0, at(0), at(0))
        };
        let bad = Observation { outcome: Outcome::failed(FailureKind::TimedOut, ""), ..good.clone() };
        LiveRecorder::new(&counters).rows(&[good, bad]);
        let state = counters.live.lock();
        let near = |found: Option<f64>, wanted: f64| (found.unwrap() / wanted - 1.0).abs() < 0.03;
        assert!(near(state.ttft.quantile(0.5), 0.1) && near(state.e2el.quantile(0.5), 0.13));
        assert_eq!((state.itl.count(), state.failures.get("timed_out")), (2, Some(&1)));
    }
}
