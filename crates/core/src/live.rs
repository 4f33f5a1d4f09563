//! Live metrics of a run: latency histograms and failures by kind, for progress views. Updated from finished rows, a few
//! times a second, on the thread that receives them; the workers never touch them.

use crate::{Counters, Mutex, Observation, StageSpan};
use std::collections::BTreeMap;
use std::sync::{Arc, MutexGuard};

use crate::rows::Watcher;

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

    /// Number of counted times.
    pub fn count(&self) -> u64 {
        self.total
    }

    /// The times counted here but not in `before`, an earlier state of this histogram.
    pub fn since(&self, before: &Histogram) -> Histogram {
        let earlier = before.counts.iter().copied().chain(std::iter::repeat(0));
        let counts = self.counts.iter().zip(earlier).map(|(now, then)| now.saturating_sub(then)).collect();
        Histogram { counts, total: self.total.saturating_sub(before.total) }
    }

    /// Counts per quarter octave, as (band, count); empty bands are omitted.
    pub fn bands(&self) -> Vec<(u8, u64)> {
        let per_band = 1 << (BUCKET_BITS - 2);
        let counted = self.counts.chunks(per_band).map(|chunk| chunk.iter().sum()).enumerate();
        counted.filter(|(_, count)| *count > 0).map(|(band, count)| (band as u8, count)).collect()
    }

    /// The lower edge of a band in seconds.
    pub fn band_edge(band: usize) -> f64 {
        edge(band << (BUCKET_BITS - 2))
    }

    /// The approximate quantile; `None` if the histogram is empty.
    pub fn quantile(&self, quantile: f64) -> Option<f64> {
        let wanted = (quantile * self.total as f64).ceil().max(1.0) as u64;
        let mut sum = 0;
        let at = self.counts.iter().position(|count| {
            sum += count;
            sum >= wanted
        })?;
        Some((edge(at) + edge(at + 1)) / 2.0)
    }
}

/// The lower edge of a bucket in seconds.
fn edge(bucket: usize) -> f64 {
    f64::from_bits(MIN_BITS + ((bucket as u64) << (52 - BUCKET_BITS)))
}

/// What responses consist of: it decides what live views show.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Output {
    /// A stream of tokens.
    #[default]
    Tokens,
    /// A stream of audio.
    Audio,
    /// One piece: embeddings, scores, images.
    Whole,
}

/// Title of the live views: model, server and load.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoadTitle {
    /// The model.
    pub model: String,
    /// The server's URL, without credentials.
    pub server: String,
    /// The arrival process and its limits.
    pub load: String,
}

/// Metrics of the finished requests.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LiveMetrics {
    /// What responses consist of.
    pub output: Output,
    /// From sending to the first token event, or to the first audio.
    pub ttft: Histogram,
    /// Mean time per output token after the first, of each request.
    pub tpot: Histogram,
    /// Between token events.
    pub itl: Histogram,
    /// From sending to the last token event, or to the last byte.
    pub e2el: Histogram,
    /// Failures by kind.
    pub failures: BTreeMap<&'static str, u64>,
    /// Dispatch delay: from scheduled to dispatched.
    pub lateness: Histogram,
    /// Scheduled times in seconds from the start, in order; empty if responses determine them.
    pub scheduled: Arc<[f64]>,
    /// The stages of the load, if there are any.
    pub stages: Arc<[StageSpan]>,
    /// Whether requests may have to wait for a concurrency slot.
    pub is_limited: bool,
    /// The title.
    pub title: Arc<LoadTitle>,
    /// The server's own metrics, by name.
    pub server: Vec<(&'static str, f64)>,
}

impl LiveMetrics {
    /// The title, with the stage of the load `elapsed` seconds after the start.
    pub fn title_at(&self, elapsed: f64) -> Arc<LoadTitle> {
        let Some((index, stage)) = StageSpan::at(&self.stages, elapsed) else { return self.title.clone() };
        let load = format!("stage {} ({} of {}): {}", stage.name, index + 1, self.stages.len(), stage.load);
        Arc::new(LoadTitle { load, ..LoadTitle::clone(&self.title) })
    }

    /// Requests scheduled by `elapsed` that have not begun; `None` if requests never wait.
    pub fn waiting(&self, elapsed: f64, begun: u64) -> Option<u64> {
        let queues = self.is_limited && !self.scheduled.is_empty();
        queues.then(|| (self.scheduled_by(elapsed) as u64).saturating_sub(begun))
    }

