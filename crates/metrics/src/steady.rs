//! Steady state of a run: the warm-up by MSER-5 (White 1997) over the latencies in send order, the cool-down from the
//! last request sent. In between, a drift of the latency or a growing backlog shows that a longer run would have other
//! results.

pub mod recovery;
pub mod window;

use crate::{
    Sample, Samples, Setup, Statistics, latency::successes, samples::by_sent::BySent, statistics::mean,
    throughput::per_second,
};

/// The rule's name in reports.
pub const RULE: &str = "MSER-5";
/// Latencies per batch of the rule.
const BATCH: usize = 5;
/// Least requests for MSER-5.
const MIN_REQUESTS: usize = 50;
/// Least relative change between the halves of the window that is reported.
const MIN_DRIFT: f64 = 0.1;
const TREND_BATCHES: usize = 12;
/// Least fraction by which arrivals exceed completions in a growing backlog, beyond random variation.
const MIN_BACKLOG: f64 = 0.02;

/// Dispatch lateness of a client that was away, s.
const AWAY: f64 = 0.02;
/// Excess arrivals for which one late request accounts: its own, and one that it delays.
const EXPLAINED: f64 = 2.0;
/// Fraction of the time in which a client that was away says nothing about the server.
const MAX_AWAY: f64 = 0.1;

/// The steady-state window of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Steady {
    /// Where it begins, seconds after the first request was sent.
    pub start: f64,
    /// Where it ends.
    pub end: f64,
    /// Requests sent in it.
    pub requests: usize,
    /// Whether the warm-up ended in the first half of the run; if not, the run is too short.
    pub reached: bool,
    /// Successes that ended in it per second.
    pub request_throughput: f64,
    /// Time to the first token of those sent in it.
    pub ttft: Statistics,
    /// Time to the last token of those sent in it.
    pub e2el: Statistics,
    /// Relative change of the mean latency from its first to its second half, where significant.
    pub drift: Option<f64>,
    /// Growth of the backlog in the second half of a scheduled run, where significant and not the client's doing.
    pub backlog: Option<Backlog>,
    /// Absence of the client that may explain a growing backlog.
    pub away: Option<Away>,
}

/// The client did not send what was due in the second half of the schedule.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Away {
    /// Requests that were dispatched late.
    pub requests: usize,
    /// Seconds for which requests were overdue.
    pub seconds: f64,
}

/// Arrivals exceeded completions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Backlog {
    /// Requests scheduled in the second half.
    pub arrived: usize,
    /// Requests that ended in that time.
    pub ended: usize,
}

impl Steady {
    /// Finds the window; `None` for runs that are too short.
    pub fn of(setup: &Setup, samples: &Samples) -> Option<Self> {
        let rows = BySent::of(samples);
        if rows.len() < MIN_REQUESTS {
            return None;
        }
        let latencies = rows.column(|row| row.latency);
        let cut = warm_up(&latencies);
        let (first, start, end) = {
            let sent = rows.column(|row| row.sent);
            (sent[0], sent[cut], sent[sent.len() - 1])
        };
        let ended = successes(samples).filter(|row| (start..end).contains(&(row.sent + row.latency))).count();
        let times = |of: fn(&Sample) -> f64| {
            let mut inside = rows.column(of);
            inside.drain(..cut);
            Statistics::of(inside, &setup.metric_percentiles)
        };
        let (backlog, away) = if setup.is_paced() { backlog(samples) } else { (None, None) };
        Some(Steady {
            start: start - first,
            end: end - first,
            requests: rows.len() - cut,
            reached: cut * 2 < rows.len(),
            request_throughput: per_second(ended as f64, end - start),
            ttft: times(|row| row.ttft),
            e2el: times(|row| row.latency),
            drift: drift(&latencies[cut..]),
            backlog,
            away,
        })
    }
}

/// Number of warm-up requests: the truncation that minimizes the standard error of the rest. At most half, beyond which
/// MSER is unreliable.
fn warm_up(latencies: &[f64]) -> usize {
    let batches: Vec<f64> = latencies.chunks_exact(BATCH).map(mean).collect();
    let (mut sum, mut squares, mut best) = (0.0, 0.0, (f64::INFINITY, 0));
    for at in (0..batches.len()).rev() {
        sum += batches[at];
        squares += batches[at] * batches[at];
        let count = (batches.len() - at) as f64;
        let error = (squares - sum * sum / count).max(0.0) / (count * count);
        if at * 2 <= batches.len() && count >= 5.0 && error <= best.0 {
            best = (error, at);
        }
    }
    best.1 * BATCH
}

/// The change of the mean from one half to the other, where it is large and the Mann-Kendall test of the batches is
/// significant.
fn drift(latencies: &[f64]) -> Option<f64> {
    let (first, second) = latencies.split_at(latencies.len() / 2);
    let change = mean(second) / mean(first) - 1.0;
    let count = latencies.len();
    let batch = |at: usize| mean(&latencies[at * count / TREND_BATCHES..(at + 1) * count / TREND_BATCHES]);
    let means: Vec<f64> = (0..TREND_BATCHES).map(batch).collect();
    let pairs = (0..TREND_BATCHES).flat_map(|a| (a + 1..TREND_BATCHES).map(move |b| (a, b)));
    let order: f64 = pairs.map(|(a, b)| (means[b] - means[a]).signum()).sum();
    let n = TREND_BATCHES as f64;
    let deviation = (n * (n - 1.0) * (2.0 * n + 5.0) / 18.0).sqrt();
    (change.abs() > MIN_DRIFT && order.abs() > 3.0 * deviation).then_some(change)
}

