//! Signs that a server was close to its capacity. Its queue then comes and goes more slowly than a run lasts: a run that
//! missed the long queues cannot bound its latencies from above, and nothing else in it shows that.

use super::rows::{Row, Rows, all, values};
use crate::statistics::mean;

/// Latency at the run's load over latency at no load, from which a server counts as near saturation. Of a server that
/// shares its time among requests it is 1 / (1 − load): 74%.
const MIN_SLOWDOWN: f64 = 3.9;
/// Fewest relaxation times of the queue that a run must last. Both limits were chosen by `coverage.rs`.
const MIN_RELAXATIONS: f64 = 40.0;
/// Least effective sample size of the TTFT.
const MIN_QUEUES: f64 = 60.0;
/// Least number of twentieths of a run that dominate the variance of the mean TTFT, if its correlation exceeds the second.
const MIN_DOMINANT: f64 = 4.5;
const MIN_BURSTS: f64 = 1.5;
/// Least number of such twentieths of a run with scheduled arrivals, whatever the correlation: single requests that waited
/// dominate below it.
const MIN_SINGLE: f64 = 3.0;
/// Least part of the error of E2EL that the error of TTFT is, for queues to matter.
const MIN_PART: f64 = 0.3;
/// Fewest requests that are evaluated: the slope of fewer is noise.
const MIN_REQUESTS: usize = 50;
/// Most requests that are evaluated, the last ones of the run: this bounds the memory of a long run.
const MAX_REQUESTS: usize = 20_000;

/// How close a server was to saturation, in a run that is too short for that.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Saturation {
    /// Mean latency over the latency without other requests.
    pub slowdown: f64,
    /// The length of the run in relaxation times of the queue, mean latency times slowdown.
    pub relaxations: f64,
}

impl Saturation {
    /// Looks for it in a run whose arrivals were scheduled. `None` where the run can bound its latencies, or lacks the
    /// times.
    pub fn of(rows: &impl Rows) -> Option<Self> {
        if !rows.paced() || rows.of_sessions() || rows.count() < MIN_REQUESTS {
            return None;
        }
        let arrival = |row: &Row<'_>| Some(row.start? - row.delay.unwrap_or(0.0));
        let (arrivals, ends) = (last_of(rows, &arrival)?, last_of(rows, &|row| Some(row.start? + row.latency?))?);
        let (latencies, others) = (latencies(rows)?, others_in_flight(&arrivals, &ends));
        let (latency, load) = (mean(&latencies), mean(&others));
        let squares: f64 = others.iter().map(|other| (other - load).powi(2)).sum();
        let products: f64 = others.iter().zip(&latencies).map(|(other, one)| (other - load) * (one - latency)).sum();
        let alone = latency - load * products / squares;
        // Latencies that grow faster than the load leave nothing for a request that is alone.
        let slowdown = if alone > 0.0 { latency / alone } else { f64::INFINITY };
        let (mut first, mut last) = (f64::INFINITY, f64::NEG_INFINITY);
        all(rows, |_, row| arrival(row).map(|time| (first, last) = (first.min(time), last.max(time))))?;
        let relaxations = (last - first) / latency / slowdown;
        (slowdown > MIN_SLOWDOWN && relaxations < MIN_RELAXATIONS).then_some(Saturation { slowdown, relaxations })
    }
}

/// Which latencies a run with few queues does not bound from above.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FewQueues {
    /// The effective sample size of the mean TTFT.
    pub effective: f64,
    /// Whether only means and percentiles of the tail depend on the queues.
    pub tail_only: bool,
}

/// Looks for few queues in a run: the effective sample size of the TTFT is small, or a few queues dominate its mean. A
/// server that runs a fixed number of requests at once is as fast as an idle one until all slots are taken, so that
/// [`Saturation`] does not see its queues. For E2EL they count where they are a good part of its error.
pub fn few_queues(rows: &impl Rows, family: &str) -> Option<FewQueues> {
    if rows.of_sessions() || rows.count() < MIN_REQUESTS {
        return None;
    }
    let found = values(rows, "ttft")?.accuracy();
    if family.starts_with("e2el") && found.error < MIN_PART * values(rows, family)?.accuracy().error {
        return None;
    }
    let short = found.is_short(MIN_QUEUES);
    let bursts = found.correlation > MIN_BURSTS && found.dominant < MIN_DOMINANT;
    let rare = bursts || rows.paced() && found.dominant < MIN_SINGLE;
    (short || rare).then_some(FewQueues { effective: found.effective, tail_only: !short })
}

/// Latency of each request from its scheduled time, as if all had the mean output length.
fn latencies(rows: &impl Rows) -> Option<Vec<f64>> {
    let decoded = |output: f64| output - 1.0;
    let lengths = last_of(rows, &|row| row.output);
    let length = lengths.map_or(0.0, |lengths| decoded(mean(&lengths)));
    last_of(rows, &|row| {
        let latency = row.latency?;
        let several = row.output.map(decoded).filter(|left| *left > 0.0).zip(row.ttft);
        let scaled = several.map_or(latency, |(left, ttft)| ttft + (latency - ttft) / left * length);
        Some(row.delay.unwrap_or(0.0) + scaled)
    })
}

/// A value of each of the last requests, in send order; `None` if one is missing.
fn last_of(rows: &impl Rows, of: &dyn Fn(&Row<'_>) -> Option<f64>) -> Option<Vec<f64>> {
    let skipped = rows.count().saturating_sub(MAX_REQUESTS);
    let mut values = vec![0.0; rows.count() - skipped];
    all(rows, |index, row| {
        if let Some(value) = index.checked_sub(skipped).and_then(|at| values.get_mut(at)) {
            *value = of(row)?;
        }
        Some(())
    })?;
    Some(values)
}

/// The mean number of other requests in flight during each request.
fn others_in_flight(arrivals: &[f64], ends: &[f64]) -> Vec<f64> {
    let changes = arrivals.iter().map(|time| (*time, 1.0)).chain(ends.iter().map(|time| (*time, -1.0)));
    let mut changes: Vec<(f64, f64)> = changes.collect();
    changes.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let (mut area, mut level, mut last) = (0.0, 0.0, changes.first().map_or(0.0, |change| change.0));
    // Time, and up to it the request-seconds.
    let mut areas: Vec<(f64, f64, f64)> = Vec::with_capacity(changes.len());
    for (time, change) in changes {
        area += level * (time - last);
        (last, level) = (time, level + change);
        areas.push((time, area, level));
    }
    let until = |time: f64| match areas.partition_point(|(before, ..)| *before <= time).checked_sub(1) {
        Some(at) => areas[at].1 + areas[at].2 * (time - areas[at].0),
        None => 0.0,
    };
    let others = |(from, to): (&f64, &f64)| (until(*to) - until(*from)) / (to - from).max(f64::MIN_POSITIVE) - 1.0;
    arrivals.iter().zip(ends).map(others).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_in_flight_are_averaged_over_a_request() {
        // The second is alone for a second of two, the first for one of two.
        assert_eq!(others_in_flight(&[0.0, 1.0], &[2.0, 3.0]), [0.5, 0.5]);
        assert_eq!(others_in_flight(&[0.0, 5.0], &[2.0, 6.0]), [0.0, 0.0]);
    }
}