    /// The schedule's request rate between two times; `None` for a burst and after the schedule's end.
    pub fn target_rate(&self, from: f64, to: f64) -> Option<f64> {
        let last = *self.scheduled.last()?;
        let to = to.min(last);
        (to > from).then(|| (self.scheduled_by(to) - self.scheduled_by(from)) as f64 / (to - from))
    }

    fn scheduled_by(&self, elapsed: f64) -> usize {
        self.scheduled.partition_point(|seconds| *seconds <= elapsed)
    }

    fn add(&mut self, row: &Observation) {
        self.lateness.add(row.dispatched.secs_since(row.scheduled));
        if let Some(failure) = row.outcome.failure() {
            *self.failures.entry(failure.kind.name()).or_default() += 1;
            return;
        }
        if let Some(first) = row.chunks.first().filter(|_| self.output != Output::Whole) {
            self.ttft.add(first.secs_since(row.sent));
        }
        self.e2el.add(row.chunks.last().unwrap_or(&row.done).secs_since(row.sent));
        if self.output != Output::Tokens {
            return;
        }
        if let (Some(first), Some(last)) = (row.chunks.first(), row.chunks.last()) {
            let tokens = row.usage.completion_tokens.unwrap_or(row.chunks.len() as u64);
            if tokens > 1 {
                self.tpot.add(last.secs_since(*first) / (tokens - 1) as f64);
            }
        }
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
        self.state.lock()
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
        let scheduled = [0.0, 0.0, 1.0, 5.0].into();
        let state = LiveMetrics { scheduled, is_limited: true, ..LiveMetrics::default() };
        assert_eq!([state.waiting(0.5, 1), state.waiting(2.0, 1), state.waiting(9.0, 9)], [Some(1), Some(2), Some(0)]);
        assert_eq!(LiveMetrics::default().waiting(1.0, 0), None);
        assert_eq!(LiveMetrics { is_limited: false, ..state.clone() }.waiting(0.5, 1), None);
        assert_eq!((state.target_rate(0.5, 2.5), state.target_rate(5.0, 9.0)), (Some(0.5), None));
    }

    #[test]
    fn a_later_state_minus_an_earlier_one_is_what_came_between() {
        let mut times = Histogram::default();
        times.add(0.001);
        let before = times.clone();
        assert_eq!(times.since(&before).count(), 0);
        (0..3).for_each(|_| times.add(1.1));
        let between = times.since(&before);
        assert!((between.quantile(0.5).unwrap() / 1.1 - 1.0).abs() < 0.03);
        let [(band, 3)] = between.bands()[..] else { panic!("{:?}", between.bands()) };
        let band = usize::from(band);
        assert!(Histogram::band_edge(band) <= 1.1 && Histogram::band_edge(band + 1) > 1.1);
        assert_eq!(Histogram::default().since(&Histogram::default()).bands(), []);
    }

    #[test]
    fn audio_has_a_first_packet_but_no_tokens() {
        let at = Timestamp::from_secs;
        let chunks = vec![at(1.5), at(2.0)];
        let row = Observation { chunks, done: at(2.0), ..Observation::dispatched(0, at(1.0), at(1.0)) };
        let counts = |output| {
            let mut metrics = LiveMetrics { output, ..LiveMetrics::default() };
            metrics.add(&row);
            [&metrics.ttft, &metrics.tpot, &metrics.itl, &metrics.e2el].map(Histogram::count)
        };
        assert_eq!([Output::Tokens, Output::Audio, Output::Whole].map(counts), [[1; 4], [1, 0, 0, 1], [0, 0, 0, 1]]);
    }

    #[test]
    fn the_title_has_the_stage_of_the_moment() {
        let stage =
            |name: &str, end| StageSpan { name: name.into(), end, load: "5 req/s".into(), ..StageSpan::default() };
        let title = Arc::new(LoadTitle { model: "m".into(), load: "15 s".into(), ..LoadTitle::default() });
        let state = LiveMetrics { title, ..LiveMetrics::default() };
        assert_eq!(state.title_at(1.0).load, "15 s");
        let state = LiveMetrics { stages: [stage("warm", 5.0), stage("peak", 15.0)].into(), ..state };
        assert_eq!(state.title_at(5.0).load, "stage peak (2 of 2): 5 req/s");
        assert_eq!(
            (state.title_at(1.0).load.as_str(), &*state.title_at(1.0).model),
            ("stage warm (1 of 2): 5 req/s", "m")
        );
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
        assert!(near(state.tpot.quantile(0.5), 0.015));
        assert_eq!((state.itl.count(), state.failures.get("timed_out")), (2, Some(&1)));
    }
}
