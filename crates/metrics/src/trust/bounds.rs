//! How far each printed latency may be off because of the client.
//!
//! Arrival times are uncertain in three ways. Events that the client read late together with a later one arrived up to
//! a *span* before their timestamp; the last event of a read is exact. A user-space timestamp is as late as the read
//! (its *lag*); a kernel timestamp is not. What lies before the kernel's timestamp is estimated by `PATH`.
//!
//! Of a late read the gap before it is too long by at most its span, and the gaps in it, measured as 0, are too short by
//! spans that add up to the same. If at most `C(d)` values are off by more than `d`, the true quantile of rank `k` is at
//! least the measured one of rank `k - C(d)` less `d`, for any `d`: the largest of these is the lower bound, and the
//! upper one likewise. A mean of gaps telescopes: only the first and the last event of each response move it.

use super::{WorkerUse, ranked::Ranked};
use crate::latency::{collect, collect_some, itls, successes, tpot, tpots};
use crate::percentile::percentile;
use crate::{MetricKind, Samples, Statistics, Summary, stats::statistics::Statistic};

/// Estimate of the time from the arrival of a packet to the kernel's timestamp, s.
const PATH: f64 = 5e-5;
/// Largest acceptable error, as a fraction of the metric.
const MAX_FRACTION: f64 = 0.05;
/// Most gaps before reads that are kept.
const MAX_KEPT: usize = 1 << 20;
/// Errors up to this are always accepted, ms: twice `PATH`.
pub const FLOOR_MS: f64 = 0.1;

/// The range in which a printed latency lies if a client without delays measures it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bound {
    /// The latency.
    pub metric: MetricKind,
    /// Its statistic.
    pub statistic: Statistic,
    /// The printed value, ms.
    pub value_ms: f64,
    /// The lower end, ms.
    pub low_ms: f64,
    /// The upper end, ms.
    pub high_ms: f64,
}

impl Bound {
    /// By how much the value may be off, ms.
    pub fn off_ms(&self) -> f64 {
        (self.value_ms - self.low_ms).max(self.high_ms - self.value_ms)
    }

    /// The same as a fraction of the value.
    pub fn fraction(&self) -> f64 {
        self.off_ms() / self.value_ms
    }

    /// Whether the value may be off by enough to be misleading.
    pub fn is_large(&self) -> bool {
        is_large(self.value_ms, self.off_ms())
    }

    /// The statistic's name in keys.
    fn statistic_name(&self) -> String {
        match self.statistic {
            Statistic::Mean => "mean".to_owned(),
            Statistic::Deviation => "std".to_owned(),
            Statistic::Percentile(50.0) => "median".to_owned(),
            Statistic::Percentile(percent) => format!("p{percent}"),
        }
    }

    /// The key in result files: `p99_itl_ms`.
    pub fn key(&self) -> String {
        format!("{}_{}_ms", self.statistic_name(), self.metric.name())
    }

    /// The bound as words: `p99 ITL may be off by 0.20 ms (2%)`.
    pub fn text(&self) -> String {
        let name = format!("{} {}", self.statistic_name(), self.metric.name().to_uppercase());
        let percent = self.fraction() * 100.0;
        // Of a gap of nearly zero, between tokens that were read together, it says nothing.
        let part = if percent <= MAX_PERCENT { format!(" ({percent:.1}%)") } else { String::new() };
        format!("{name} may be off by {:.2} ms{part}", self.off_ms())
    }
}

/// Largest percentage that is printed.
const MAX_PERCENT: f64 = 999.0;

/// Whether an error is too large for a value, both in ms.
pub fn is_large(value_ms: f64, off_ms: f64) -> bool {
    off_ms > FLOOR_MS && off_ms > MAX_FRACTION * value_ms
}