/// Arrivals against completions in the second half of the schedule. In a stable system the two differ only by random
/// variation; failed requests have left the queue too. A client that was away has delayed arrivals and sent them in a
/// burst, which grows the backlog of any server.
pub(crate) fn backlog(samples: &Samples) -> (Option<Backlog>, Option<Away>) {
    let scheduled = samples.iter().map(|sample| sample.scheduled);
    let (first, last) = scheduled.fold((f64::INFINITY, f64::NEG_INFINITY), |(first, last), scheduled| {
        (first.min(scheduled), last.max(scheduled))
    });
    // The first requests cannot have completed: the requests in flight of a steady system must have built up before.
    let half = first + (last - first) / 2.0;
    let (mut arrived, mut ended) = (0, 0);
    for sample in samples {
        arrived += usize::from(sample.scheduled > half);
        ended += usize::from(sample.done > half && sample.done <= last);
    }
    let excess = arrived as f64 - ended as f64;
    let chance = 2.0 * (arrived as f64).sqrt();
    let growing = arrived >= MIN_REQUESTS / 2 && excess > MIN_BACKLOG * arrived as f64 && excess > chance;
    let away = Away::between(samples, half);
    let explains = excess <= EXPLAINED * away.requests as f64 || away.seconds > MAX_AWAY * (last - half);
    match growing {
        false => (None, None),
        true if explains => (None, Some(away)),
        true => (Some(Backlog { arrived, ended }), None),
    }
}

impl Away {
    /// Of the requests scheduled after `start`.
    fn between(samples: &Samples, start: f64) -> Self {
        let overdue = |sample: &Sample| sample.scheduled > start && sample.dispatched - sample.scheduled > AWAY;
        let overdue = samples.iter().filter(|sample| overdue(sample));
        let mut times: Vec<(f64, f64)> = overdue.map(|sample| (sample.scheduled, sample.dispatched)).collect();
        times.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        let (mut seconds, mut until) = (0.0, start);
        for &(from, to) in &times {
            seconds += (to - until.max(from)).max(0.0);
            until = until.max(to);
        }
        Away { requests: times.len(), seconds }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tacho_pyrand::Generator;

    /// Requests at a rate to a single server with `capacity` requests/s.
    fn queue(rate: f64, capacity: f64, count: usize, seed: u64) -> Samples {
        let mut random = Generator::new(seed);
        let (mut now, mut free) = (0.0_f64, 0.0_f64);
        let mut next = || {
            now -= (1.0 - random.random()).ln() / rate;
            free = free.max(now) + 1.0 / capacity;
            Sample {
                scheduled: now,
                dispatched: now,
                sent: now,
                latency: free - now,
                ttft: free - now,
                done: free,
                ..Sample::default()
            }
        };
        (0..count).map(|_| next()).collect()
    }

    fn paced() -> Setup {
        Setup { request_rate: 50.0, ..Setup::example() }
    }

    #[test]
    fn only_a_growing_backlog_is_reported() {
        let grows = |rate: f64| (0..40).filter(|&seed| backlog(&queue(rate, 100.0, 3000, seed)).0.is_some()).count();
        assert!(grows(70.0) <= 1 && grows(90.0) <= 2, "{} {}", grows(70.0), grows(90.0));
        assert_eq!((grows(112.0), grows(130.0)), (40, 40));
    }

    /// A client that is stopped shortly before the end leaves a backlog on any server.
    #[test]
    fn a_backlog_of_a_client_that_was_away_is_not_the_servers() {
        let stopped = |rate: f64, seed: u64| {
            let mut samples = queue(rate, 100.0, 400, seed);
            samples.change(|samples| {
                let end = samples.iter().map(|sample| sample.scheduled).fold(0.0, f64::max);
                for sample in samples.iter_mut().filter(|sample| sample.scheduled > end - 1.0) {
                    let delay = end - sample.scheduled;
                    (sample.dispatched, sample.done) = (end, sample.done + delay);
                }
            });
            backlog(&samples)
        };
        for seed in 0..10 {
            let (backlog, away) = stopped(50.0, seed);
            assert!(backlog.is_none() && away.is_none_or(|away| away.seconds > 0.9), "{away:?}");
        }
        assert!((0..10).any(|seed| stopped(50.0, seed).1.is_some()), "the stop alone looks like an overload");
        let mut overloaded = queue(150.0, 100.0, 3000, 1);
        overloaded.change(|samples| samples[2000].dispatched += 0.4);
        assert!(backlog(&overloaded).0.is_some(), "one late request explains no backlog of hundreds");
    }

    #[test]
    fn a_warm_up_is_truncated() {
        let mut samples = queue(50.0, 100.0, 2000, 3);
        samples.change(|samples| samples.iter_mut().take(100).for_each(|sample| sample.latency += 0.5));
        let steady = Steady::of(&paced(), &samples).unwrap();
        assert!(steady.reached && (90..=140).contains(&(2000 - steady.requests)), "{}", steady.requests);
        assert!(steady.e2el.mean_ms < 30.0 && steady.drift.is_none() && steady.backlog.is_none(), "{steady:?}");
    }

    #[test]
    fn latencies_that_only_rise_have_no_steady_state() {
        let steady = Steady::of(&paced(), &queue(130.0, 100.0, 2000, 3)).unwrap();
        assert!(steady.drift.is_some_and(|drift| drift > 0.1) && steady.backlog.is_some(), "{steady:?}");
        assert!(Steady::of(&paced(), &queue(50.0, 100.0, 40, 3)).is_none(), "too short to look");
    }

    #[test]
    fn even_latencies_lose_little_to_the_rule() {
        let cut = (0..20).map(|seed| 3000 - Steady::of(&paced(), &queue(50.0, 100.0, 3000, seed)).unwrap().requests);
        assert!(cut.sum::<usize>() < 20 * 500);
    }
}
