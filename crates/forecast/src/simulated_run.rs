//! Metrics of a simulated run.

use tacho_core::Timestamp;
use tacho_engine::simulation::{Arrival, Completion};
use tacho_metrics::percentile::percentile;
use tacho_record::RunRecord;

/// Times of one request, milliseconds.
#[derive(Debug, Clone, Copy)]
struct RequestTimes {
    ttft: f64,
    tpot: Option<f64>,
    e2el: f64,
    tokens: usize,
}

impl RequestTimes {
    fn new(ttft: f64, latency: f64, tokens: usize) -> Self {
        let tpot = (tokens > 1).then(|| (latency - ttft) / (tokens - 1) as f64 * 1e3);
        RequestTimes { ttft: ttft * 1e3, tpot, e2el: latency * 1e3, tokens }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct SimulatedRun {
    times: Vec<RequestTimes>,
    /// Duration in seconds.
    seconds: f64,
    /// Requests that can never run.
    pub(crate) rejected: usize,
    /// Increase of in-flight requests in the second half, as a fraction of its arrivals: above zero the queue grows.
    pub(crate) queue_growth: f64,
}

impl SimulatedRun {
    pub(crate) fn of_record(record: &RunRecord) -> Self {
        let samples = record.measured.samples.iter().filter(|sample| sample.success());
        let times =
            samples.map(|sample| RequestTimes::new(sample.ttft, sample.latency, sample.output_len as usize)).collect();
        SimulatedRun { times, seconds: record.measured.duration, rejected: 0, queue_growth: 0.0 }
    }

    /// A run of `plan` in parts, without the first `warmup` fraction of its requests, which fill an empty engine.
    /// Latencies count from the scheduled send time. Requests that repeat after `period` are in the same part.
    pub(crate) fn of_completions(
        arrivals: &[Arrival],
        completions: &[Completion],
        warmup: f64,
        (parts, period): (usize, usize),
    ) -> Vec<Self> {
        let first = (arrivals.len() as f64 * warmup) as usize;
        let kept = || arrivals.iter().zip(completions).skip(first);
        let times: Vec<(usize, RequestTimes)> = kept()
            .enumerate()
            .filter_map(|(at, (arrival, completion))| {
                let (start, last) = (arrival.due, *completion.tokens.last()?);
                let tokens = &completion.tokens;
                let times = RequestTimes::new(tokens[0].secs_since(start), last.secs_since(start), tokens.len());
                Some(((first + at) % period * parts / period, times))
            })
            .collect();
        let begin = kept().map(|(arrival, _)| arrival.due).min().unwrap_or_default();
        let end = kept().filter_map(|(_, completion)| completion.tokens.last()).max().copied().unwrap_or_default();
        let rejected = completions.iter().filter(|completion| completion.rejected.is_some()).count();
        let queue_growth = queue_growth(arrivals, completions);
        let all = times.len().max(1) as f64;
        let part = |part: usize| {
            let times: Vec<RequestTimes> = times.iter().filter(|one| one.0 == part).map(|one| one.1).collect();
            let seconds = end.secs_since(begin) * times.len() as f64 / all;
            SimulatedRun { times, seconds, rejected, queue_growth }
        };
        (0..parts).map(part).filter(|part| times.is_empty() || !part.times.is_empty()).collect()
    }

    /// A simulation whose latencies count from the actual send time.
    pub(crate) fn from_sent(completions: &[Completion]) -> Self {
        let one = |one: &Completion| {
            let (first, last) = (one.tokens.first()?, one.tokens.last()?);
            Some(RequestTimes::new(first.secs_since(one.sent), last.secs_since(one.sent), one.tokens.len()))
        };
        let begin = completions.iter().map(|one| one.sent).min().unwrap_or_default();
        let end = completions.iter().filter_map(|one| one.tokens.last()).max().copied().unwrap_or_default();
        let times = completions.iter().filter_map(one).collect();
        SimulatedRun { times, seconds: end.secs_since(begin), rejected: 0, queue_growth: 0.0 }
    }

    /// All requests of several runs.
    pub(crate) fn pooled<'r>(runs: impl IntoIterator<Item = &'r Self>) -> Self {
        let (mut count, mut all) =
            (0.0_f64, SimulatedRun { times: Vec::new(), seconds: 0.0, rejected: 0, queue_growth: 0.0 });
        for run in runs {
            all.times.extend_from_slice(&run.times);
            all.seconds += run.seconds;
            all.rejected = all.rejected.max(run.rejected);
            all.queue_growth += run.queue_growth;
            count += 1.0;
        }
        SimulatedRun { queue_growth: all.queue_growth / count.max(1.0), ..all }
    }

    /// The value of a metric such as `p99_ttft_ms` or `request_throughput`; `None` if the run does not have it.
    pub(crate) fn value(&self, metric: &str) -> Option<f64> {
        match metric {
            "request_throughput" => return Some(self.times.len() as f64 / self.seconds),
            "output_throughput" => {
                return Some(self.times.iter().map(|one| one.tokens as f64).sum::<f64>() / self.seconds);
            }
            _ => {}
        }
        let (statistic, mut values) = self.series(metric)?;
        let percent = match statistic {
            "mean" => return Some(values.iter().sum::<f64>() / values.len() as f64),
            "median" => 50.0,
            other => other.strip_prefix('p')?.parse().ok().filter(|percent| (0.0..=100.0).contains(percent))?,
        };
        values.sort_by(f64::total_cmp);
        Some(percentile(&values, percent))
    }

    /// The statistic of a metric, and the latencies in send order that it is of.
    fn series<'m>(&self, metric: &'m str) -> Option<(&'m str, Vec<f64>)> {
        let (statistic, family) = metric.strip_suffix("_ms")?.rsplit_once('_')?;
        let time = |one: &RequestTimes| match family {
            "ttft" => Some(one.ttft),
            "tpot" => one.tpot,
            "e2el" => Some(one.e2el),
            _ => None,
        };
        let values: Vec<f64> = self.times.iter().filter_map(time).collect();
        (!values.is_empty()).then_some((statistic, values))
    }

