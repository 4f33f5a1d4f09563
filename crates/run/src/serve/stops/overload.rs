//! `--stop-on-overload`: requests arrive faster than the server completes them, so that the queueing delay grows with
//! the length of the run and latencies are undefined.
//!
//! The backlog is the number of scheduled requests that are not complete. Divided by the arrival rate, it is the time
//! that a request spends in the system (Little's law), even if the rate changes. If the server keeps up, that time is
//! constant once the first responses are complete. A run is overloaded if it grows from each third of the observed
//! time to the next.

use std::{collections::VecDeque, sync::Arc};

use tacho_core::{Observation, Timestamp};
use tacho_loadgen::Timeline;

use super::Rule;

const SAMPLE_SECONDS: f64 = 0.5;
/// Number of samples over which arrivals are averaged.
const WINDOW: usize = 10;
/// Least samples of a verdict: ten seconds.
const MIN_SAMPLES: usize = 20;
/// Mean latencies that must pass before the first sample, of the requests sent in the first second: those of later ones
/// grow with the queue.
const SETTLING_LATENCIES: f64 = 3.0;
const EARLY_SECONDS: f64 = 1.0;
/// Least growth of the time in the system, as a factor and in seconds.
const GROWTH: f64 = 1.5;
const GROWTH_S: f64 = 0.5;

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
    /// Requests scheduled by the last samples.
    due: VecDeque<usize>,
    /// Time in the system at each sample.
    waits: Vec<f64>,
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
            due: VecDeque::new(),
            waits: Vec::new(),
            next_sample: SAMPLE_SECONDS,
        }
    }

    fn sample(&mut self, seconds: f64) {
        let due = self.releases.partition_point(|&release| release <= seconds);
        self.due.push_back(due);
        if self.due.len() > WINDOW {
            self.due.pop_front();
        }
        let arrived = due - self.due.front().copied().unwrap_or(due);
        let rate = arrived as f64 / (SAMPLE_SECONDS * (self.due.len() - 1).max(1) as f64);
        let (early, latency_sum) = self.early;
        let settled = early > 0 && seconds > SETTLING_LATENCIES * latency_sum / early as f64;
        // After the last arrival the backlog can only shrink.
        if settled && rate > 0.0 && due < self.releases.len() {
            self.waits.push(due.saturating_sub(self.answered()) as f64 / rate);
        }
    }

    fn answered(&self) -> usize {
        if self.failed as f64 > MAX_FAILED * self.finished as f64 { self.finished - self.failed } else { self.finished }
    }

    fn grows(&self) -> bool {
        let third = self.waits.len() / 3;
        if self.waits.len() < MIN_SAMPLES {
            return false;
        }
        let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
        let (first, middle, last) =
            (mean(&self.waits[..third]), mean(&self.waits[third..2 * third]), mean(&self.waits[2 * third..]));
        first < middle && middle < last && last > first * GROWTH && last > first + GROWTH_S
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
            self.due.clear();
            self.waits.clear();
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
    use std::time::Duration;

    use tacho_core::{FailureKind, Outcome};
    use tacho_loadgen::ScheduleSpec;
    use tacho_pyrand::RandomState;

    use super::*;

    /// The second at which the rule detects an overload, for a server with this capacity in requests per second and
    /// this latency.
    fn found(schedule: &ScheduleSpec, count: usize, capacity: f64, latency: f64) -> Option<f64> {
        let timeline = schedule.plan(count, &mut RandomState::new(1)).unwrap();
        let mut rule = Overload::new(&timeline);
        let mut free = 0.0_f64;
        let mut ends: VecDeque<(f64, f64)> = VecDeque::new();
        for &due in &*timeline.eligible() {
            free = free.max(due) + 1.0 / capacity;
            ends.push_back((due, free + latency));
        }
        for tick in 1..4 * 200 {
            let seconds = f64::from(tick) * 0.25;
            let mut rows = Vec::new();
            while ends.front().is_some_and(|(_, end)| *end <= seconds) {
                let (due, end) = ends.pop_front().unwrap();
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
