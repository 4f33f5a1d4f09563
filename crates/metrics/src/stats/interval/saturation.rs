//! Signs that a server was close to its capacity. Its queue then comes and goes more slowly than a run lasts: a run that
//! missed the long queues cannot bound its latencies from above, and nothing else in it shows that.

use super::rows::{Row, Rows, all, values};
use crate::statistics::{Statistic, mean, standard_deviation};

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
/// The same for percentiles of the TTFT above the median, with a fixed number of slots.
const MIN_TTFT_RELAXATIONS: f64 = 80.0;
/// Least part of a run in which all slots were taken; the slots are the most requests that were answered at once for the second
/// part.
const MIN_TAKEN: f64 = 0.1;
const MIN_ANSWERED: f64 = 0.01;
/// Least TTFT of requests that arrive when all slots are taken over that of the others.
const MIN_WAIT: f64 = 1.5;
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

/// Signs of few queues in a run, and with them which latencies it does not bound from above.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FewQueues {
    /// The effective sample size of the mean TTFT.
    pub effective: f64,
    /// Whether that is too small for any of its latencies.
    pub is_short: bool,
    /// Whether a few queues dominate the mean.
    is_rare: bool,
    /// Whether the slots of the server were taken for most of a run that is too short for that.
    is_busy: bool,
}

impl FewQueues {
    /// Whether the run bounds a statistic from above.
    pub fn bounds(&self, statistic: Statistic) -> bool {
        match statistic {
            Statistic::Percentile(..=50.0) => !self.is_short,
            Statistic::Percentile(..=90.0) => !self.is_short && !self.is_busy,
            Statistic::Percentile(_) => false,
            Statistic::Mean | Statistic::Deviation => !self.is_short && !self.is_rare,
        }
    }
}

/// Looks for few queues in a run: the effective sample size of the TTFT is small, or a few queues dominate its mean. A
/// server that runs a fixed number of requests at once is as fast as an idle one until all slots are taken, so that
/// [`Saturation`] does not see its queues. For E2EL they count where they are a good part of its error, for goodput always.
pub fn few_queues(rows: &impl Rows, family: &str) -> Option<FewQueues> {
    if rows.of_sessions() || rows.count() < MIN_REQUESTS {
        return None;
    }
    let found = values(rows, "ttft")?.accuracy();
    if family.starts_with("e2el") && found.error < MIN_PART * values(rows, family)?.accuracy().error {
        return None;
    }
    let is_short = found.is_short(MIN_QUEUES);
    let bursts = found.correlation > MIN_BURSTS && found.dominant < MIN_DOMINANT;
    let is_rare = bursts || rows.paced() && found.dominant < MIN_SINGLE;
    let min = if family.starts_with("ttft") { MIN_TTFT_RELAXATIONS } else { MIN_RELAXATIONS };
    let is_busy = rows.paced() && relaxations_of_slots(rows).is_some_and(|found| found < min);
    (is_short || is_rare || is_busy).then_some(FewQueues { effective: found.effective, is_short, is_rare, is_busy })
}

/// The length of a run in relaxation times of the queue M/G/c, if the server runs a fixed number of requests at once. They follow
/// from the load of its slots, which is known even if the run saw few queues. `None` where no slots are seen.
fn relaxations_of_slots(rows: &impl Rows) -> Option<f64> {
    let starts = last_of(rows, &|row| row.start)?;
    let ttfts = last_of(rows, &|row| row.ttft)?;
    let ends = last_of(rows, &|row| Some(row.start? + row.latency?))?;
    let firsts: Vec<f64> = starts.iter().zip(&ttfts).map(|(start, ttft)| start + ttft).collect();
    let (in_flight, answered) = (levels(&starts, &ends), levels(&firsts, &ends));
    let (taken, used) = (parts(&in_flight), parts(&answered));
    let slots = used.iter().rposition(|part| *part >= MIN_ANSWERED).filter(|slots| *slots > 0)?;
    let is_taken = |start: f64| in_flight[in_flight.partition_point(|(time, _)| *time < start).max(1) - 1].1 >= slots;
    let ttft = |taken: bool| {
        let of = starts.iter().zip(&ttfts).filter(|(start, _)| is_taken(**start) == taken);
        mean(&of.map(|(_, ttft)| *ttft).collect::<Vec<f64>>())
    };
    let alone = ttft(false);
    if taken.get(slots).is_none_or(|part| *part < MIN_TAKEN) || ttft(true) < MIN_WAIT * alone {
        return None;
    }
    let busy = taken[1..=slots].iter().sum::<f64>() / slots as f64;
    let services = firsts.iter().zip(&ends).map(|(first, end)| alone + end - first).collect::<Vec<f64>>();
    let varied = standard_deviation(&services) / mean(&services);
    Some(starts.len() as f64 * (1.0 - busy.sqrt()).powi(2) / busy * 2.0 / (1.0 + varied * varied))
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
    let levels = levels(arrivals, ends);
    let (mut area, mut level, mut last) = (0.0, 0.0, levels.first().map_or(0.0, |change| change.0));
    // Time, and up to it the request-seconds.
    let mut areas: Vec<(f64, f64, f64)> = Vec::with_capacity(levels.len());
    for (time, next) in levels {
        area += level * (time - last);
        (last, level) = (time, next as f64);
        areas.push((time, area, level));
    }
    let until = |time: f64| match areas.partition_point(|(before, ..)| *before <= time).checked_sub(1) {
        Some(at) => areas[at].1 + areas[at].2 * (time - areas[at].0),
        None => 0.0,
    };
    let others = |(from, to): (&f64, &f64)| (until(*to) - until(*from)) / (to - from).max(f64::MIN_POSITIVE) - 1.0;
    arrivals.iter().zip(ends).map(others).collect()
}

