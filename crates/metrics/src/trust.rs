//! Trustworthiness of the client: how late it sent, how late it read, how busy it was, and a verdict.

use crate::percentile::percentile;
use crate::{MetricKind, OpenLoopMetrics, Sample, Samples, Setup, Statistics, Summary};

/// Load of one worker thread of the client.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WorkerUse {
    /// Fraction of the run that it was working rather than waiting.
    pub busy: f64,
    /// Seconds from the arrival of bytes at the socket to their read, sampled; empty where unknown.
    pub wake_lags: Vec<f64>,
    /// Token events received.
    pub events: u64,
    /// Token events that shared a read with a later one.
    pub coalesced: u64,
    /// Those that shared a read because this worker was late: their arrival times are unknown.
    pub late_coalesced: u64,
    /// Seconds by which the arrival of such an event may lie before its timestamp, a sample; empty where unknown.
    pub late_spans: Vec<f64>,
    /// Connections opened.
    pub connections: u64,
    /// Connections that could not be opened.
    pub connect_failures: u64,
    /// Whether arrivals were timestamped by the kernel.
    pub kernel_timestamps: bool,
}

/// The client's self-assessment.
#[derive(Debug, Clone, PartialEq)]
pub struct Trust {
    /// Source of the timestamps.
    pub timestamps: TimestampedBy,
    /// From the scheduled time to dispatch, of all requests; `None` when all were due at once.
    pub lateness: Option<Statistics>,
    /// From the arrival of bytes to their read; `None` where the system does not report it.
    pub wake_lag: Option<Statistics>,
    /// Fraction of token events whose arrival time is unknown because the client read late.
    pub late_coalesced_fraction: f64,
    /// Busy fraction of each worker.
    pub busy: Vec<f64>,
    /// Connections opened.
    pub connections: u64,
    /// Connections that could not be opened.
    pub connect_failures: u64,
    /// Kolmogorov-Smirnov distance between the distributions of planned and actual inter-arrival times.
    pub arrival_distance: Option<f64>,
    /// The client's contribution to a measured time, 99th percentile, ms.
    pub error_p99_ms: f64,
    /// The metric most affected by this error, and the timestamp error as a fraction of its 99th percentile.
    pub error_fraction: Option<(&'static str, f64)>,
    /// Bound on the difference between times of different ranks, ms; `None` for one rank, or where unknown.
    pub clock_bound_ms: Option<f64>,
    /// The verdict.
    pub verdict: TrustVerdict,
}

/// Source of timestamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimestampedBy {
    /// The kernel, when bytes reached the socket.
    Kernel,
    /// The client, right after the read.
    User,
}

impl TimestampedBy {
    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            TimestampedBy::Kernel => "kernel",
            TimestampedBy::User => "user",
        }
    }
}

