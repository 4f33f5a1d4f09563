//! A run under way as numbers: what the live views show. It takes the events of a run, looks at the counters when it is
//! asked to, and remembers how rates went; the workers are never touched.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tacho_core::live::Histogram;
use tacho_core::{Counters, EventSink, RunEvent, Work};

use crate::sentence;
use crate::style::harmless_line;

/// Points of a history; a longer run keeps every second one, and so on.
const POINTS: usize = 600;
/// Lines of what was said that are kept.
const LINES: usize = 50;

/// How a rate or a number went: a moment in seconds, and values.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Point {
    /// Seconds since the work began.
    pub time: f64,
    /// Requests finished per second since the point before.
    pub requests_per_s: f64,
    /// Token events per second since the point before.
    pub tokens_per_s: f64,
    /// Requests in flight.
    pub in_flight: u64,
}

/// Median, 90th and 99th percentile, in milliseconds.
pub type Percentiles = [f64; 3];

/// The state at one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Snapshot {
    /// What is being done.
    pub title: String,
    /// Whether it is over.
    pub over: bool,
    /// Pieces of work that are over.
    pub finished: u64,
    /// All pieces.
    pub total: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Requests in flight.
    pub in_flight: u64,
    /// Token events.
    pub tokens: u64,
    /// Seconds since the work began.
    pub elapsed: f64,
    /// Seconds that are left by the rate so far.
    pub left: Option<f64>,
    /// Time to the first token.
    pub ttft: Option<Percentiles>,
    /// Time between tokens.
    pub itl: Option<Percentiles>,
    /// Time to the end of the answer.
    pub e2el: Option<Percentiles>,
    /// Failures by kind.
    pub failures: BTreeMap<&'static str, u64>,
    /// How it went.
    pub history: Vec<Point>,
    /// What was said, the newest last.
    pub lines: Vec<String>,
    /// Requests that wait for a slot; nothing where none has to.
    pub waiting: Option<u64>,
    /// What the server says of itself.
    pub server: Vec<(&'static str, f64)>,
    /// How late the client sent what was due, 99th percentile in milliseconds.
    pub late: Option<f64>,
    /// The work that this is a part of, the outermost first: what it is, how much of it is over, and of how much.
    pub outer: Vec<(&'static str, u64, u64)>,
}

impl Snapshot {
    /// Whether the client is late so far, by the bound of the verdict after a run.
    pub fn is_late(&self) -> bool {
        self.late.is_some_and(|late| late > 1.0)
    }

    /// Whether the client keeps up so far, in words.
    pub fn verdict(&self) -> Option<String> {
        let late = self.late?;
        let word = if self.is_late() { "SENDS LATE" } else { "keeps up" };
        Some(format!("client {word}: p99 {late:.2} ms after due"))
    }
}

/// Watches a run.
#[derive(Default)]
pub struct Monitor {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    work: Vec<Watched>,
    /// What is shown after the last work is over.
    last: Option<Watched>,
    lines: VecDeque<String>,
}

struct Watched {
    work: Work,
    total: u64,
    counters: Arc<Counters>,
    began: Instant,
    ended: Option<Duration>,
    history: Vec<Point>,
    /// Time between two points of the history.
    apart: f64,
    before: (f64, u64, u64),
}

impl Monitor {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the next point of the history, where it is time for one.
    pub fn tick(&self) {
        if let Some(watched) = self.state().work.last_mut() {
            watched.tick();
        }
    }

    /// Takes a line that is printed once the screen is given back.
    pub fn say(&self, line: &str) {
        self.state().say(line);
    }

    /// The state now.
    pub fn snapshot(&self) -> Snapshot {
        let state = self.state();
        let mut snapshot = state.work.last().or(state.last.as_ref()).map(Watched::snapshot).unwrap_or_default();
        let outer = state.work.split_last().map_or(&[][..], |(_, outer)| outer);
        snapshot.outer = outer.iter().map(Watched::progress).collect();
        snapshot.lines = state.lines.iter().cloned().collect();
        snapshot
    }
}

impl EventSink for Monitor {
    fn event(&self, event: RunEvent) {
        let mut state = self.state();
        match event {
            RunEvent::Status(note) => state.say(&sentence::of(&note)),
            RunEvent::Warning(note) => state.say(&format!("warning: {}", sentence::of(&note))),
            RunEvent::Started { work, total, counters } => state.work.push(Watched::new(work, total, counters)),
            RunEvent::Waiting { work, seconds } => state.work.push(Watched::new(work, seconds, Arc::default())),
            RunEvent::Finished => {
                if let Some(mut over) = state.work.pop() {
                    over.ended = Some(over.began.elapsed());
                    state.last = Some(over);
                }
            }
        }
    }
}

impl State {
    fn say(&mut self, text: &str) {
        self.lines.extend(text.lines().map(harmless_line));
        while self.lines.len() > LINES {
            self.lines.pop_front();
        }
    }
}

impl Watched {
    fn new(work: Work, total: u64, counters: Arc<Counters>) -> Self {
        let began = Instant::now();
        Watched { work, total, counters, began, ended: None, history: Vec::new(), apart: 0.5, before: (0.0, 0, 0) }
    }

    fn elapsed(&self) -> f64 {
        self.ended.unwrap_or_else(|| self.began.elapsed()).as_secs_f64()
    }

    fn tick(&mut self) {
        let time = self.elapsed();
        let (then, finished_then, tokens_then) = self.before;
        if time - then < self.apart {
            return;
        }
        let (finished, _, tokens, in_flight) = self.counters.read();
        let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / (time - then);
        self.history.push(Point {
            time,
            requests_per_s: rate(finished, finished_then),
            tokens_per_s: rate(tokens, tokens_then),
            in_flight,
        });
        self.before = (time, finished, tokens);
        if self.history.len() >= POINTS {
            self.halve();
        }
    }

    /// Joins points in pairs, so that a long run keeps its whole history.
    fn halve(&mut self) {
        let pair = |pair: &[Point]| match pair {
            [a, b] => Point {
                time: b.time,
                requests_per_s: (a.requests_per_s + b.requests_per_s) / 2.0,
                tokens_per_s: (a.tokens_per_s + b.tokens_per_s) / 2.0,
                in_flight: a.in_flight.max(b.in_flight),
            },
            other => other.first().copied().unwrap_or_default(),
        };
        self.history = self.history.chunks(2).map(pair).collect();
        self.apart *= 2.0;
    }

    /// What it is, and how far it is.
    fn progress(&self) -> (&'static str, u64, u64) {
        let (_, size) = sentence::unit(self.work);
        (sentence::title(self.work), self.counters.read().0 / size, self.total / size)
    }

    fn snapshot(&self) -> Snapshot {
        let (finished, failed, tokens, in_flight) = self.counters.read();
        let (_, size) = sentence::unit(self.work);
        let (finished, total) = (finished / size, self.total / size);
        let elapsed = self.elapsed();
        let left =
            (finished > 0 && total > 0).then(|| elapsed * total.saturating_sub(finished) as f64 / finished as f64);
        let board = self.counters.live.lock();
        let (ttft, itl, e2el) = (percentiles(&board.ttft), percentiles(&board.itl), percentiles(&board.e2el));
        let (history, failures, server) = (self.history.clone(), board.failures.clone(), board.server.clone());
        let waiting = board.waiting(elapsed, finished + in_flight).filter(|_| self.ended.is_none());
        let late = board.lateness.quantile(0.99).map(|seconds| seconds * 1e3);
        let (title, over) = (sentence::title(self.work).to_owned(), self.ended.is_some());
        let lines = Vec::new();
        Snapshot {
            title,
            over,
            finished,
            total,
            failed,
            in_flight,
            tokens,
            elapsed,
            left,
            ttft,
            itl,
            e2el,
            failures,
            history,
            lines,
            waiting,
            server,
            late,
            outer: Vec::new(),
        }
    }
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
        assert!(snapshot.left.is_some() && (snapshot.ttft.unwrap()[0] / 100.0 - 1.0).abs() < 0.03);
        assert_eq!(snapshot.lines, ["warning: a\\x1b[2J", "b"]);
        assert_eq!((snapshot.waiting, snapshot.verdict()), (None, None));
        counters.live.lock().lateness.add(0.0001);
        assert!(monitor.snapshot().verdict().unwrap().starts_with("client keeps up: p99 0.10 ms"));
        monitor.event(RunEvent::Finished);
        assert!(monitor.snapshot().over);
    }

    #[test]
    fn work_inside_of_other_work_says_where_it_is() {
        let monitor = Monitor::default();
        let outer = Arc::new(Counters::default());
        monitor.event(RunEvent::Started { work: Work::Sweep, total: 12, counters: outer.clone() });
        outer.finished.store(3, Ordering::Relaxed);
        monitor.event(RunEvent::Started { work: Work::Benchmark, total: 4, counters: Arc::default() });
        let snapshot = monitor.snapshot();
        assert_eq!((snapshot.title.as_str(), snapshot.outer), ("benchmark", vec![("sweep", 3, 12)]));
    }

    #[test]
    fn a_long_history_is_kept_whole_and_small() {
        let mut watched = Watched::new(Work::Benchmark, 1, Arc::default());
        watched.history = (0..POINTS)
            .map(|at| Point { time: at as f64, requests_per_s: at as f64, tokens_per_s: 2.0, in_flight: at as u64 })
            .collect();
        watched.halve();
        assert_eq!((watched.history.len(), watched.apart), (POINTS / 2, 1.0));
        let last = Point { time: 599.0, requests_per_s: 598.5, tokens_per_s: 2.0, in_flight: 599 };
        assert_eq!(watched.history.last(), Some(&last));
    }
}
