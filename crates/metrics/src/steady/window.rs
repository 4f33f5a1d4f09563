//! The steady state as vLLM's Rust client defines it: the time in which a closed-loop run was at its concurrency limit,
//! from the first time at which enough requests were in flight to the last.

use crate::latency::{collect_some, successes, tpot};
use crate::{Sample, Samples, Setup, Statistics, Task, concurrency::Changes, throughput::per_second};

/// Definition of full concurrency.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WindowRule {
    /// Fraction of the limit that must be in flight, above 0 and at most 1.
    pub threshold: f64,
    /// Seconds below which the window counts as short; by default a tenth of the run and at least ten.
    pub min: Option<f64>,
}

impl Default for WindowRule {
    fn default() -> Self {
        WindowRule { threshold: 0.95, min: None }
    }
}

/// Result of the search for the window.
#[derive(Debug, Clone, PartialEq)]
pub struct SteadyState {
    /// Whether it was requested by its flags.
    pub requested: bool,
    /// The window; `None` where full concurrency was never reached.
    pub window: Option<SteadyWindow>,
}

/// The window and its metrics. It is half open: its end is excluded.
#[derive(Debug, Clone, PartialEq)]
pub struct SteadyWindow {
    /// Its start, seconds after the first request was sent.
    pub start: f64,
    /// Its end.
    pub end: f64,
    /// The limit on requests in flight.
    pub target: u64,
    /// The rule's fraction of it.
    pub threshold: f64,
    /// The threshold as a number of requests.
    pub enough: u64,
    /// Peak requests in flight.
    pub peak: u64,
    /// Requests sent in it.
    pub started: usize,
    /// Requests that ended in it.
    pub completed: usize,
    /// Successes of the whole run.
    pub total: usize,
    /// The requested seconds, where it is shorter.
    pub short_of: Option<f64>,
    /// Requests that ended in it, per second.
    pub request_throughput: f64,
    /// Prompt tokens of those sent in it, per second.
    pub input_throughput: f64,
    /// Token events in it, per second.
    pub output_throughput: f64,
    /// Time to first token of requests sent in it; `None` for pooling.
    pub ttft: Option<Statistics>,
    /// Time per output token of requests sent in it.
    pub tpot: Option<Statistics>,
}

/// Percentiles of the time per output token.
const TPOT_PERCENTILES: [f64; 2] = [90.0, 99.0];

impl SteadyWindow {
    /// Returns whether a run can have a window: it has one limit, and no schedule.
    pub fn applies(setup: &Setup) -> bool {
        setup.max_concurrency.is_some() && !setup.is_paced() && setup.stages.is_empty()
    }

    /// The window of a run; `None` where full concurrency was never reached, or nothing started or ended meanwhile.
    pub fn of(setup: &Setup, rows: &Samples, duration: f64, rule: WindowRule) -> Option<Self> {
        let target = setup.max_concurrency.filter(|_| Self::applies(setup))?;
        let enough = ((rule.threshold * target as f64).ceil() as u64).max(1);
        let (from, to, peak) = full(rows, enough)?;
        let inside = |time: f64| from <= time && time < to;
        let seen = Seen::of(rows, &inside);
        if seen.started == 0 && seen.completed == 0 {
            return None;
        }
        let sent = |of: fn(&Sample) -> Option<f64>| collect_some(rows, |row| of(row).filter(|_| inside(row.sent)));
        let length = to - from;
        let min = rule.min.unwrap_or((duration / 10.0).max(10.0));
        let rate = |amount: f64| per_second(amount, length);
        let generates = setup.task == Task::Generation;
        Some(SteadyWindow {
            start: from - seen.first,
            end: to - seen.first,
            target,
            threshold: rule.threshold,
            enough,
            peak,
            started: seen.started,
            completed: seen.completed,
            total: seen.total,
            short_of: (length < min).then_some(min),
            request_throughput: rate(seen.completed as f64),
            input_throughput: rate(seen.input),
            output_throughput: rate(seen.events as f64),
            ttft: generates.then(|| Statistics::of(sent(|row| Some(row.ttft)), &setup.metric_percentiles)),
            tpot: generates.then(|| Statistics::of(sent(tpot), &TPOT_PERCENTILES)),
        })
    }

    /// Its length in seconds.
    pub fn seconds(&self) -> f64 {
        self.end - self.start
    }

    /// Prompt and output tokens per second.
    pub fn total_throughput(&self) -> f64 {
        self.input_throughput + self.output_throughput
    }

