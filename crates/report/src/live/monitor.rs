//! The state of a running benchmark for live views. The monitor takes the events of a run, reads the counters on every tick,
//! and keeps the history of rates and latencies. It never touches the workers.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tacho_core::live::{Histogram, LiveMetrics, LoadTitle, Output};
use tacho_core::{Counters, EventSink, Mutex, RunEvent, StageSpan, Work};

use crate::{sentence, style::harmless_line};

/// Most points of a history; a longer run keeps every second one, and so on.
const MAX_POINTS: usize = 600;
const MAX_LINES: usize = 50;
const MAX_LINE: usize = 400;
/// Seconds between two points of a new history.
const STEP_SECONDS: f64 = 0.5;
/// Seconds over which the target rate is counted: random arrivals vary from one interval to the next.
const TARGET_SECONDS: f64 = 5.0;
/// Seconds of the moving mean of rates: a rate of one interval jumps.
const MEAN_SECONDS: f64 = 10.0;

/// The latencies of a live view: their places in the arrays below, and their names.
pub(super) fn latencies(output: Output) -> &'static [(usize, &'static str)] {
    match output {
        Output::Tokens => &[(0, "TTFT"), (1, "TPOT"), (2, "ITL"), (3, "E2EL")],
        Output::Audio => &[(0, "TTFP"), (3, "E2EL")],
        Output::Whole => &[(3, "E2EL")],
    }
}

/// Median, 90th and 99th percentile, in milliseconds.
pub type Percentiles = [f64; 3];

/// Rates and latencies of one interval of the history.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Point {
    /// The end of the interval, in seconds since the start.
    pub time: f64,
    pub requests_per_s: f64,
    pub target_per_s: Option<f64>,
    pub tokens_per_s: f64,
    pub in_flight: u64,
    /// Requests waiting for a concurrency slot.
    pub waiting: Option<u64>,
    /// Percentiles of the requests that finished in the interval.
    pub latency: [Option<Percentiles>; 4],
    /// Their counts per quarter octave; see [`Histogram::bands`].
    pub bands: [Vec<(u8, u64)>; 4],
}

impl Point {
    /// Two intervals as one: mean rates, largest percentiles, all counts.
    fn joined(&self, next: &Point) -> Point {
        let mean = |one: f64, other: f64| (one + other) / 2.0;
        let either = |one: Option<f64>, other: Option<f64>| match (one, other) {
            (Some(one), Some(other)) => Some(mean(one, other)),
            (one, other) => one.or(other),
        };
        let latency = |at: usize| match (self.latency[at], next.latency[at]) {
            (Some(one), Some(other)) => Some([mean(one[0], other[0]), one[1].max(other[1]), one[2].max(other[2])]),
            (one, other) => one.or(other),
        };
        let bands = |at: usize| {
            let mut sum: BTreeMap<u8, u64> = self.bands[at].iter().copied().collect();
            next.bands[at].iter().for_each(|(band, count)| *sum.entry(*band).or_default() += count);
            sum.into_iter().collect()
        };
        Point {
            time: next.time,
            requests_per_s: mean(self.requests_per_s, next.requests_per_s),
            target_per_s: either(self.target_per_s, next.target_per_s),
            tokens_per_s: mean(self.tokens_per_s, next.tokens_per_s),
            in_flight: self.in_flight.max(next.in_flight),
            waiting: self.waiting.max(next.waiting),
            latency: std::array::from_fn(latency),
            bands: std::array::from_fn(bands),
        }
    }
}

