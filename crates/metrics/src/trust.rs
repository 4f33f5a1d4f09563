//! Trustworthiness of the client: how far the printed latencies may be off because of it, how late it sent, how busy it
//! was, and a verdict.

pub mod bounds;
mod ranked;

pub use self::bounds::Bound;
use crate::latency::collect;
use crate::percentile::percentile;
use crate::{MetricKind, OpenLoopMetrics, Sample, Samples, Setup, Statistics, Summary, WorkerUse};

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
    /// How far each printed latency may be off; `None` where unknown.
    pub bounds: Option<Vec<Bound>>,
    /// Bound on the difference between times of different ranks, ms; `None` for one rank, or where unknown.
    pub clock_bound_ms: Option<f64>,
    /// The verdict.
    pub verdict: TrustVerdict,
}

tacho_core::named! {
    /// Source of timestamps.
    pub enum TimestampedBy {
        /// The kernel, when bytes reached the socket.
        Kernel = "kernel",
        /// The client, right after the read.
        User = "user",
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
    Saturated { busiest: f64 },
    /// Other work on its cores kept the client from reading.
    Starved { busiest: f64 },
    /// Timestamps are too coarse for the latency.
    Imprecise,
    /// Requests were sent so late that latencies from the schedule differ.
    Late { percent: f64, metric: &'static str, sent_ms: f64, scheduled_ms: f64, most_ms: f64 },
    /// The requested rate was not sent.
    RateMissed { planned: f64, delivered: f64 },
    /// Inter-arrival times do not follow the requested process.
    WrongProcess { distance: f64 },
}

impl TrustVerdict {
    const STARVED: &str = "STARVED";
    const IMPRECISE: &str = "IMPRECISE";
    const LATE: &str = "LATE";
    const RATE_MISSED: &str = "RATE MISSED";
    const WRONG_ARRIVALS: &str = "WRONG ARRIVALS";

    /// Whether the verdict with this word says that other work held up the client.
    pub fn is_starved(word: &str) -> bool {
        word == Self::STARVED
    }

    /// Whether the verdict with this word says that latencies from the schedule differ.
    pub fn is_late(word: &str) -> bool {
        word == Self::LATE
    }

    /// Whether the verdict with this word says that another load was sent than planned.
    pub fn is_other_load(word: &str) -> bool {
        [Self::RATE_MISSED, Self::WRONG_ARRIVALS].contains(&word)
    }

    /// Whether the verdict with this word bounds how far each printed latency may be off.
    pub fn is_bounded(word: &str) -> bool {
        [Self::STARVED, Self::IMPRECISE].contains(&word)
    }

    /// All verdicts: the word and what it means, as the documentation lists them.
    pub const WORDS: [(&str, &str); 8] = [
        ("ok", "no printed latency may be off by more than 5% and 0.1 ms, and requests were sent as planned"),
        ("unknown", "no response could be timed"),
        ("SATURATED", "a printed latency may be off by more: the client could not read as fast as the server sent"),
        (
            Self::STARVED,
            "a printed latency may be off by more: other programs held the client's cores, or it was stopped",
        ),
        (
            Self::IMPRECISE,
            "a printed latency may be off by more: its timestamps are taken after the read (`--timestamps user`)",
        ),
        (
            Self::LATE,
            "sent late: the highest printed percentile of TTFT from schedule is over 5% and 0.1 ms above the one from sending",
        ),
        (Self::RATE_MISSED, "dispatched under 95% of the planned rate; waiting for `--max-concurrency` does not count"),
        (Self::WRONG_ARRIVALS, "arrival distance beyond 5% and the 1% critical value"),
    ];

    /// Its word.
    pub fn word(&self) -> &'static str {
        let at = match self {
            TrustVerdict::Ok => 0,
            TrustVerdict::Unknown => 1,
            TrustVerdict::Saturated { .. } => 2,
            TrustVerdict::Starved { .. } => 3,
            TrustVerdict::Imprecise => 4,
            TrustVerdict::Late { .. } => 5,
            TrustVerdict::RateMissed { .. } => 6,
            TrustVerdict::WrongProcess { .. } => 7,
        };
        Self::WORDS[at].0
    }
}

/// Without bounds: least fraction of late-coalesced events of a client that is not ok.
const MAX_LATE_COALESCED: f64 = 0.05;
/// Busy fraction below which a late reader was off its core rather than saturated.
const STARVED_BUSY: f64 = 0.5;
/// Largest acceptable difference between latencies from the schedule and from sending.
const MAX_LATE_FRACTION: f64 = 0.05;
/// Least fraction of the planned rate that counts as delivered.
const MIN_DELIVERED: f64 = 0.95;
/// Arrival distances up to this are accepted however many requests there are.
const MAX_DISTANCE: f64 = 0.05;
const PERCENTILES: [f64; 2] = [50.0, 99.0];

impl Trust {
    /// Judges a run by its samples and workers; `None` without workers.
    pub fn of(
        setup: &Setup,
        samples: &Samples,
        summary: &Summary,
        open_loop: &OpenLoopMetrics,
        workers: &[WorkerUse],
    ) -> Option<Self> {
        let timestamps = match workers.first()?.kernel_timestamps {
            true => TimestampedBy::Kernel,
            false => TimestampedBy::User,
        };
        let sum = |of: fn(&WorkerUse) -> u64| workers.iter().map(of).sum::<u64>();
        let events = sum(|worker| worker.events).max(1);
        let lags: Vec<f64> = workers.iter().flat_map(|worker| worker.wake_lags.iter().copied()).collect();
        let mut trust = Trust {
            timestamps,
            lateness: setup.is_paced().then(|| open_loop.dispatch_lateness.clone()),
            wake_lag: (!lags.is_empty()).then(|| Statistics::of(lags, &PERCENTILES)),
            late_coalesced_fraction: sum(|worker| worker.late_coalesced) as f64 / events as f64,
            busy: workers.iter().map(|worker| worker.busy).collect(),
            connections: sum(|worker| worker.connections),
            connect_failures: sum(|worker| worker.connect_failures),
            arrival_distance: setup.is_paced().then(|| arrival_distance(samples)).flatten(),
            bounds: bounds::bounds(summary, samples, workers),
            clock_bound_ms: None,
            verdict: TrustVerdict::Unknown,
        };
        if summary.completed > 0 {
            let judged = trust.of_timestamps().or_else(|| trust.of_load(samples, summary, open_loop));
            trust.verdict = judged.unwrap_or(TrustVerdict::Ok);
        }
        Some(trust)
    }

    /// The verdict on the printed latencies, if one may be off.
    fn of_timestamps(&self) -> Option<TrustVerdict> {
        let late = self.late_coalesced_fraction;
        let off = match &self.bounds {
            Some(bounds) => bounds.iter().any(Bound::is_large),
            None => late > MAX_LATE_COALESCED,
        };
        let busiest = self.busy.iter().copied().fold(0.0, f64::max);
        off.then_some(match busiest < STARVED_BUSY {
            _ if late == 0.0 => TrustVerdict::Imprecise,
            true => TrustVerdict::Starved { busiest },
            false => TrustVerdict::Saturated { busiest },
        })
    }

    /// The verdict on the load, if it was not sent as planned.
    fn of_load(&self, samples: &Samples, summary: &Summary, open_loop: &OpenLoopMetrics) -> Option<TrustVerdict> {
        self.lateness.as_ref()?;
        // Waits for a slot are due to the user's own limit.
        let missed = open_loop.rates.filter(|rates| rates.dispatched < rates.planned * MIN_DELIVERED);
        let missed =
            missed.map(|rates| TrustVerdict::RateMissed { planned: rates.planned, delivered: rates.dispatched });
        let critical = critical_distance(samples.len()).max(MAX_DISTANCE);
        let distance = self.arrival_distance.filter(|distance| *distance > critical);
        let wrong = distance.map(|distance| TrustVerdict::WrongProcess { distance });
        late(samples, summary).or(missed).or(wrong)
    }

    /// The printed latency that may be off by the largest part of itself; `None` if none by more than the floor.
    pub fn most_off(&self) -> Option<&Bound> {
        let off = self.bounds.iter().flatten().filter(|bound| bound.off_ms() > bounds::FLOOR_MS);
        off.max_by(|a, b| a.fraction().total_cmp(&b.fraction()))
    }

    /// Returns whether the verdict is good.
    pub fn is_ok(&self) -> bool {
        self.verdict == TrustVerdict::Ok
    }

    /// The effect of the client on the result.
    pub fn effect(&self) -> String {
        match &self.verdict {
            TrustVerdict::Unknown => "no response could be timed".to_owned(),
            TrustVerdict::Late { percent, metric, sent_ms, scheduled_ms, .. } => {
                format!("p{percent} {metric} is {sent_ms:.2} ms, from schedule {scheduled_ms:.2} ms")
            }
            TrustVerdict::RateMissed { planned, delivered } => {
                format!("{delivered:.2} of {planned:.2} requests/s were sent")
            }
            TrustVerdict::WrongProcess { distance } => {
                format!("gaps between requests differ from the planned ones by {distance:.3} (KS distance)")
            }
            _ => match self.most_off() {
                Some(bound) => bound.text(),
                None if self.bounds.is_some() => format!("latencies within {} ms", bounds::FLOOR_MS),
                None => "how far latencies may be off is unknown".to_owned(),
            },
        }
    }

    /// The verdict as one line.
    pub fn text(&self) -> String {
        let advice = match &self.verdict {
            TrustVerdict::Saturated { busiest } => {
                format!(" (busiest worker {:.0}%): use more workers or fewer streams", busiest * 100.0)
            }
            TrustVerdict::Starved { busiest } => format!(
                " (busiest worker {:.0}%): other work holds its cores, or it was stopped; free a core for it",
                busiest * 100.0
            ),
            TrustVerdict::Imprecise => ": use more workers or fewer streams".to_owned(),
            TrustVerdict::Late { most_ms, .. } => {
                format!(" (requests were sent up to {most_ms:.1} ms late): free a core for it or use more workers")
            }
            _ => String::new(),
        };
        format!("client: {}, {}{advice}", self.verdict.word(), self.effect())
    }
}

/// Lateness by its effect: the highest printed percentile of TTFT, or of E2EL, with the dispatch lateness and without.
fn late(samples: &Samples, summary: &Summary) -> Option<TrustVerdict> {
    let of = |kind: MetricKind| summary.statistics(kind).filter(|statistics| statistics.count > 0);
    let (metric, statistics, time): (_, _, fn(&Sample) -> f64) = match of(MetricKind::Ttft) {
        Some(ttft) => ("TTFT", ttft, |sample| sample.ttft),
        None => ("E2EL", of(MetricKind::E2el)?, |sample| sample.latency),
    };
    let printed = statistics.percentiles_ms.iter().copied().max_by(|a, b| a.0.total_cmp(&b.0));
    let (percent, sent_ms) = printed.unwrap_or((50.0, statistics.median_ms));
    let mut late = collect(samples, |sample| time(sample) + sample.dispatched - sample.scheduled);
    late.sort_unstable_by(f64::total_cmp);
    let scheduled_ms = percentile(&late, percent) * 1000.0;
    let delays = samples.iter().map(|sample| sample.dispatched - sample.scheduled);
    let most_ms = delays.fold(0.0, f64::max) * 1000.0;
    let is_late = scheduled_ms - sent_ms > (MAX_LATE_FRACTION * sent_ms).max(bounds::FLOOR_MS);
    is_late.then_some(TrustVerdict::Late { percent, metric, sent_ms, scheduled_ms, most_ms })
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
mod tests;
