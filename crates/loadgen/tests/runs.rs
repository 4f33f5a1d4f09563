//! What a run sends, when it ends and why, on a clock that the server advances itself.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tacho_core::{Clock, Counters, FailureKind, Kept, ManualClock, Observation, Outcome, SystemClock, Timestamp};
use tacho_loadgen::{
    Drive, Driven, Graph, LoadModel, Node, OnFailure, ScheduleSpec, Script, SessionPlan, StopReason, StopSignal,
    Supply, Target, Timeline, Worker, drive, drive_model, drive_sessions,
};
use tacho_pyrand::RandomState;

/// Calls for a stop.
type Stop = fn(&StopSignal);

/// Serves every request in the same time. The request `stop_at` calls for a stop.
struct Server {
    clock: ManualClock,
    time: Duration,
    stop_at: Option<(usize, StopSignal, Stop)>,
    /// Workers that were asked for.
    workers: AtomicUsize,
}

struct ServerWorker<'a>(&'a Server, Vec<Observation>);

impl Server {
    fn new(time: Duration) -> Self {
        Server { clock: ManualClock::default(), time, stop_at: None, workers: AtomicUsize::new(0) }
    }
}

impl Target for Server {
    type Worker<'t> = ServerWorker<'t>;

    fn worker(&self, _: usize, of: usize) -> io::Result<ServerWorker<'_>> {
        self.workers.store(of, Ordering::Relaxed);
        Ok(ServerWorker(self, Vec::new()))
    }
}

impl Worker for ServerWorker<'_> {
    fn issue(&mut self, mut row: Observation) {
        row.sent = self.0.clock.now();
        if let Some((_, signal, stop)) = self.0.stop_at.as_ref().filter(|(index, ..)| *index == row.index) {
            stop(signal);
        }
        self.1.push(row);
    }

    fn poll(&mut self, until: Timestamp, done: &mut Vec<Observation>) {
        let Server { clock, time, .. } = self.0;
        let first = self.1.iter().map(|row| row.sent + *time).min().unwrap_or(Timestamp::NEVER);
        clock.set(until.min(first).max(clock.now() + Duration::from_micros(1)));
        let (over, rest) = self.1.drain(..).partition(|row| row.sent + *time <= clock.now());
        self.1 = rest;
        let over: Vec<Observation> = over;
        done.extend(over.into_iter().map(|row| Observation { done: row.sent + *time, ..row }));
    }

    fn abort(&mut self, done: &mut Vec<Observation>) {
        let now = self.0.clock.now();
        let outcome = || Outcome::failed(FailureKind::Aborted, "stopped");
        done.extend(self.1.drain(..).map(|row| Observation { done: now, outcome: outcome(), ..row }));
    }
}

