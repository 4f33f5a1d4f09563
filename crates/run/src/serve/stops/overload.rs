//! `--stop-on-overload`: requests arrive faster than the server completes them, so that the queueing delay grows with
//! the length of the run and latencies are undefined.
//!
//! The backlog is the number of scheduled requests that are not complete. Divided by the arrival rate, it is the time
//! that a request spends in the system (Little's law), even if the rate changes. If the server keeps up, that time is
//! constant once the first responses are complete, and at a high load it wanders. A run is overloaded if it grows by
//! more than a queue in balance wanders: by a t-test of the growth in equal parts of the observed time.

use std::{ops::Range, sync::Arc};

use tacho_core::{Observation, Timestamp};
use tacho_loadgen::Timeline;

use super::Rule;

const SAMPLE_SECONDS: f64 = 0.5;
/// Least samples of a verdict: ten seconds.
const MIN_SAMPLES: usize = 20;
/// Mean latencies that must pass before the first sample, of the requests sent in the first second: those of later ones
/// grow with the queue.
const SETTLING_LATENCIES: f64 = 3.0;
const EARLY_SECONDS: f64 = 1.0;
/// Least growth of the time in the system from the first to the last third, as a factor and in seconds.
const GROWTH: f64 = 1.5;
const GROWTH_S: f64 = 0.5;
/// Parts of the observed time whose growth is compared, and the least t of their mean. It is high because the rule is
/// applied twice a second: a queue exactly at capacity passes it in few runs.
const PARTS: usize = 10;
const MIN_T: f64 = 5.0;
/// Least growth in the last parts, as a fraction of that in the first: a queue that fills to a new level grows less and
/// less.
const MIN_LATER: f64 = 0.5;

/// Few failures leave the queue like completions. Above this failure rate the server rejects what it cannot serve, so
/// that failed requests count as not completed.
const MAX_FAILED: f64 = 0.1;

pub(super) struct Overload {
    releases: Arc<[f64]>,
    finished: usize,
    failed: usize,
    first_sent: Option<Timestamp>,
    /// The number of finished requests that were sent early, and the sum of their latencies.
    early: (usize, f64),
    /// Requests scheduled and backlog at each sample.
    samples: Vec<(usize, usize)>,
    next_sample: f64,
}

impl Overload {
    pub(super) fn new(timeline: &Timeline) -> Self {
        // Requests that are all scheduled at once form a queue from the start, which is not an overload.
        let releases = if timeline.is_at_once() { [].into() } else { timeline.eligible() };
        Overload {
            releases,
            finished: 0,
            failed: 0,
            first_sent: None,
            early: (0, 0.0),
            samples: Vec::new(),
            next_sample: SAMPLE_SECONDS,
        }
    }

    fn sample(&mut self, seconds: f64) {
        let due = self.releases.partition_point(|&release| release <= seconds);
        let (early, latency_sum) = self.early;
        let settled = early > 0 && seconds > SETTLING_LATENCIES * latency_sum / early as f64;
        // After the last arrival the backlog can only shrink.
        if settled && due < self.releases.len() {
            let is_failing = self.failed as f64 > MAX_FAILED * self.finished as f64;
            let answered = if is_failing { self.finished - self.failed } else { self.finished };
            self.samples.push((due, due.saturating_sub(answered)));
        }
    }

    fn grows(&self) -> bool {
        let count = self.samples.len();
        if count < MIN_SAMPLES {
            return false;
        }
        let third = count / 3;
        let (first, last) = (self.wait(0..third), self.wait(count - third..count));
        let is_large = last > first * GROWTH && last > first + GROWTH_S;
        is_large && self.grows_steadily()
    }

    /// Mean time in the system over a range of samples.
    fn wait(&self, range: Range<usize>) -> f64 {
        let samples = &self.samples[range];
        let arrived = samples[samples.len() - 1].0 - samples[0].0;
        let backlog: usize = samples.iter().map(|(_, backlog)| backlog).sum();
        let seconds = SAMPLE_SECONDS * (samples.len() - 1) as f64;
        backlog as f64 / samples.len() as f64 * seconds / arrived.max(1) as f64
    }

    /// Whether the backlog grows in all parts of the time by more than they differ.
    fn grows_steadily(&self) -> bool {
        let part = (self.samples.len() - 1) / PARTS;
        let backlog = |parts_ago: usize| self.samples[self.samples.len() - 1 - parts_ago * part].1 as f64;
        let growth: [f64; PARTS] = std::array::from_fn(|at| backlog(PARTS - at - 1) - backlog(PARTS - at));
        let (earlier, later) = growth.split_at(PARTS / 2);
        let (earlier, later): (f64, f64) = (earlier.iter().sum(), later.iter().sum());
        let mean = (earlier + later) / PARTS as f64;
        let squares: f64 = growth.iter().map(|one| (one - mean).powi(2)).sum();
        let error = (squares / (PARTS * (PARTS - 1)) as f64).sqrt();
        mean > MIN_T * error && later > MIN_LATER * earlier
    }
}