    /// A warning, if any.
    pub fn warning(&self) -> Option<String> {
        let min = self.short_of?;
        Some(format!("the window of {:.2} s is shorter than {min:.2} s: its numbers may be chance", self.seconds()))
    }
}

struct Seen {
    /// Send time of the first request.
    first: f64,
    total: usize,
    started: usize,
    completed: usize,
    input: f64,
    events: usize,
}

impl Seen {
    fn of(rows: &Samples, inside: &impl Fn(f64) -> bool) -> Self {
        let mut seen = Seen { first: f64::INFINITY, total: 0, started: 0, completed: 0, input: 0.0, events: 0 };
        for row in successes(rows) {
            seen.first = seen.first.min(row.sent);
            seen.total += 1;
            seen.completed += usize::from(inside(row.sent + row.latency));
            seen.events += events(&row, inside);
            if inside(row.sent) {
                seen.started += 1;
                seen.input += row.prompt_len as f64;
            }
        }
        seen
    }
}

/// The first time at which `enough` requests were in flight, the last time at which they ceased to be, and their peak.
fn full(rows: &Samples, enough: u64) -> Option<(f64, f64, u64)> {
    let (mut peak, mut from, mut to) = (0, None, None);
    let enough = i64::try_from(enough).unwrap_or(i64::MAX);
    let changes = Changes::of(rows.len(), successes(rows).map(|row| (row.sent, row.sent + row.latency)));
    changes.each(|time, before, count| {
        peak = peak.max(count);
        if count >= enough && from.is_none() {
            from = Some(time);
        }
        if before >= enough && count < enough {
            to = Some(time);
        }
    });
    from.zip(to).filter(|(from, to)| to > from).map(|(from, to)| (from, to, peak.max(0) as u64))
}

/// Number of token events of a request that satisfy `inside`.
fn events(row: &Sample, inside: &impl Fn(f64) -> bool) -> usize {
    if row.output_len == 0 {
        return 0;
    }
    let mut time = row.sent + row.ttft;
    let mut count = usize::from(inside(time));
    for gap in &row.itl {
        time += gap;
        count += usize::from(inside(time));
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(setup: &Setup, samples: Vec<Sample>, rule: WindowRule) -> Option<SteadyWindow> {
        SteadyWindow::of(setup, &samples.into(), 40.0, rule)
    }

    fn limited(limit: u64) -> Setup {
        Setup { max_concurrency: Some(limit), ..Setup::example() }
    }

    fn sample(sent: f64, latency: f64) -> Sample {
        Sample { scheduled: 0.0, dispatched: sent, sent, latency, done: sent + latency, ..Sample::default() }
    }

    const ALL: WindowRule = WindowRule { threshold: 1.0, min: None };

    #[test]
    fn the_window_is_from_the_first_full_time_to_the_last() {
        let mut samples: Vec<Sample> = (0..10).map(|at| sample(f64::from(at), 30.0)).collect();
        samples.push(sample(15.0, 5.0));
        let window = window(&limited(10), samples, ALL).unwrap();
        assert_eq!((window.start, window.end, window.peak, window.enough), (9.0, 30.0, 11, 10));
        assert_eq!((window.started, window.completed, window.total), (2, 1, 11));
        assert_eq!(window.short_of, None);
    }

    #[test]
    fn rates_count_the_half_open_window() {
        let one = Sample { ttft: 2.0, itl: vec![2.0; 4].into(), prompt_len: 10, output_len: 5, ..sample(0.0, 10.0) };
        let window = window(&limited(3), vec![one.clone(), one.clone(), one], ALL).unwrap();
        let rates = [window.output_throughput, window.input_throughput, window.request_throughput];
        assert_eq!(rates, [1.2, 3.0, 0.0]);
        assert_eq!((window.start, window.end), (0.0, 10.0));
        assert_eq!(window.tpot.as_ref().map(|tpot| tpot.mean_ms), Some(2000.0));
    }

    #[test]
    fn a_run_that_was_never_full_or_is_paced_has_none() {
        let samples = vec![sample(0.0, 1.0), sample(2.0, 1.0)];
        assert_eq!(window(&limited(4), samples.clone(), WindowRule::default()), None);
        let paced = Setup { request_rate: 5.0, ..limited(1) };
        assert_eq!(window(&paced, samples.clone(), WindowRule::default()), None);
        let short = window(&limited(1), samples, WindowRule::default()).unwrap();
        assert!(short.warning().is_some_and(|text| text.contains("3.00 s is shorter than 10.00 s")));
    }
}