/// The bounds of all printed latencies; `None` where the workers do not know enough.
pub fn bounds(summary: &Summary, samples: &Samples, workers: &[WorkerUse]) -> Option<Vec<Bound>> {
    let doubt = Doubt::of(samples, workers)?;
    let kinds = [MetricKind::Ttft, MetricKind::Tpot, MetricKind::Itl, MetricKind::E2el];
    let known = kinds.into_iter().filter_map(|kind| Some((kind, summary.statistics(kind)?)));
    let printed = known.filter(|(_, statistics)| statistics.count > 0 && statistics.max_ms > 0.0);
    Some(printed.flat_map(|(kind, statistics)| doubt.of_metric(kind, statistics, samples)).collect())
}

/// Sizes with weights, the largest first: how many values are off by how much.
#[derive(Debug, Default)]
struct Sizes {
    /// Each size, and the weight of it and all larger ones.
    sizes: Vec<(f64, f64)>,
}

impl Sizes {
    /// The samples of all workers, each standing for the events that `count` says; scaled to at most `total`.
    fn of(workers: &[WorkerUse], sizes: fn(&WorkerUse) -> &[f64], count: fn(&WorkerUse) -> u64, total: f64) -> Self {
        let weighted = workers.iter().flat_map(|worker| {
            let sizes = sizes(worker);
            let weight = count(worker) as f64 / sizes.len().max(1) as f64;
            sizes.iter().map(move |&size| (size, weight))
        });
        Self::weighted(weighted.filter(|(size, _)| *size > 0.0).collect(), total)
    }

    fn weighted(mut sizes: Vec<(f64, f64)>, total: f64) -> Self {
        sizes.sort_unstable_by(|a, b| b.0.total_cmp(&a.0));
        let sum: f64 = sizes.iter().map(|(_, weight)| weight).sum();
        let (scale, mut below) = ((total / sum).min(1.0), 0.0);
        for (_, weight) in &mut sizes {
            below += *weight * scale;
            *weight = below;
        }
        Sizes { sizes }
    }

    fn largest(&self) -> f64 {
        self.sizes.first().map_or(0.0, |(size, _)| *size)
    }

    /// How many are larger than `size`.
    fn beyond(&self, size: f64) -> f64 {
        let count = self.sizes.partition_point(|(one, _)| *one > size);
        count.checked_sub(1).map_or(0.0, |last| self.sizes[last].1)
    }

    /// How many gaps longer than `gap` fit into all of them, less `known` in each.
    fn gaps_beyond(&self, gap: f64, known: f64) -> f64 {
        let mut before = 0.0;
        let fitting = self.sizes.iter().take_while(|(size, _)| *size > gap).map(|(size, weight)| {
            let weight = weight - std::mem::replace(&mut before, *weight);
            weight * ((size / gap).ceil() - 1.0 - known).max(0.0)
        });
        fitting.sum()
    }

    fn sum_of_largest(&self, count: f64) -> f64 {
        let (mut sum, mut before) = (0.0, 0.0);
        for &(size, weight) in &self.sizes {
            sum += size * (weight.min(count) - before);
            before = weight.min(count);
        }
        sum
    }
}

/// What is uncertain about the arrival times of a run.
#[derive(Debug)]
struct Doubt {
    /// Spans of the late reads.
    spans: Sizes,
    /// Late-coalesced events.
    late: f64,
    /// The gaps before reads of several events, the first of a response aside; `None` if they are too many to keep.
    before: Option<Sizes>,
    /// TTFTs of the responses whose first event shares a read with the second: a span is no longer than that.
    first: Sizes,
    /// Read lags of all events.
    lags: Sizes,
    /// Whether timestamps contain the read lag.
    by_user: bool,
    /// Responses.
    rows: f64,
    /// Least number of tokens after the first.
    least_tokens: u64,
}