impl Rule for Overload {
    fn rows(&mut self, rows: &[Observation]) {
        self.finished += rows.len();
        self.failed += rows.iter().filter(|row| row.outcome.is_fault()).count();
        for row in rows {
            let first = *self.first_sent.get_or_insert(row.sent);
            if row.sent.secs_since(first) < EARLY_SECONDS {
                self.early = (self.early.0 + 1, self.early.1 + latency(row));
            }
        }
    }

    fn is_broken(&mut self, seconds: f64) -> bool {
        // A client that was away has left a backlog of its own: the observation starts anew.
        if seconds > self.next_sample + 2.0 * SAMPLE_SECONDS {
            self.samples.clear();
            self.next_sample = seconds;
        }
        while self.next_sample <= seconds {
            self.sample(self.next_sample);
            self.next_sample += SAMPLE_SECONDS;
        }
        self.grows()
    }
}

/// Latency from the send time, so that a queue in the client does not delay the first sample indefinitely.
fn latency(row: &Observation) -> f64 {
    row.done.max(Timestamp(row.sent.0)).secs_since(row.sent)
}

#[cfg(test)]
mod tests {
    use std::{collections::VecDeque, time::Duration};

    use tacho_core::{FailureKind, Outcome};
    use tacho_loadgen::ScheduleSpec;
    use tacho_pyrand::RandomState;

    use super::*;

    /// The second at which the rule detects an overload, for a server with this capacity in requests per second and
    /// this latency.
    fn found(schedule: &ScheduleSpec, count: usize, capacity: f64, latency: f64) -> Option<f64> {
        let timeline = schedule.plan(count, &mut RandomState::new(1)).unwrap();
        found_in(&timeline, queue(&timeline, 1, latency, || 1.0 / capacity))
    }

    /// When each request is due and ends, for servers with a common queue.
    fn queue(timeline: &Timeline, servers: usize, latency: f64, mut service: impl FnMut() -> f64) -> Vec<(f64, f64)> {
        let mut free = vec![0.0_f64; servers];
        let end = |&due: &f64| {
            let next = free.iter_mut().min_by(|a, b| a.total_cmp(b)).unwrap();
            *next = next.max(due) + service();
            (due, *next + latency)
        };
        timeline.eligible().iter().map(end).collect()
    }

    /// The same for an engine that generates a token of each request in its batch per step; a step takes longer for more.
    fn engine(timeline: &Timeline, batch: usize, mut tokens: impl FnMut() -> usize) -> Vec<(f64, f64)> {
        let due = timeline.eligible();
        let (mut now, mut next, mut running, mut ends) = (0.0_f64, 0, Vec::<(f64, usize)>::new(), Vec::new());
        while next < due.len() || !running.is_empty() {
            if running.is_empty() {
                now = now.max(due[next]);
            }
            while next < due.len() && due[next] <= now && running.len() < batch {
                running.push((due[next], tokens()));
                next += 1;
            }
            now += STEP + STEP_PER_REQUEST * running.len() as f64;
            running.retain_mut(|(due, left)| {
                *left -= 1;
                if *left == 0 {
                    ends.push((*due, now));
                }
                *left > 0
            });
        }
        ends
    }

    /// Seconds of a step of the engine.
    const STEP: f64 = 0.02;
    const STEP_PER_REQUEST: f64 = 0.0005;

    fn found_in(timeline: &Timeline, mut ends: Vec<(f64, f64)>) -> Option<f64> {
        let mut rule = Overload::new(timeline);
        ends.sort_by(|a, b| a.1.total_cmp(&b.1));
        let mut ends = VecDeque::from(ends);
        for tick in 1..4 * 200 {
            let seconds = f64::from(tick) * 0.25;
            let mut rows = Vec::new();
            while let Some((due, end)) = ends.pop_front_if(|(_, end)| *end <= seconds) {
                let sent = Timestamp::from_secs(due);
                let done = sent + Duration::from_secs_f64(end - due);
                rows.push(Observation { sent, done, ..Observation::dispatched(0, sent, sent) });
            }
            rule.rows(&rows);
            if rule.is_broken(seconds) {
                return Some(seconds);
            }
        }
        None
    }

    fn poisson(rate: f64) -> ScheduleSpec {
        ScheduleSpec::Rate { rate, burstiness: 1.0 }
    }

    #[test]
    fn a_server_that_keeps_up_is_not_overloaded() {
        assert_eq!(found(&poisson(20.0), 2000, 30.0, 0.2), None);
        assert_eq!(found(&poisson(20.0), 2000, 30.0, 12.0), None, "long answers are no backlog");
        assert_eq!(found(&poisson(20.0), 2000, 21.5, 0.2), None, "nor is a busy server");
    }