/// Whether the client distorted its measurements.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the message says it")]
pub enum TrustVerdict {
    /// No distortion.
    Ok,
    /// Nothing was measured that the client could have distorted.
    Unknown,
    /// The client could not read as fast as the server wrote.
    Saturated { late_coalesced_fraction: f64, busiest: f64 },
    /// Other work on its cores kept the client from reading.
    Starved { late_coalesced_fraction: f64, busiest: f64 },
    /// The measurement error is a large part of the measured value.
    Imprecise { error_ms: f64, metric: &'static str, value_ms: f64 },
    /// Requests were sent late.
    Late { p99_ms: f64 },
    /// The requested rate was not sent.
    RateMissed { planned: f64, delivered: f64 },
    /// Inter-arrival times do not follow the requested process.
    WrongProcess { distance: f64 },
}

/// Least fraction of late-coalesced events of a saturated client.
const SATURATED_COALESCED: f64 = 0.05;
/// Least busy fraction of a saturated client.
const SATURATED_BUSY: f64 = 0.95;
/// Busy fraction below which a late reader was off its core rather than saturated.
const STARVED_BUSY: f64 = 0.5;
/// Largest acceptable measurement error, as a fraction of a metric; errors up to [`LATE_MS`] are always accepted.
const MAX_ERROR_FRACTION: f64 = 0.1;
/// Late-coalesced events that are at most this fraction of all move no 99th percentile: they are a tenth of the values
/// beyond it.
const NEGLIGIBLE_FRACTION: f64 = 1e-3;
/// Lateness of dispatch that makes a client late, ms.
const LATE_MS: f64 = 1.0;
/// Least fraction of the planned rate that counts as delivered.
const MIN_DELIVERED: f64 = 0.95;
/// Least events for a verdict about saturation.
const MIN_EVENTS: u64 = 100;
const PERCENTILES: [f64; 2] = [50.0, 99.0];

impl Trust {
    /// Judges a run by its samples and workers; `None` without workers.
    pub fn of(setup: &Setup, samples: &Samples, open_loop: &OpenLoopMetrics, workers: &[WorkerUse]) -> Option<Self> {
        let timestamps = match workers.first()?.kernel_timestamps {
            true => TimestampedBy::Kernel,
            false => TimestampedBy::User,
        };
        let sum = |of: fn(&WorkerUse) -> u64| workers.iter().map(of).sum::<u64>();
        let events = sum(|worker| worker.events);
        let lags: Vec<f64> = workers.iter().flat_map(|worker| worker.wake_lags.iter().copied()).collect();
        let mut trust = Trust {
            timestamps,
            lateness: setup.is_paced().then(|| open_loop.dispatch_lateness.clone()),
            wake_lag: (!lags.is_empty()).then(|| Statistics::of(lags, &PERCENTILES)),
            late_coalesced_fraction: if events == 0 {
                0.0
            } else {
                sum(|worker| worker.late_coalesced) as f64 / events as f64
            },
            busy: workers.iter().map(|worker| worker.busy).collect(),
            connections: sum(|worker| worker.connections),
            connect_failures: sum(|worker| worker.connect_failures),
            arrival_distance: setup.is_paced().then(|| arrival_distance(samples)).flatten(),
            error_p99_ms: 0.0,
            error_fraction: None,
            clock_bound_ms: None,
            verdict: TrustVerdict::Ok,
        };
        trust.error_p99_ms = own_error_ms(workers, trust.lateness.as_ref());
        trust.verdict = match samples.iter().any(|sample| sample.success()) {
            true => trust.judge(open_loop, events, samples.len()),
            false => TrustVerdict::Unknown,
        };
        Some(trust)
    }

    fn judge(&self, open_loop: &OpenLoopMetrics, events: u64, requests: usize) -> TrustVerdict {
        let busiest = self.busy.iter().copied().fold(0.0, f64::max);
        let p99_ms = self.lateness_p99_ms().unwrap_or(0.0);
        if events >= MIN_EVENTS
            && (self.late_coalesced_fraction > SATURATED_COALESCED
                || (busiest > SATURATED_BUSY && self.late_coalesced_fraction > 0.0))
        {
            let late_coalesced_fraction = self.late_coalesced_fraction;
            return match busiest < STARVED_BUSY {
                true => TrustVerdict::Starved { late_coalesced_fraction, busiest },
                false => TrustVerdict::Saturated { late_coalesced_fraction, busiest },
            };
        }
        if p99_ms > LATE_MS {
            return TrustVerdict::Late { p99_ms };
        }
        // Waits for a slot are due to the user's own limit.
        if let Some(rates) = open_loop.rates.filter(|rates| rates.dispatched < rates.planned * MIN_DELIVERED) {
            return TrustVerdict::RateMissed { planned: rates.planned, delivered: rates.dispatched };
        }
        match self.arrival_distance {
            Some(distance) if distance > critical_distance(requests) => TrustVerdict::WrongProcess { distance },
            _ => TrustVerdict::Ok,
        }
    }

    fn lateness_p99_ms(&self) -> Option<f64> {
        self.lateness.as_ref()?.percentile_ms(99.0)
    }

    /// The error of timestamps, p99 in ms. Dispatch lateness is not part of it: latencies count from the time at which a
    /// request was sent, and only those from the schedule contain the lateness.
    pub fn timestamp_error_ms(&self) -> f64 {
        (self.error_p99_ms - self.lateness_p99_ms().unwrap_or(0.0)).max(0.0)
    }

    /// Weighs the error of timestamps against the metrics that were measured with them.
    pub fn weigh(&mut self, summary: &Summary) {
        let error_ms = self.timestamp_error_ms();
        let metrics = [("TTFT", MetricKind::Ttft), ("ITL", MetricKind::Itl), ("E2EL", MetricKind::E2el)];
        let measured = metrics.into_iter().filter_map(|(name, metric)| {
            let statistics = summary.statistics(metric).filter(|statistics| statistics.count > 0)?;
            let value_ms = statistics.percentile_ms(99.0).unwrap_or(statistics.median_ms);
            (value_ms > 0.0).then_some((name, value_ms))
        });
        let Some((metric, value_ms)) = measured.min_by(|a, b| a.1.total_cmp(&b.1)) else { return };
        self.error_fraction = Some((metric, error_ms / value_ms));
        if self.is_ok() && error_ms > LATE_MS && error_ms > MAX_ERROR_FRACTION * value_ms {
            self.verdict = TrustVerdict::Imprecise { error_ms, metric, value_ms };
        }
    }