impl Doubt {
    fn of(samples: &Samples, workers: &[WorkerUse]) -> Option<Doubt> {
        let sum = |of: fn(&WorkerUse) -> u64| workers.iter().map(of).sum::<u64>() as f64;
        let by_user = !workers.iter().all(|worker| worker.kernel_timestamps);
        let (late, events) = (sum(|worker| worker.late_coalesced), sum(|worker| worker.events));
        let lacks = |of: fn(&WorkerUse) -> &[f64]| workers.iter().all(|worker| of(worker).is_empty());
        if (late > 0.0 && lacks(|worker| &worker.late_spans)) || (by_user && lacks(|worker| &worker.wake_lags)) {
            return None;
        }
        let (mut zeros, mut reads, mut rows) = (0u64, 0u64, 0u64);
        let (mut before, mut first, mut least_tokens) = (Vec::new(), Vec::new(), u64::MAX);
        for sample in successes(samples) {
            let mut last = sample.ttft;
            // Events of one read have one timestamp.
            for (at, gap) in sample.itl.iter().enumerate().filter(|_| late > 0.0) {
                zeros += u64::from(gap == 0.0);
                if gap == 0.0 && (last != 0.0 || at == 0) {
                    reads += 1;
                    match at {
                        0 => first.push((last, 1.0)),
                        _ if before.len() <= MAX_KEPT => before.push((last, 1.0)),
                        _ => {}
                    }
                }
                last = gap;
            }
            rows += 1;
            least_tokens = least_tokens.min(sample.output_len.saturating_sub(1).max(1));
        }
        let spans = Sizes::of(workers, |worker| &worker.late_spans, |worker| worker.late_coalesced, reads as f64);
        Some(Doubt {
            before: (before.len() <= MAX_KEPT).then(|| Sizes::weighted(before, f64::INFINITY)),
            first: Sizes::weighted(first, f64::INFINITY),
            spans,
            late: late.min(zeros as f64),
            lags: Sizes::of(workers, |worker| &worker.wake_lags, |worker| worker.events, events),
            by_user,
            rows: rows as f64,
            least_tokens,
        })
    }

    /// Sums of the deviations that lower and raise a mean.
    fn of_mean(&self, kind: MetricKind) -> (f64, f64) {
        let first = self.first.sum_of_largest(f64::INFINITY);
        let first = first.min(self.spans.sum_of_largest(self.first.beyond(0.0)));
        let ends = if matches!(kind, MetricKind::Tpot | MetricKind::Itl) { 2.0 } else { 1.0 };
        let lag = if self.by_user { self.lags.sum_of_largest(self.rows) } else { 0.0 } + ends * self.rows * PATH;
        match kind {
            MetricKind::Ttft => (first + lag, lag),
            MetricKind::Tpot | MetricKind::Itl => (lag, first + lag),
            _ => (lag, lag),
        }
    }

    /// How many values are too large and too small by more than `size`.
    fn beyond(&self, kind: MetricKind, size: f64) -> (f64, f64) {
        let lag = if self.by_user { self.lags.beyond(size) } else { 0.0 };
        let first = self.first.beyond(size).min(self.spans.beyond(size));
        match kind {
            MetricKind::Ttft => (first + lag, lag),
            MetricKind::Tpot => (lag, first + lag),
            MetricKind::Itl => (self.spans.beyond(size) + lag, lag),
            _ => (lag, lag),
        }
    }