    /// What lies beyond `limit` of the latencies of a percentile; `None` for other metrics.
    pub(crate) fn tail(&self, metric: &str, limit: f64) -> Option<Tail> {
        let (statistic, values) = self.series(metric).filter(|(statistic, _)| *statistic != "mean")?;
        debug_assert!(statistic == "median" || statistic.starts_with('p'));
        let mut sorted = values.clone();
        sorted.sort_by(f64::total_cmp);
        let middle = percentile(&sorted, 50.0).min(limit);
        let (mut beyond, mut bursts, mut in_burst) = (0, 0, false);
        for value in &values {
            if *value > limit {
                beyond += 1;
                bursts += usize::from(!in_burst);
            }
            in_burst = *value > limit || in_burst && *value > middle;
        }
        // Half a request, so that an empty tail has a share.
        Some(Tail { share: (beyond as f64).max(0.5) / values.len() as f64, bursts: (bursts as f64).max(1.0) })
    }
}

/// The latencies beyond a limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Tail {
    /// Their fraction of all.
    pub(crate) share: f64,
    /// How often they occur: a burst ends at a request below the median.
    pub(crate) bursts: f64,
}

fn queue_growth(arrivals: &[Arrival], completions: &[Completion]) -> f64 {
    let mut due: Vec<Timestamp> = arrivals.iter().map(|arrival| arrival.due).collect();
    due.sort();
    let (Some(&middle), Some(&last)) = (due.get(due.len() / 2), due.last()) else { return 0.0 };
    let in_flight = |now: Timestamp| {
        let is_open = |(arrival, completion): &(&Arrival, &Completion)| {
            arrival.due <= now && completion.tokens.last().is_some_and(|end| *end > now)
        };
        arrivals.iter().zip(completions).filter(is_open).count() as f64
    };
    (in_flight(last) - in_flight(middle)) / (due.len() / 2).max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(latencies_ms: &[u64]) -> SimulatedRun {
        let arrival =
            |at: usize| Arrival { due: Timestamp(at as u64 * 1_000_000), prompt: [1].into(), output: 3, priority: 0 };
        let arrivals: Vec<Arrival> = (0..latencies_ms.len()).map(arrival).collect();
        let completion = |(arrival, latency): (&Arrival, &u64)| Completion {
            sent: arrival.due,
            tokens: [latency / 2, latency * 3 / 4, *latency].map(|ms| Timestamp(arrival.due.0 + ms * 1_000_000)).into(),
            rejected: None,
        };
        let completions: Vec<Completion> = arrivals.iter().zip(latencies_ms).map(completion).collect();
        SimulatedRun::pooled(&SimulatedRun::of_completions(&arrivals, &completions, 0.0, (2, arrivals.len())))
    }

    #[test]
    fn metrics_count_from_the_scheduled_time() {
        let run = run(&[40, 40, 40, 80]);
        assert_eq!((run.value("mean_ttft_ms"), run.value("p100_e2el_ms")), (Some(25.0), Some(80.0)));
        assert_eq!((run.value("median_tpot_ms"), run.value("p99_itl_ms")), (Some(10.0), None));
        assert!((run.value("output_throughput").unwrap() - 12.0 / 0.083).abs() < 1e-9);
    }

    #[test]
    fn a_growing_queue_is_seen() {
        assert!(run(&(0..100).map(|at| 2 * at).collect::<Vec<_>>()).queue_growth > 0.5);
        assert!(run(&[4; 100]).queue_growth.abs() < 0.02);
    }
}