    /// Returns whether the verdict is good.
    pub fn is_ok(&self) -> bool {
        self.verdict == TrustVerdict::Ok
    }

    /// The verdict as one line.
    pub fn text(&self) -> String {
        let percent = |share: f64| share * 100.0;
        match &self.verdict {
            TrustVerdict::Ok => {
                let fraction = |(metric, fraction)| format!(" ({:.1}% of p99 {metric})", percent(fraction));
                let late = |ms: f64| format!(", dispatch lateness p99 {ms:.2} ms");
                format!(
                    "client: ok, timestamp error p99 {:.2} ms{}{}",
                    self.timestamp_error_ms(),
                    self.error_fraction.map(fraction).unwrap_or_default(),
                    self.lateness_p99_ms().map(late).unwrap_or_default()
                )
            }
            TrustVerdict::Imprecise { error_ms, metric, value_ms } => format!(
                "client: IMPRECISE, timestamp error p99 {error_ms:.2} ms is {:.0}% of p99 {metric} ({value_ms:.2} ms): \
                 use more workers or fewer streams",
                percent(error_ms / value_ms)
            ),
            TrustVerdict::Unknown => "client: unknown, no response could be timed".to_owned(),
            TrustVerdict::Saturated { late_coalesced_fraction, busiest } => format!(
                "client: SATURATED, {:.0}% of events coalesced, busiest worker {:.0}%: use more workers or fewer streams",
                percent(*late_coalesced_fraction),
                percent(*busiest)
            ),
            TrustVerdict::Starved { late_coalesced_fraction, busiest } => format!(
                "client: STARVED, {:.0}% of events read late while its busiest worker was {:.0}% busy: other work holds its cores, free one",
                percent(*late_coalesced_fraction),
                percent(*busiest)
            ),
            TrustVerdict::Late { p99_ms } => {
                format!("client: LATE, p99 of dispatch lateness {p99_ms:.2} ms: free a core for it or use more workers")
            }
            TrustVerdict::RateMissed { planned, delivered } => {
                format!("client: RATE MISSED, {delivered:.2} of {planned:.2} requests/s were sent")
            }
            TrustVerdict::WrongProcess { distance } => {
                format!("client: WRONG ARRIVALS, gaps differ from the planned ones by {distance:.3} (KS distance)")
            }
        }
    }
}

/// The client's contribution to a time from schedule, 99th percentile in ms: its dispatch delay, and its reads. A
/// user-space timestamp is as late as the read. The kernel's is that of the last packet of a read, which is the
/// arrival of an event unless it was coalesced with a later one; then it is late by up to the span that the worker
/// recorded. The rest is the time through the socket on both sides, each about that of a read that was not late.
pub fn own_error_ms(workers: &[WorkerUse], lateness: Option<&Statistics>) -> f64 {
    let late = lateness.and_then(|lateness| lateness.percentile_ms(99.0)).unwrap_or(0.0);
    let sorted = |of: fn(&WorkerUse) -> &[f64]| {
        let mut values: Vec<f64> = workers.iter().flat_map(|worker| of(worker).iter().copied()).collect();
        values.sort_unstable_by(f64::total_cmp);
        values
    };
    let at = |sorted: &[f64], share: f64| if sorted.is_empty() { 0.0 } else { percentile(sorted, share * 100.0) * 1e3 };
    let (lags, spans) = (sorted(|worker| &worker.wake_lags), sorted(|worker| &worker.late_spans));
    let sum = |of: fn(&WorkerUse) -> u64| workers.iter().map(of).sum::<u64>() as f64;
    let fraction = sum(|worker| worker.late_coalesced) / sum(|worker| worker.events).max(1.0);
    // Without spans, as in older logs: late-coalesced events came with the latest reads.
    let spans = if spans.is_empty() { &lags } else { &spans };
    let coalesced =
        if fraction > NEGLIGIBLE_FRACTION { at(spans, 1.0 - 0.1 * NEGLIGIBLE_FRACTION / fraction) } else { 0.0 };
    let kernel = workers.iter().all(|worker| worker.kernel_timestamps);
    let read = if kernel { at(&lags, 0.5) + at(&lags, 0.9) } else { at(&lags, 0.99) + at(&lags, 0.5) };
    late + read + coalesced
}

/// The two-sample Kolmogorov-Smirnov distance between planned and actual gaps. Both have one gap per request, so it is
/// the largest difference of their empirical distribution functions.
fn arrival_distance(samples: &Samples) -> Option<f64> {
    let gaps = |time: fn(&Sample) -> f64| {
        let mut gaps: Vec<f64> = samples.iter().map(|sample| time(&sample)).collect();
        // Each time becomes the gap to the next.
        (1..gaps.len()).for_each(|at| gaps[at - 1] = gaps[at] - gaps[at - 1]);
        gaps.pop();
        gaps.sort_unstable_by(f64::total_cmp);
        gaps
    };
    let (planned, actual) = (gaps(|sample| sample.scheduled), gaps(|sample| sample.dispatched));
    let count = planned.len();
    if count == 0 {
        return None;
    }
    // Gaps that differ by less than the resolution of the clock and the loop count as equal.
    const TOLERANCE: f64 = 1e-4;
    let below = |sorted: &[f64], value: f64| sorted.partition_point(|&gap| gap <= value) as f64 / count as f64;
    let distance = planned.iter().map(|&gap| {
        let at_most = below(&actual, gap + TOLERANCE);
        let at_least = below(&actual, gap - TOLERANCE);
        let wanted = below(&planned, gap);
        (wanted - at_most).max(at_least - wanted).max(0.0)
    });
    Some(distance.fold(0.0, f64::max))
}

/// The Kolmogorov-Smirnov distance that two samples of the same process exceed in 1% of runs.
fn critical_distance(requests: usize) -> f64 {
    let gaps = requests.saturating_sub(1).max(1) as f64;
    1.63 * (2.0 / gaps).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(late: f64) -> Vec<Sample> {
        (0..200)
            .map(|index| {
                let scheduled = f64::from(index) * 0.01;
                Sample { scheduled, dispatched: scheduled + late, sent: scheduled + late, ..Sample::default() }
            })
            .collect()
    }

    fn trust(samples: &[Sample], worker: WorkerUse) -> Trust {
        let setup = Setup { request_rate: 100.0, ..Setup::example() };
        let samples = samples.to_vec().into();
        let open_loop = OpenLoopMetrics::of(&setup, &samples, 2.0);
        Trust::of(&setup, &samples, &open_loop, &[worker]).unwrap()
    }

    #[test]
    fn a_client_that_timed_nothing_is_not_ok() {
        let mut failed = samples(0.0);
        failed.iter_mut().for_each(|sample| sample.failure = Some(tacho_core::FailureKind::Connect));
        let trust = trust(&failed, WorkerUse { kernel_timestamps: true, ..WorkerUse::default() });
        assert!(!trust.is_ok() && trust.text().starts_with("client: unknown"), "{}", trust.text());
    }

    #[test]
    fn a_client_on_time_is_ok() {
        let worker =
            WorkerUse { busy: 0.2, events: 5000, coalesced: 4000, kernel_timestamps: true, ..WorkerUse::default() };
        let trust = trust(&samples(5e-5), worker);
        assert!(trust.is_ok(), "{}", trust.text());
        assert_eq!(trust.text(), "client: ok, timestamp error p99 0.00 ms, dispatch lateness p99 0.05 ms");
    }

    #[test]
    fn an_error_as_large_as_the_metric_is_imprecise() {
        let weighed = |itl: f64, lag: f64| {
            let mut timed = samples(0.0);
            for sample in &mut timed {
                (sample.ttft, sample.latency, sample.output_len) = (0.5, 0.5 + itl, 2);
                sample.itl = vec![itl].into();
            }
            let worker = WorkerUse { busy: 0.5, events: 5000, wake_lags: vec![lag; 100], ..WorkerUse::default() };
            let setup = Setup { request_rate: 100.0, ..Setup::example() };
            let mut trust = trust(&timed, worker);
            trust.weigh(&Summary::of(&setup, &timed.into(), 2.0));
            trust
        };
        // Without kernel timestamps the error is the p99 and the median of the lag.
        let bad = weighed(0.020, 0.010);
        assert!(matches!(bad.verdict, TrustVerdict::Imprecise { metric: "ITL", .. }), "{}", bad.text());
        assert!(bad.text().contains("20.00 ms is 100% of p99 ITL"), "{}", bad.text());
        let good = weighed(0.020, 0.0001);
        assert!(
            good.is_ok() && good.text().contains("timestamp error p99 0.20 ms (1.0% of p99 ITL)"),
            "{}",
            good.text()
        );
        assert!(weighed(0.001, 0.0004).is_ok(), "errors below a millisecond are accepted");
    }

    #[test]
    fn a_client_that_reads_late_is_saturated() {
        let worker = WorkerUse { busy: 0.99, events: 1000, late_coalesced: 310, ..WorkerUse::default() };
        let trust = trust(&samples(0.0), worker);
        assert!(trust.text().starts_with("client: SATURATED, 31% of events coalesced"), "{}", trust.text());
    }

    #[test]
    fn a_client_that_reads_late_without_working_is_starved() {
        let worker = WorkerUse { busy: 0.02, events: 1000, late_coalesced: 70, ..WorkerUse::default() };
        let trust = trust(&samples(0.0), worker);
        assert!(trust.text().starts_with("client: STARVED, 7% of events read late while"), "{}", trust.text());
    }

    #[test]
    fn a_client_that_sends_late_is_late() {
        let trust = trust(&samples(0.004), WorkerUse::default());
        assert_eq!(trust.verdict, TrustVerdict::Late { p99_ms: trust.error_p99_ms });
    }

    /// One late request among many must not blame the client for the user's own limit.
    #[test]
    fn a_concurrency_limit_does_not_make_the_client_late() {
        let mut capped = samples(0.0);
        for (index, sample) in capped.iter_mut().enumerate() {
            sample.sent = index as f64 * 0.05;
        }
        capped[7].dispatched += 0.003;
        let verdict = trust(&capped, WorkerUse::default());
        assert!(verdict.is_ok(), "{}", verdict.text());
        let mut slow = samples(0.0);
        for (index, sample) in slow.iter_mut().enumerate() {
            (sample.dispatched, sample.sent) = (sample.scheduled + index as f64 * 4e-6, index as f64 * 0.02);
        }
        assert!(trust(&slow, WorkerUse::default()).is_ok());
        slow[199].dispatched = 3.0;
        assert!(matches!(trust(&slow, WorkerUse::default()).verdict, TrustVerdict::RateMissed { .. }));
    }

    #[test]
    fn kernel_timestamps_do_not_prove_zero_error() {
        let lags = (0..1000).map(|at| 5e-5 + f64::from(at) * 1e-6).collect::<Vec<f64>>();
        let worker = |late_coalesced| WorkerUse {
            events: 1000,
            late_coalesced,
            kernel_timestamps: true,
            wake_lags: lags.clone(),
            ..WorkerUse::default()
        };
        let error = |late| trust(&samples(0.0), worker(late)).error_p99_ms;
        assert!(error(0) > 1.2 && error(0) < 1.8, "{}", error(0));
        assert!(error(30) > 2.0, "{}", error(30));
    }

    /// Half a percent of events with arrival times uncertain by up to 10 ms can move a 99th percentile, though their
    /// timestamps are right before their reads.
    #[test]
    fn the_kernel_timestamp_of_a_coalesced_read_is_that_of_its_last_packet() {
        let worker = |late_coalesced| WorkerUse {
            busy: 0.6,
            events: 10_000,
            late_coalesced,
            late_spans: vec![0.01; 50],
            wake_lags: vec![4e-5; 1000],
            kernel_timestamps: true,
            ..WorkerUse::default()
        };
        let error = |late| trust(&samples(0.0), worker(late)).error_p99_ms;
        assert!(error(50) > 10.0 && error(5) < 0.1, "{} {}", error(50), error(5));
    }

    #[test]
    fn coalesced_arrivals_are_another_process() {
        let mut bundled = samples(0.0);
        for (index, sample) in bundled.iter_mut().enumerate() {
            sample.dispatched = (index / 4) as f64 * 0.04 + 0.03;
        }
        assert!(arrival_distance(&bundled.into()).unwrap() > critical_distance(200));
        assert_eq!(arrival_distance(&samples(0.0).into()), Some(0.0));
    }

    #[test]
    fn no_workers_give_no_verdict() {
        let open_loop = OpenLoopMetrics::of(&Setup::example(), &Samples::default(), 1.0);
        assert!(Trust::of(&Setup::example(), &Samples::default(), &open_loop, &[]).is_none());
    }
}