    #[test]
    fn a_server_that_does_not_is_found_within_half_a_minute() {
        for (rate, capacity) in [(30.0, 20.0), (100.0, 60.0), (40.0, 30.0)] {
            let seconds = found(&poisson(rate), 6000, capacity, 0.2).expect("it is overloaded");
            assert!(seconds < 30.0, "{rate} on {capacity}: {seconds}");
        }
        // Latencies that grow by three quarters of the time that passes.
        let seconds = found(&poisson(80.0), 6000, 20.0, 4.0).expect("it is overloaded");
        assert!(seconds < 45.0, "{seconds}");
    }

    /// The seconds at which an overload is found in 20 runs of four kinds of servers, at a load relative to capacity.
    fn found_at(load: f64) -> [Vec<f64>; 4] {
        // The engine serves 16 requests of 64 tokens at once.
        let rates = [20.0, 100.0, 20.0, 16.0 / 64.0 / (STEP + 16.0 * STEP_PER_REQUEST)];
        std::array::from_fn(|server| {
            let rate = load * rates[server];
            let run = |seed| {
                let random = &mut RandomState::new(seed);
                let timeline = poisson(rate).plan((rate * 200.0) as usize, random).unwrap();
                let ends = match server {
                    0 | 1 => queue(&timeline, 1, 0.2, || 1.0 / rates[server]),
                    2 => queue(&timeline, 8, 0.2, || random.standard_exponential() * 8.0 / rates[server]),
                    _ => engine(&timeline, 16, || 1 + (random.standard_exponential() * 63.5) as usize),
                };
                found_in(&timeline, ends)
            };
            (0..20).filter_map(run).collect()
        })
    }

    #[test]
    fn a_queue_that_only_wanders_is_no_overload() {
        for load in [0.90, 0.93, 0.97] {
            let found = found_at(load);
            assert!(found.iter().all(|runs| runs.len() <= 1), "{load}: {found:?}");
        }
    }

    #[test]
    fn an_overload_is_always_found() {
        for (load, limit) in [(1.3, 150.0), (2.0, 60.0)] {
            let found = found_at(load);
            let last = |runs: &Vec<f64>| runs.iter().copied().fold(0.0, f64::max);
            assert!(found.iter().all(|runs| runs.len() == 20 && last(runs) < limit), "{load}: {found:?}");
        }
    }

    #[test]
    fn failed_requests_are_not_completed() {
        let timeline = poisson(100.0).plan(6000, &mut RandomState::new(1)).unwrap();
        // Each fails or completes at once: there is no queue.
        let watched = |failing: usize| {
            let mut rule = Overload::new(&timeline);
            let releases = timeline.eligible();
            let mut releases = releases.iter().copied().enumerate().peekable();
            (1..200).map(|tick| f64::from(tick) * 0.25).any(|seconds| {
                let mut rows = Vec::new();
                while let Some((at, due)) = releases.next_if(|(_, due)| *due <= seconds) {
                    let sent = Timestamp::from_secs(due);
                    let outcome = Outcome::failed(FailureKind::Http(503), "busy");
                    let row = Observation { sent, done: sent, ..Observation::dispatched(0, sent, sent) };
                    rows.push(if at % 100 < failing { Observation { outcome, ..row } } else { row });
                }
                rule.rows(&rows);
                rule.is_broken(seconds)
            })
        };
        assert!(watched(60) && watched(100), "a server that refuses most is overloaded");
        assert!(!watched(0) && !watched(5), "one that fails now and then is not");
    }

    /// A client that is stopped sends nothing and sees nothing end; afterwards it sends all that is due.
    #[test]
    fn a_client_that_was_stopped_is_not_an_overloaded_server() {
        let timeline = poisson(20.0).plan(2000, &mut RandomState::new(1)).unwrap();
        let (stopped, goes_on, capacity) = (14.0, 22.0, 25.0);
        let mut rule = Overload::new(&timeline);
        let mut free = 0.0_f64;
        let end = |&due: &f64| {
            let sent = if (stopped..goes_on).contains(&due) { goes_on } else { due };
            free = free.max(sent) + 1.0 / capacity;
            (sent, free + 0.2)
        };
        let mut ends: VecDeque<(f64, f64)> = timeline.eligible().iter().map(end).collect();
        for seconds in (1..120).map(|tick| f64::from(tick) * 0.25).filter(|at| !(stopped..goes_on).contains(at)) {
            let mut rows = Vec::new();
            while let Some((sent, end)) = ends.pop_front_if(|(_, end)| *end <= seconds) {
                let (sent, done) = (Timestamp::from_secs(sent), Timestamp::from_secs(end));
                rows.push(Observation { sent, done, ..Observation::dispatched(0, sent, sent) });
            }
            rule.rows(&rows);
            assert!(!rule.is_broken(seconds), "{seconds}");
        }
    }

    #[test]
    fn a_burst_is_not_an_overload() {
        assert_eq!(found(&poisson(f64::INFINITY), 2000, 20.0, 0.2), None);
    }
}