fn timeline(times: &[f64]) -> Timeline {
    ScheduleSpec::Replay(times.to_vec()).plan(times.len(), &mut RandomState::new(0)).unwrap()
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Milliseconds after the start of a run, rounded.
fn since(driven: &Driven, time: Timestamp) -> u64 {
    (time.since(driven.origin).as_micros() as u64 + 500) / 1000
}

/// The fifth request is sent at 400 ms and calls for a stop, which is seen after a wait of 20 ms.
const NOTICED: u64 = 420;

/// Runs of ten requests, one every 100 ms, of a minute each.
fn stopped(stop: fn(&StopSignal)) -> (Driven, Vec<Observation>) {
    let (signal, counters, mut kept) = (StopSignal::default(), Counters::default(), Kept::default());
    let server = Server { stop_at: Some((4, signal.clone(), stop)), ..Server::new(ms(60_000)) };
    let timeline = timeline(&[0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]);
    let plan = Drive {
        grace: ms(1000),
        drain_timeout: ms(2000),
        overload_drain_timeout: ms(300),
        ..Drive::of(&timeline, &server.clock, &signal, &counters)
    };
    let driven = drive(&server, &plan, &mut kept).unwrap();
    assert_eq!(counters.in_flight.load(Ordering::Relaxed), 0);
    (driven, kept.into_rows())
}

#[test]
fn each_reason_to_stop_has_its_own_time_for_requests_in_flight() {
    let reasons: [(StopReason, Stop, u64); 6] = [
        (StopReason::Interrupted, |signal| signal.stop_because(StopReason::Interrupted), 1000),
        (StopReason::Duration, |signal| signal.stop_because(StopReason::Duration), 2000),
        (StopReason::Precise, |signal| signal.stop_because(StopReason::Precise), 2000),
        (StopReason::Failures, |signal| signal.stop_because(StopReason::Failures), 2000),
        (StopReason::Overload, |signal| signal.stop_because(StopReason::Overload), 300),
        (StopReason::Ranks, |signal| signal.stop_because(StopReason::Ranks), 2000),
    ];
    for (reason, stop, timeout) in reasons {
        let (driven, rows) = stopped(stop);
        assert_eq!((driven.ended, driven.is_interrupted()), (Some(reason), reason == StopReason::Interrupted));
        assert_eq!((rows.len(), since(&driven, driven.end)), (5, NOTICED + timeout), "{reason:?}");
        assert!(rows.iter().all(Observation::is_aborted));
    }
    let (driven, _) = stopped(StopSignal::request_stop);
    assert_eq!((driven.ended, since(&driven, driven.end)), (Some(StopReason::Interrupted), NOTICED + 1000));
}

#[test]
fn a_second_request_to_stop_waits_for_nothing() {
    let (driven, rows) = stopped(|signal| (0..2).for_each(|_| signal.request_stop()));
    assert_eq!((rows.len(), since(&driven, driven.end)), (5, NOTICED));
}

#[test]
fn changes_of_the_limit_take_effect_between_batches_of_rows() {
    let (signal, counters, mut kept) = (StopSignal::default(), Counters::default(), Kept::default());
    let server = Server::new(ms(10));
    let timeline = timeline(&[0.0; 400]);
    let limits = [(0.0, 1), (0.31, 4), (0.4, 2)];
    let plan = Drive {
        max_concurrency: Some(4),
        limits: &limits,
        duration: Some(ms(500)),
        drain_timeout: ms(100),
        ..Drive::of(&timeline, &server.clock, &signal, &counters)
    };
    let driven = drive(&server, &plan, &mut kept).unwrap();
    let rows = kept.into_rows();
    let most = |from: u64, to: u64| {
        let sent = rows.iter().filter(|row| (from..to).contains(&since(&driven, row.sent)));
        let in_flight = |at: Timestamp| rows.iter().filter(|row| row.sent <= at && at < row.done).count();
        sent.map(|row| in_flight(row.sent)).max()
    };
    assert_eq!([most(0, 310), most(332, 400), most(432, 500)], [Some(1), Some(4), Some(2)]);
    assert_eq!((driven.ended, since(&driven, driven.end) < 520), (Some(StopReason::Duration), true));
}

#[test]
fn no_more_workers_are_started_than_have_something_to_do() {
    let clock = SystemClock::start();
    struct Null(SystemClock, AtomicUsize);
    struct NullWorker(SystemClock, Vec<Observation>);
    impl Target for Null {
        type Worker<'t> = NullWorker;
        fn worker(&self, _: usize, of: usize) -> io::Result<NullWorker> {
            self.1.store(of, Ordering::Relaxed);
            Ok(NullWorker(self.0, Vec::new()))
        }
    }
    impl Worker for NullWorker {
        fn issue(&mut self, row: Observation) {
            let now = self.0.now();
            self.1.push(Observation { sent: now, done: now, ..row });
        }
        fn poll(&mut self, _: Timestamp, done: &mut Vec<Observation>) {
            done.append(&mut self.1);
        }
        fn abort(&mut self, done: &mut Vec<Observation>) {
            done.append(&mut self.1);
        }
    }
    let (timeline, signal, counters) = (timeline(&[0.0; 5]), StopSignal::default(), Counters::default());
    let started = |change: &dyn Fn(Drive<'_>) -> Driven, null: &Null| {
        let plan = Drive { workers: 8, ..Drive::of(&timeline, &clock, &signal, &counters) };
        let driven = change(plan);
        assert_eq!((driven.ended, driven.workers.len()), (None, null.1.load(Ordering::Relaxed)));
        driven.workers.len()
    };
    let null = Null(clock, AtomicUsize::new(0));
    let run = |plan: &Drive<'_>| drive(&null, plan, &mut Kept::default()).unwrap();
    assert_eq!(started(&|plan| run(&plan), &null), 5, "one per request");
    assert_eq!(started(&|plan| run(&Drive { max_concurrency: Some(3), ..plan }), &null), 3);
    assert_eq!(started(&|plan| run(&Drive { max_prefills: Some(4), ..plan }), &null), 1);
    assert_eq!(started(&|plan| run(&Drive { workers: 2, ..plan }), &null), 2);
    assert_eq!(started(&|plan| run(&Drive { workers: 0, ..plan }), &null), 1);
    let supply = Supply::new(5);
    supply.close();
    assert_eq!(started(&|plan| run(&Drive { supply: Some(&supply), ..plan }), &null), 8, "more may follow");
    // Five sessions, of which every second is sent here.
    let graph = Graph::new((0..5).map(|session| Node { session, sends: true, ..Node::default() }).collect());
    let sessions = |max_sessions| SessionPlan {
        graph: &graph,
        range: 0..5,
        stride: 2,
        starts: &[0.0; 5],
        from: 0.0,
        max_sessions,
        ramp: Duration::ZERO,
        on_failure: OnFailure::End,
        script: &Nothing,
    };
    let of_sessions =
        |max| started(&|plan| drive_sessions(&null, &plan, &sessions(max), &mut Kept::default()).unwrap(), &null);
    assert_eq!([of_sessions(None), of_sessions(Some(2))], [3, 2]);
}

struct Nothing;

impl Script for Nothing {
    fn keeps(&self, _: usize) -> bool {
        false
    }

    fn request(&self, _: usize, _: &tacho_loadgen::Completions) -> Option<tacho_core::Request> {
        None
    }
}

/// Sends two requests at once, and the first of them again when it has ended.
#[derive(Default)]
struct Again {
    next: usize,
    sent_again: bool,
    origin: Timestamp,
}

impl LoadModel for Again {
    fn begin(&mut self, origin: Timestamp) {
        self.origin = origin;
    }

    fn free_slots(&self, in_flight: usize) -> usize {
        2 - in_flight
    }

    fn next_eligible(&self, _: usize) -> Timestamp {
        if self.next < 2 { self.origin } else { Timestamp::NEVER }
    }

    fn exhausted(&self) -> bool {
        self.next == 2
    }

    fn take(&mut self, _: usize, now: Timestamp, _: &mut dyn Worker) -> Option<(usize, Timestamp)> {
        let index = Some(self.next).filter(|index| *index < 2)?;
        self.next += 1;
        Some((index, now))
    }

    fn ended(&mut self, row: &mut Observation, _: &mut dyn Worker) -> bool {
        if row.index == 0 && !self.sent_again {
            (self.next, self.sent_again) = (0, true);
            return false;
        }
        row.outcome = Outcome::failed(FailureKind::TimedOut, "late");
        true
    }
}

#[test]
fn a_request_that_is_sent_again_counts_once() {
    let (signal, counters, mut kept) = (StopSignal::default(), Counters::default(), Kept::default());
    let (server, timeline) = (Server::new(ms(10)), timeline(&[0.0; 2]));
    let plan = Drive { workers: 4, ..Drive::of(&timeline, &server.clock, &signal, &counters) };
    let driven = drive_model(&server, &plan, &mut Again::default(), &mut kept).unwrap();
    let rows = kept.into_rows();
    let count = |index: usize| rows.iter().filter(|row| row.index == index).count();
    assert_eq!((server.workers.load(Ordering::Relaxed), count(0), driven.ended), (1, 2, None));
    let counted = [&counters.finished, &counters.failed].map(|one| one.load(Ordering::Relaxed));
    let last = rows.len() as u64 - 1;
    assert_eq!((counted, counters.in_flight.load(Ordering::Relaxed)), ([last, last], 0));
}

#[test]
fn a_supply_is_sent_until_it_is_closed_or_the_time_is_over() {
    let run = |closed: bool, ready: usize| {
        let (signal, counters, mut kept) = (StopSignal::default(), Counters::default(), Kept::default());
        let (server, timeline, supply) = (Server::new(ms(100)), timeline(&[0.0, 0.5]), Supply::new(ready));
        if closed {
            supply.close();
        }
        let plan = Drive {
            supply: Some(&supply),
            max_concurrency: Some(1),
            duration: Some(ms(1000)),
            drain_timeout: ms(1000),
            ..Drive::of(&timeline, &server.clock, &signal, &counters)
        };
        let driven = drive(&server, &plan, &mut kept).unwrap();
        let sent: Vec<(usize, u64)> =
            kept.into_rows().iter().map(|row| (row.index, since(&driven, row.sent))).collect();
        (sent, driven.ended, since(&driven, driven.end), supply.left())
    };
    // The timeline's own requests come first; those of the supply follow as slots become free.
    let all = vec![(0, 0), (1, 500), (2, 600), (3, 700)];
    assert_eq!(run(true, 4), (all.clone(), Some(StopReason::Duration), 800, 0));
    assert_eq!(run(false, 4), (all, Some(StopReason::Duration), 800, 0));
    let (sent, ended, end, left) = run(false, 100);
    assert_eq!((sent.len(), sent.last(), end, left), (6, Some(&(5, 900)), 1000, 94));
    assert_eq!(ended, Some(StopReason::Duration));
}