/// The state of a run at one time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Snapshot {
    pub phase: String,
    pub title: Arc<LoadTitle>,
    pub over: bool,
    /// Finished requests, or other pieces of work.
    pub finished: u64,
    /// How many there are in all; 0 if unknown.
    pub total: u64,
    /// Their rate's unit.
    pub unit: &'static str,
    pub failed: u64,
    pub in_flight: u64,
    pub tokens: u64,
    /// Seconds since the start of the phase.
    pub elapsed: f64,
    /// Estimated seconds to the end.
    pub left: Option<f64>,
    pub output: Output,
    pub stages: Arc<[StageSpan]>,
    /// Percentiles of all finished requests: TTFT or TTFP, TPOT, ITL, E2EL.
    pub latency: [Option<Percentiles>; 4],
    pub failures: BTreeMap<&'static str, u64>,
    pub history: Vec<Point>,
    /// Messages, the newest last.
    pub lines: Vec<String>,
    /// Requests waiting for a concurrency slot; none where there is no limit.
    pub waiting: Option<u64>,
    pub server: Vec<(&'static str, f64)>,
    /// How late the client sent, 99th percentile in milliseconds.
    pub late: Option<f64>,
    /// The phases around this one, outermost first: name, finished, total.
    pub outer: Vec<(&'static str, u64, u64)>,
}

impl Snapshot {
    /// Whether the client is late so far, by the bound of the verdict after a run.
    pub fn is_late(&self) -> bool {
        self.late.is_some_and(|late| late > 1.0)
    }

    /// The client's verdict so far, in words.
    pub fn verdict(&self) -> Option<String> {
        let late = self.late?;
        let word = if self.is_late() { "LATE" } else { "ok" };
        Some(format!("client {word}: sent p99 {late:.2} ms behind schedule"))
    }

    /// The mean of a rate over the last seconds of the history; none before its first point.
    pub fn mean(&self, of: impl Fn(&Point) -> Option<f64>) -> Option<f64> {
        let from = self.history.last()?.time - MEAN_SECONDS;
        let values: Vec<f64> = self.history.iter().rev().take_while(|point| point.time > from).filter_map(of).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    }
}

#[derive(Default)]
pub struct Monitor {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    work: Vec<Watched>,
    /// The last phase, which is shown after its end.
    last: Option<Watched>,
    lines: VecDeque<String>,
}

pub(super) struct Watched {
    work: Work,
    total: u64,
    counters: Arc<Counters>,
    began: Instant,
    ended: Option<Duration>,
    history: Vec<Point>,
    /// Seconds between two points of the history.
    step: f64,
    before: Before,
}

/// Counters at the last point of the history.
#[derive(Default)]
struct Before {
    time: f64,
    finished: u64,
    tokens: u64,
    latency: [Histogram; 4],
}

impl Monitor {
    /// Adds the next point of the history, if it is time for one.
    pub fn tick(&self) {
        if let Some(watched) = self.state.lock().work.last_mut() {
            watched.tick();
        }
    }

    pub fn say(&self, line: &str) {
        self.state.lock().say(line);
    }

    pub fn snapshot(&self) -> Snapshot {
        let state = self.state.lock();
        let mut snapshot = state.work.last().or(state.last.as_ref()).map(Watched::snapshot).unwrap_or_default();
        let outer = state.work.split_last().map_or(&[][..], |(_, outer)| outer);
        snapshot.outer = outer.iter().map(Watched::progress).collect();
        snapshot.lines = state.lines.iter().cloned().collect();
        snapshot
    }
}

impl EventSink for Monitor {
    fn event(&self, event: RunEvent) {
        let mut state = self.state.lock();
        match event {
            RunEvent::Status(note) => state.say(&sentence::of(&note)),
            RunEvent::Warning(note) => state.say(&format!("warning: {}", sentence::of(&note))),
            RunEvent::Started { work, total, counters } => state.work.push(Watched::new(work, total, counters)),
            RunEvent::Waiting { work, seconds } => state.work.push(Watched::new(work, seconds, Arc::default())),
            RunEvent::Finished => {
                if let Some(mut over) = state.work.pop() {
                    if over.history.is_empty() || over.elapsed() - over.before.time >= over.step / 2.0 {
                        over.point();
                    }
                    over.ended = Some(over.began.elapsed());
                    state.last = Some(over);
                }
            }
        }
    }
}

impl State {
    fn say(&mut self, text: &str) {
        let line = |line: &str| match line.char_indices().nth(MAX_LINE) {
            Some((end, _)) => harmless_line(&line[..end]) + "…",
            None => harmless_line(line),
        };
        self.lines.extend(text.lines().map(line));
        while self.lines.len() > MAX_LINES {
            self.lines.pop_front();
        }
    }
}

impl Watched {
    pub(super) fn new(work: Work, total: u64, counters: Arc<Counters>) -> Self {
        let (began, history, before) = (Instant::now(), Vec::new(), Before::default());
        Watched { work, total, counters, began, ended: None, history, step: STEP_SECONDS, before }
    }

    fn elapsed(&self) -> f64 {
        self.ended.unwrap_or_else(|| self.began.elapsed()).as_secs_f64()
    }

    fn tick(&mut self) {
        if self.elapsed() - self.before.time >= self.step {
            self.point();
        }
        if self.history.len() >= MAX_POINTS {
            self.halve();
        }
    }

    /// Adds what happened since the last point.
    fn point(&mut self) {
        let (time, then) = (self.elapsed(), self.before.time);
        if time <= then {
            return;
        }
        let (finished, _, tokens, in_flight) = self.counters.read();
        let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / (time - then);
        let board = self.counters.live.lock();
        let latency = histograms(&board).map(Clone::clone);
        let between: [Histogram; 4] = std::array::from_fn(|at| latency[at].since(&self.before.latency[at]));
        self.history.push(Point {
            time,
            requests_per_s: rate(finished, self.before.finished),
            target_per_s: board.target_rate((time - TARGET_SECONDS).clamp(0.0, then), time),
            tokens_per_s: rate(tokens, self.before.tokens),
            in_flight,
            waiting: board.waiting(time, finished + in_flight),
            latency: std::array::from_fn(|at| percentiles(&between[at])),
            bands: std::array::from_fn(|at| between[at].bands()),
        });
        drop(board);
        self.before = Before { time, finished, tokens, latency };
    }

    /// Joins points in pairs, so that a long run keeps its whole history.
    fn halve(&mut self) {
        let pair = |pair: &[Point]| match pair {
            [one, next] => one.joined(next),
            other => other.first().cloned().unwrap_or_default(),
        };
        self.history = self.history.chunks(2).map(pair).collect();
        self.step *= 2.0;
    }

    /// The phase, and how far it is.
    fn progress(&self) -> (&'static str, u64, u64) {
        let (_, size) = sentence::unit(self.work);
        (sentence::title(self.work), self.counters.read().0 / size, self.total / size)
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        let (_, failed, tokens, in_flight) = self.counters.read();
        let (phase, finished, total) = self.progress();
        let elapsed = self.elapsed();
        let left =
            (finished > 0 && total > 0).then(|| elapsed * total.saturating_sub(finished) as f64 / finished as f64);
        let board = self.counters.live.lock();
        Snapshot {
            phase: phase.to_owned(),
            title: board.title_at(elapsed),
            over: self.ended.is_some(),
            finished,
            total,
            unit: sentence::unit(self.work).0,
            failed,
            in_flight,
            tokens,
            elapsed,
            left,
            output: board.output,
            stages: board.stages.clone(),
            latency: histograms(&board).map(percentiles),
            failures: board.failures.clone(),
            history: self.history.clone(),
            lines: Vec::new(),
            waiting: board.waiting(elapsed, finished + in_flight).filter(|_| self.ended.is_none()),
            // Engines do not count requests for speech and images: their gauges stay at 0.
            server: match board.output == Output::Tokens || board.server.iter().any(|(_, value)| *value != 0.0) {
                true => board.server.clone(),
                false => Vec::new(),
            },
            // A burst or a closed loop has no schedule to be late for.
            late: match board.scheduled.last() {
                Some(&0.0) => None,
                _ => board.lateness.quantile(0.99).map(|seconds| seconds * 1e3),
            },
            outer: Vec::new(),
        }
    }
}

/// In the order of [`Snapshot::latency`].
fn histograms(board: &LiveMetrics) -> [&Histogram; 4] {
    [&board.ttft, &board.tpot, &board.itl, &board.e2el]
}

fn percentiles(times: &Histogram) -> Option<Percentiles> {
    let of = |quantile| times.quantile(quantile).map(|seconds| seconds * 1e3);
    Some([of(0.5)?, of(0.9)?, of(0.99)?])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn a_run_is_followed_from_start_to_end() {
        let monitor = Monitor::default();
        let counters = Arc::new(Counters::default());
        monitor.event(RunEvent::Started { work: Work::Benchmark, total: 4, counters: counters.clone() });
        counters.finished.store(3, Ordering::Relaxed);
        counters.live.lock().ttft.add(0.1);
        monitor.event(RunEvent::warning("a\x1b[2J\nb"));
        let snapshot = monitor.snapshot();
        assert_eq!((snapshot.finished, snapshot.total, snapshot.over), (3, 4, false));
        assert!(snapshot.left.is_some() && (snapshot.latency[0].unwrap()[0] / 100.0 - 1.0).abs() < 0.03);
        assert_eq!(snapshot.lines, ["warning: a\\x1b[2J", "b"]);
        monitor.say(&"Namespace(".repeat(100));
        assert_eq!(monitor.snapshot().lines[2].chars().count(), MAX_LINE + 1);
        assert_eq!((snapshot.waiting, snapshot.verdict()), (None, None));
        counters.live.lock().lateness.add(0.0001);
        assert!(monitor.snapshot().verdict().unwrap().starts_with("client ok: sent p99 0.10 ms"));
        counters.live.lock().scheduled = [0.0, 0.0].into();
        assert_eq!(monitor.snapshot().verdict(), None, "a burst has no schedule");
        monitor.event(RunEvent::Finished);
        assert!(monitor.snapshot().over);
    }

    #[test]
    fn gauges_that_do_not_count_speech_are_not_zeros() {
        let counters = Arc::new(Counters::default());
        let watched = Watched::new(Work::Benchmark, 1, counters.clone());
        let shown = |output, running| {
            let mut board = counters.live.lock();
            (board.output, board.server) = (output, vec![("running", running), ("waiting", 0.0)]);
            drop(board);
            watched.snapshot().server.len()
        };
        assert_eq!([shown(Output::Tokens, 0.0), shown(Output::Audio, 0.0), shown(Output::Audio, 3.0)], [2, 0, 2]);
    }

    #[test]
    fn nested_work_shows_its_position() {
        let monitor = Monitor::default();
        let outer = Arc::new(Counters::default());
        monitor.event(RunEvent::Started { work: Work::Sweep, total: 12, counters: outer.clone() });
        outer.finished.store(3, Ordering::Relaxed);
        monitor.event(RunEvent::Started { work: Work::Benchmark, total: 4, counters: Arc::default() });
        let snapshot = monitor.snapshot();
        assert_eq!((snapshot.phase.as_str(), snapshot.outer), ("benchmark", vec![("sweep", 3, 12)]));
    }

    #[test]
    fn a_long_history_is_kept_whole_and_small() {
        let mut watched = Watched::new(Work::Benchmark, 1, Arc::default());
        let point = |at: usize| Point {
            time: at as f64,
            requests_per_s: at as f64,
            in_flight: at as u64,
            latency: [Some([at as f64; 3]), None, None, None],
            bands: [vec![(7, 1)], Vec::new(), Vec::new(), Vec::new()],
            ..Point::default()
        };
        watched.history = (0..MAX_POINTS).map(point).collect();
        watched.halve();
        assert_eq!((watched.history.len(), watched.step), (MAX_POINTS / 2, 1.0));
        let last = watched.history.last().unwrap();
        assert_eq!((last.time, last.requests_per_s, last.in_flight), (599.0, 598.5, 599));
        assert_eq!((last.latency[0], last.bands[0].as_slice()), (Some([598.5, 599.0, 599.0]), &[(7, 2)][..]));
    }

    #[test]
    fn a_point_has_the_latencies_of_its_interval_only() {
        let counters = Arc::new(Counters::default());
        let mut watched = Watched::new(Work::Benchmark, 1, counters.clone());
        for seconds in [0.1, 0.8] {
            counters.live.lock().ttft.add(seconds);
            watched.point();
        }
        let median = |at: usize| watched.history[at].latency[0].unwrap()[0];
        assert!((median(0) / 100.0 - 1.0).abs() < 0.03 && (median(1) / 800.0 - 1.0).abs() < 0.03);
        assert!(watched.history[1].latency[3].is_none(), "nothing measured is not zero");
    }
}