/// The times at which something starts or ends, in order, and how many run from then on.
fn levels(starts: &[f64], ends: &[f64]) -> Vec<(f64, usize)> {
    let mut changes: Vec<(f64, bool)> =
        starts.iter().map(|time| (*time, true)).chain(ends.iter().map(|time| (*time, false))).collect();
    // An end goes before a start at the same time.
    changes.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let mut level = 0_usize;
    let level = |(time, starts)| {
        level = if starts { level + 1 } else { level.saturating_sub(1) };
        (time, level)
    };
    changes.into_iter().map(level).collect()
}

/// The parts of the time with at least 0, 1, 2 … of them.
fn parts(levels: &[(f64, usize)]) -> Vec<f64> {
    let mut parts = vec![0.0; levels.iter().map(|(_, level)| level + 1).max().unwrap_or(0)];
    levels.windows(2).for_each(|pair| parts[pair[0].1] += pair[1].0 - pair[0].0);
    for level in (1..parts.len()).rev() {
        parts[level - 1] += parts[level];
    }
    let whole = parts.first().copied().unwrap_or(0.0);
    parts.into_iter().map(|part| part / whole).collect()
}

#[cfg(test)]
mod tests {
    use super::super::Recorded;
    use super::*;
    use crate::{Sample, Samples};

    #[test]
    fn requests_in_flight_are_averaged_over_a_request() {
        // The second is alone for a second of two, the first for one of two.
        assert_eq!(others_in_flight(&[0.0, 1.0], &[2.0, 3.0]), [0.5, 0.5]);
        assert_eq!(others_in_flight(&[0.0, 5.0], &[2.0, 6.0]), [0.0, 0.0]);
    }

    /// A server at which `slots` requests run at once, each for a random time of mean 1, and the first token takes 0.05.
    fn queue(slots: usize, load: f64, count: usize, is_constant: bool) -> Samples {
        let mut random = tacho_pyrand::Generator::new(3);
        let mut exponential = || -(1.0 - random.random()).ln();
        let (mut free, mut clock) = (vec![0.0_f64; slots], 0.0);
        let sample = |_| {
            clock += exponential() / load / slots as f64;
            let slot = free.iter_mut().min_by(|a, b| a.total_cmp(b)).unwrap();
            let begun = slot.max(clock);
            let service = if is_constant { 1.0 } else { exponential() };
            *slot = begun + service;
            let ttft = begun - clock + 0.05;
            Sample { scheduled: clock, sent: clock, ttft, latency: ttft + service, output_len: 2, ..Sample::default() }
        };
        (0..count).map(sample).collect::<Vec<_>>().into()
    }

    /// (1 − √0.8)² · 1500 / 0.8 = 20.9 relaxation times for exponential service, twice as many for constant.
    #[test]
    fn the_load_of_the_slots_tells_how_many_relaxation_times_a_run_has() {
        let found = |samples: Samples| relaxations_of_slots(&Recorded::of(&samples));
        let (random, constant) =
            (found(queue(8, 0.8, 1500, false)).unwrap(), found(queue(8, 0.8, 1500, true)).unwrap());
        assert!((13.0..30.0).contains(&random) && (30.0..52.0).contains(&constant), "{random} {constant}");
        // Nobody waits for a slot.
        assert_eq!(found(queue(2000, 0.004, 1500, false)), None);
        assert_eq!(found(queue(8, 0.1, 1500, false)), None);
        let bounds = |count: usize| {
            let few = few_queues(&Recorded::of(&queue(8, 0.7, count, false)), "ttft");
            [50.0, 90.0].map(|percent| few.is_none_or(|few| few.bounds(Statistic::Percentile(percent))))
        };
        assert_eq!((bounds(1800), bounds(9000)), ([true, false], [true, true]));
    }
}