    fn of_metric(&self, kind: MetricKind, statistics: &Statistics, samples: &Samples) -> Vec<Bound> {
        let values = match kind {
            _ if self.beyond(kind, 0.0) == (0.0, 0.0) && self.late == 0.0 => None,
            MetricKind::Itl => Some(Ranked::histogram(itls(samples))),
            MetricKind::Tpot => Some(Ranked::sorted(tpots(samples))),
            MetricKind::Ttft => Some(Ranked::sorted(collect(samples, |sample| sample.ttft))),
            _ => Some(Ranked::sorted(collect(samples, |sample| sample.latency))),
        };
        let early = self.of_early_starts(kind, samples);
        let scale = if kind == MetricKind::Tpot { 1.0 / self.least_tokens as f64 } else { 1.0 };
        let (down, up) = self.of_mean(kind);
        let per_value = 1000.0 * scale / statistics.count as f64;
        let bound = |statistic, value_ms: f64, down_ms: f64, up_ms: f64| {
            let (low_ms, high_ms) = ((value_ms - down_ms).max(0.0), value_ms + up_ms);
            Bound { metric: kind, statistic, value_ms, low_ms, high_ms }
        };
        let mean = bound(Statistic::Mean, statistics.mean_ms, down * per_value, up * per_value);
        let median = (50.0, statistics.median_ms);
        let others = statistics.percentiles_ms.iter().copied().filter(|(percent, _)| *percent != 50.0);
        let percentiles = std::iter::once(median).chain(others).map(|(percent, value_ms)| {
            let (low, high) = match &values {
                None => (value_ms / 1000.0, value_ms / 1000.0),
                Some(values) => self.of_percentile(kind, values, percent, value_ms / 1000.0, scale),
            };
            let early = early.as_ref().map(|early| percentile(early, percent));
            let (low, high) = match (kind, early) {
                (MetricKind::Ttft, Some(early)) => (low.max(early), high),
                (_, Some(early)) => (low, high.min(early)),
                (_, None) => (low, high),
            };
            // A TPOT has two ends.
            let path = PATH * if kind == MetricKind::Tpot { 2.0 * scale } else { 1.0 };
            let statistic = Statistic::Percentile(percent);
            bound(statistic, value_ms, value_ms - (low - path) * 1000.0, (high + path) * 1000.0 - value_ms)
        });
        std::iter::once(mean).chain(percentiles).collect()
    }

    /// TTFTs or TPOTs in order, if each response whose first event shares a read with the second began as early as possible.
    fn of_early_starts(&self, kind: MetricKind, samples: &Samples) -> Option<Vec<f64>> {
        if self.by_user || self.late == 0.0 || !matches!(kind, MetricKind::Ttft | MetricKind::Tpot) {
            return None;
        }
        let longest = self.spans.largest();
        let mut values = collect_some(samples, |sample| {
            let shared = sample.itl.iter().next() == Some(0.0);
            let hidden = if shared { sample.ttft.min(longest) } else { 0.0 };
            match kind {
                MetricKind::Ttft => Some(sample.ttft - hidden),
                _ => Some(tpot(sample)? + hidden / (sample.output_len - 1) as f64),
            }
        });
        values.sort_unstable_by(f64::total_cmp);
        Some(values)
    }

    /// The range of a percentile, before what lies before the timestamps.
    fn of_percentile(&self, kind: MetricKind, values: &Ranked, percent: f64, value: f64, scale: f64) -> (f64, f64) {
        let sizes = grid(self.spans.largest().max(self.lags.largest()));
        let below = |count: f64| values.below(percent, count).unwrap_or(value);
        let above = |count: f64| values.above(percent, count).unwrap_or(value);
        let low = sizes.iter().map(|&size| below(self.beyond(kind, size).0) - size * scale).fold(0.0, f64::max);
        let raised = |hidden: f64| {
            let beyond = |&size: &f64| above(hidden + self.beyond(kind, size).1) + size * scale;
            sizes.iter().map(beyond).fold(f64::INFINITY, f64::min)
        };
        // Gaps in late reads are longer than 0 by a part of the span.
        let high = match kind {
            MetricKind::Itl if self.late > 0.0 => {
                // The gap before a read is as much shorter, so that one of them is known.
                let before = |gap| self.before.as_ref().map_or(f64::INFINITY, |before| before.gaps_beyond(gap, 1.0));
                let between = |gap| before(gap) + self.first.gaps_beyond(gap, 0.0);
                let hidden = |&gap: &f64| self.late.min(self.spans.gaps_beyond(gap, 0.0)).min(between(gap));
                sizes.iter().map(|gap| raised(hidden(gap)).max(*gap)).fold(f64::INFINITY, f64::min)
            }
            _ => raised(0.0),
        };
        (low.min(value), high.max(value))
    }
}

/// Sizes to try, from the largest to a microsecond, and none.
fn grid(largest: f64) -> Vec<f64> {
    let falling = std::iter::successors(Some(largest), |size| Some(size * 0.9)).take_while(|size| *size > 1e-6);
    falling.chain([0.0]).collect()
}
