use std::sync::atomic::{AtomicBool, Ordering};
use std::{collections::VecDeque, sync::Arc};

use tacho_core::{Clock, Counters, Kept, ManualClock, Outcome, SystemClock};
use tacho_pyrand::randomstate::RandomState;

use super::*;
use crate::{ScheduleSpec, StopSignal, Supply, Timeline, Worker};

/// Serves each request in a fixed time on a clock that it advances itself.
#[derive(Default)]
struct Served {
    clock: Arc<ManualClock>,
    time: Duration,
    /// Time to the first token.
    prefill: Duration,
    stop_after: Option<(usize, StopSignal)>,
}

struct ServedWorker<'a> {
    target: &'a Served,
    in_flight: VecDeque<Observation>,
    finished: usize,
    tokens: u64,
    began: Timestamp,
}

impl ServedWorker<'_> {
    fn is_prefilling(&self, row: &Observation) -> bool {
        self.target.clock.now() < row.sent + self.target.prefill
    }
}

impl Target for Served {
    type Worker<'t> = ServedWorker<'t>;

    fn worker(&self, _id: usize, _of: usize) -> io::Result<ServedWorker<'_>> {
        let began = self.clock.now();
        Ok(ServedWorker { target: self, in_flight: VecDeque::new(), finished: 0, tokens: 0, began })
    }
}

impl Worker for ServedWorker<'_> {
    fn issue(&mut self, mut row: Observation) {
        row.sent = self.target.clock.now();
        self.in_flight.push_back(row);
    }

    fn poll(&mut self, until: Timestamp, done: &mut Vec<Observation>) {
        // Time advances a little so that a spinning loop ends, or jumps to the next event.
        let now = self.target.clock.now();
        let soon = now + Duration::from_micros(1);
        let first_end = self.in_flight.front().map_or(Timestamp::NEVER, |row| row.sent + self.target.time);
        let waiting = self.in_flight.iter().find(|row| self.is_prefilling(row));
        let first_token = waiting.map_or(Timestamp::NEVER, |row| row.sent + self.target.prefill);
        self.target.clock.set(until.min(first_end).min(first_token).max(soon));
        let now = self.target.clock.now();
        while self.in_flight.front().is_some_and(|row| row.sent + self.target.time <= now) {
            let mut row = self.in_flight.pop_front().expect("there is a front");
            row.done = row.sent + self.target.time;
            done.push(row);
            (self.finished, self.tokens) = (self.finished + 1, self.tokens + 3);
            if let Some((after, stop)) = &self.target.stop_after
                && self.finished == *after
            {
                stop.request_stop();
            }
        }
    }

    fn abort(&mut self, done: &mut Vec<Observation>) {
        for mut row in self.in_flight.drain(..) {
            row.outcome = Outcome::failed(tacho_core::FailureKind::Aborted, "stopped");
            done.push(row);
        }
    }

    fn prefilling(&self) -> usize {
        self.in_flight.iter().filter(|row| self.is_prefilling(row)).count()
    }

    fn take_tokens(&mut self) -> u64 {
        std::mem::take(&mut self.tokens)
    }

    fn begin(&mut self) {
        self.began = self.target.clock.now();
    }

    fn stats(&self) -> WorkerStats {
        let total_ns = self.target.clock.now().since(self.began).as_nanos() as u64;
        WorkerStats { total_ns, ..WorkerStats::default() }
    }
}

struct Ran {
    rows: Vec<Observation>,
    origin: Timestamp,
    end: Timestamp,
    interrupted: bool,
}

fn run(spec: ScheduleSpec, count: usize, limit: Option<usize>, time: Duration, stop_after: Option<usize>) -> Ran {
    let clock = Arc::new(ManualClock::default());
    let stop = StopSignal::default();
    let timeline = spec.plan(count, &mut RandomState::new(0)).unwrap();
    let stop_after = stop_after.map(|after| (after, stop.clone()));
    let target = Served { clock: clock.clone(), time, stop_after, ..Served::default() };
    let counters = Counters::default();
    let grace = Duration::from_secs(3);
    let plan = Drive { max_concurrency: limit, grace, ..Drive::of(&timeline, &*clock, &stop, &counters) };
    let mut kept = Kept::default();
    let driven = drive(&target, &plan, &mut kept).unwrap();
    let rows = kept.into_rows();
    let failed = rows.iter().filter(|row| row.outcome.is_fault()).count();
    let counted = [&counters.finished, &counters.failed, &counters.tokens].map(|one| one.load(Ordering::Relaxed));
    assert_eq!(counted, [rows.len(), failed, 3 * (rows.len() - failed)].map(|count| count as u64));
    assert_eq!(counters.in_flight.load(Ordering::Relaxed), 0);
    Ran { rows, origin: driven.origin, end: driven.end, interrupted: driven.is_interrupted() }
}

fn constant(rate: f64) -> ScheduleSpec {
    ScheduleSpec::Rate { rate, burstiness: f64::INFINITY }
}

#[test]
fn waiting_for_the_start_is_not_part_of_the_run() {
    let clock = Arc::new(ManualClock::default());
    let (stop, counters) = (StopSignal::default(), Counters::default());
    let timeline = constant(100.0).plan(5, &mut RandomState::new(0)).unwrap();
    let target = Served { clock: clock.clone(), time: Duration::from_millis(5), ..Served::default() };
    // Another rank is two minutes late.
    let start = || {
        clock.set(clock.now() + Duration::from_secs(120));
        clock.now()
    };
    let plan = Drive { start: Some(&start), ..Drive::of(&timeline, &*clock, &stop, &counters) };
    let driven = drive(&target, &plan, &mut Kept::default()).unwrap();
    assert!(driven.workers[0].total_ns < 1_000_000_000, "{:?}", driven.workers);
}

#[test]
fn sends_each_request_when_it_is_due() {
    let driven = run(constant(100.0), 50, None, Duration::from_millis(500), None);
    assert_eq!(driven.rows.len(), 50);
    for (index, row) in driven.rows.iter().enumerate() {
        assert_eq!(row.index, index);
        assert!(row.sent >= row.scheduled && row.sent.since(row.scheduled) <= Duration::from_micros(2), "{row:?}");
    }
    assert!(!driven.interrupted);
}

#[test]
fn a_limit_queues_in_order_and_the_wait_is_kept() {
    // 40 requests/s offered to 4 slots of 190 ms each: 21 requests/s get through and the queue grows.
    let driven = run(constant(40.0), 40, Some(4), Duration::from_millis(190), None);
    let mut sent: Vec<_> = driven.rows.iter().map(|row| row.sent).collect();
    assert!(sent.is_sorted());
    for (index, row) in driven.rows.iter().enumerate() {
        assert!(row.dispatched.since(row.scheduled) <= Duration::from_micros(2), "{row:?}");
        let overlapping = driven.rows.iter().filter(|other| other.sent <= row.sent && row.sent < other.done).count();
        assert!(overlapping <= 4, "request {index} made {overlapping}");
    }
    let mean_from_schedule = driven.rows.iter().map(|row| row.done.secs_since(row.scheduled)).sum::<f64>() / 40.0;
    assert!((0.55..0.70).contains(&mean_from_schedule), "{mean_from_schedule}");
    sent.dedup();
    assert!(sent.len() > 4);
}

#[test]
fn an_infinite_rate_dispatches_everything_at_once() {
    let driven =
        run(ScheduleSpec::Rate { rate: f64::INFINITY, burstiness: 1.0 }, 10, None, Duration::from_secs(1), None);
    assert!(driven.rows.iter().all(|row| row.scheduled == driven.origin));
    assert!(driven.end.since(driven.origin) < Duration::from_millis(1_001));
}

#[test]
fn times_out_of_order_go_out_in_order() {
    let driven = run(ScheduleSpec::Replay(vec![2.0, 1.0, 3.0]), 3, None, Duration::from_millis(1), None);
    let seconds: Vec<_> = driven.rows.iter().map(|row| row.sent.secs_since(driven.origin).round()).collect();
    assert_eq!(seconds, [2.0, 2.0, 3.0]);
}

#[test]
fn a_stop_sends_nothing_more_and_finishes_what_is_in_flight() {
    let driven = run(constant(10.0), 100, None, Duration::from_millis(250), Some(5));
    assert!(driven.interrupted);
    assert!((7..=9).contains(&driven.rows.len()), "{}", driven.rows.len());
    assert!(driven.rows.iter().all(|row| row.outcome.is_complete()));
}

#[test]
fn a_stop_gives_up_after_the_grace() {
    let driven = run(constant(2.0), 100, None, Duration::from_secs(10), Some(1));
    assert!(driven.interrupted);
    let (complete, aborted): (Vec<_>, Vec<_>) = driven.rows.iter().partition(|row| row.outcome.is_complete());
    // The first is sent at 0.5 s and ends at 10.5 s. Until 13.5 s end those sent by 3.5 s; 21 were sent by 10.5 s.
    assert!((6..=7).contains(&complete.len()), "those within the grace of 3 s: {}", complete.len());
    assert!((20..=21).contains(&(complete.len() + aborted.len())), "{}", aborted.len());
}

#[test]
fn a_stop_after_the_last_response_cuts_nothing_short() {
    let driven = run(constant(10.0), 10, None, Duration::from_millis(250), Some(10));
    assert!(!driven.interrupted && driven.rows.len() == 10);
}

/// Counts the batches that arrive before the end.
#[derive(Default)]
struct Batches {
    sizes: Vec<usize>,
    origin: Option<Timestamp>,
}

impl RowSink for Batches {
    fn began(&mut self, origin: Timestamp) {
        self.origin = Some(origin);
    }

    fn rows(&mut self, rows: Vec<Observation>) {
        assert!(self.origin.is_some(), "no row before the origin is known");
        self.sizes.push(rows.len());
    }
}

fn plan_for<'a>(timeline: &'a Timeline, clock: &'a ManualClock, stop: &'a StopSignal, of: &'a Counters) -> Drive<'a> {
    Drive { workers: 3, ..Drive::of(timeline, clock, stop, of) }
}

#[test]
fn every_row_is_passed_on_once_the_origin_is_known() {
    let clock = Arc::new(ManualClock::default());
    let (stop, counters) = (StopSignal::default(), Counters::default());
    let timeline = constant(100.0).plan(200, &mut RandomState::new(0)).unwrap();
    let target = Served { clock: clock.clone(), time: Duration::from_millis(5), ..Served::default() };
    let mut batches = Batches::default();
    let plan = Drive { workers: 1, ..plan_for(&timeline, &clock, &stop, &counters) };
    let driven = drive(&target, &plan, &mut batches).unwrap();
    assert_eq!(batches.sizes.iter().sum::<usize>(), 200);
    assert_eq!(batches.origin, Some(driven.origin));
}

/// Has resources for two workers only.
struct Scarce;

struct Idle;

impl Target for Scarce {
    type Worker<'t> = Idle;

    fn worker(&self, id: usize, _of: usize) -> io::Result<Idle> {
        if id < 2 { Ok(Idle) } else { Err(io::Error::other("too many open files")) }
    }
}

impl Worker for Idle {
    fn issue(&mut self, row: Observation) {
        panic!("nothing may be sent: {row:?}");
    }

    fn poll(&mut self, _until: Timestamp, _done: &mut Vec<Observation>) {}

    fn abort(&mut self, _done: &mut Vec<Observation>) {}
}

#[test]
fn a_worker_that_cannot_start_is_an_error_and_nothing_is_sent() {
    let (clock, stop, counters) = (ManualClock::default(), StopSignal::default(), Counters::default());
    let timeline = constant(10.0).plan(10, &mut RandomState::new(0)).unwrap();
    let error = drive(&Scarce, &plan_for(&timeline, &clock, &stop, &counters), &mut Kept::default()).unwrap_err();
    assert!(matches!(error, Error::Worker { id: 2, of: 3, .. }), "{error}");
}

#[test]
fn sharded_slots_go_to_few_workers() {
    let (clock, stop, counters) = (ManualClock::default(), StopSignal::default(), Counters::default());
    let timeline = constant(10.0).plan(1000, &mut RandomState::new(0)).unwrap();
    let plan = || plan_for(&timeline, &clock, &stop, &counters);
    let limited = |limit: usize| Drive { max_concurrency: Some(limit), ..plan() };
    assert_eq!([10, 256, 257, 1000].map(|limit| max_sharded_workers(&limited(limit), true)), [1, 1, 2, 4]);
    // Independent requests are drawn from one counter by any number of workers; without a limit none waits.
    assert_eq!(
        (max_sharded_workers(&limited(10), false), max_sharded_workers(&plan(), true)),
        (usize::MAX, usize::MAX)
    );
    assert_eq!(max_sharded_workers(&Drive { max_prefills: Some(4), ..plan() }, false), 1);
}

/// Completes its second request only after the row of the first was collected.
struct Gated {
    clock: SystemClock,
    seen: AtomicBool,
}

struct GatedWorker<'a> {
    target: &'a Gated,
    in_flight: Vec<Observation>,
}

impl Target for Gated {
    type Worker<'t> = GatedWorker<'t>;

    fn worker(&self, _id: usize, _of: usize) -> io::Result<GatedWorker<'_>> {
        Ok(GatedWorker { target: self, in_flight: Vec::new() })
    }
}

impl Worker for GatedWorker<'_> {
    fn issue(&mut self, row: Observation) {
        self.in_flight.push(row);
    }

    fn poll(&mut self, until: Timestamp, done: &mut Vec<Observation>) {
        let now = self.target.clock.now();
        std::thread::sleep(until.since(now).min(Duration::from_millis(5)));
        let open = self.target.seen.load(Ordering::Relaxed) || now > Timestamp::from_secs(20.0);
        while let Some(at) = self.in_flight.iter().position(|row| row.index == 0 || open) {
            done.push(Observation { done: now, ..self.in_flight.remove(at) });
        }
    }

    fn abort(&mut self, done: &mut Vec<Observation>) {
        done.append(&mut self.in_flight);
    }
}

struct Seer<'a>(&'a AtomicBool);

impl RowSink for Seer<'_> {
    fn rows(&mut self, _rows: Vec<Observation>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A first token makes room for the next request, not a last one; requests wait from the time they became eligible.
#[test]
fn a_limit_on_prefills_is_held_and_used() {
    let clock = Arc::new(ManualClock::default());
    let (stop, counters, mut kept) = (StopSignal::default(), Counters::default(), Kept::default());
    let timeline = ScheduleSpec::Replay(vec![0.0; 20]).plan(20, &mut RandomState::new(0)).unwrap();
    let (prefill, time) = (Duration::from_millis(10), Duration::from_millis(100));
    let target = Served { clock: clock.clone(), time, prefill, ..Served::default() };
    let plan = Drive { max_prefills: Some(2), ..Drive::of(&timeline, &*clock, &stop, &counters) };
    let origin = drive(&target, &plan, &mut kept).unwrap().origin;
    for row in kept.into_rows() {
        let late = row.sent.since(origin + prefill * (row.index as u32 / 2));
        assert!(
            late <= Duration::from_micros(50) && row.dispatched.since(origin) <= Duration::from_micros(50),
            "{row:?}"
        );
    }
}

/// The address space has no room for so many: nothing is started, and the error names the last worker.
#[test]
fn workers_without_memory_are_refused() {
    let (clock, stop, counters) = (ManualClock::default(), StopSignal::default(), Counters::default());
    let timeline = constant(10.0).plan(1, &mut RandomState::new(0)).unwrap();
    let supply = Supply::new(1);
    let plan = Drive { workers: usize::MAX, supply: Some(&supply), ..Drive::of(&timeline, &clock, &stop, &counters) };
    let error = drive(&Scarce, &plan, &mut Kept::default()).unwrap_err();
    assert!(matches!(error, Error::Worker { id, of: usize::MAX, .. } if id == usize::MAX - 1), "{error}");
}

#[test]
fn rows_are_passed_on_during_the_run() {
    let target = Gated { clock: SystemClock::start(), seen: AtomicBool::new(false) };
    let timeline = ScheduleSpec::Replay(vec![0.0, 0.0]).plan(2, &mut RandomState::new(0)).unwrap();
    let (stop, counters) = (StopSignal::default(), Counters::default());
    let plan = Drive::of(&timeline, &target.clock, &stop, &counters);
    let driven = drive(&target, &plan, &mut Seer(&target.seen)).unwrap();
    assert!(driven.end < Timestamp::from_secs(15.0), "the second request was never answered: {:?}", driven.end);
}

#[test]
fn the_end_of_time_sends_nothing_more_and_lets_requests_finish() {
    let clock = Arc::new(ManualClock::default());
    let (stop, counters, mut kept) = (StopSignal::default(), Counters::default(), Kept::default());
    let timeline = constant(10.0).plan(100, &mut RandomState::new(0)).unwrap();
    let target = Served { clock: clock.clone(), time: Duration::from_millis(950), ..Served::default() };
    let (duration, drain_timeout) = (Some(Duration::from_secs(2)), Duration::from_secs(5));
    let plan = Drive { duration, drain_timeout, ..Drive::of(&timeline, &*clock, &stop, &counters) };
    let driven = drive(&target, &plan, &mut kept).unwrap();
    let rows = kept.into_rows();
    assert_eq!(driven.ended, Some(StopReason::Duration));
    assert!((18..=21).contains(&rows.len()) && rows.iter().all(|row| row.outcome.is_complete()), "{}", rows.len());
    assert!(rows.iter().all(|row| row.sent.since(driven.origin) < Duration::from_secs(2)));
}

#[test]
fn a_run_that_ends_in_time_was_not_ended() {
    let clock = Arc::new(ManualClock::default());
    let (stop, counters) = (StopSignal::default(), Counters::default());
    let timeline = constant(10.0).plan(5, &mut RandomState::new(0)).unwrap();
    let target = Served { clock: clock.clone(), time: Duration::from_millis(5), ..Served::default() };
    let duration = Some(Duration::from_secs(2));
    let plan = Drive { duration, ..Drive::of(&timeline, &*clock, &stop, &counters) };
    assert_eq!(drive(&target, &plan, &mut Kept::default()).unwrap().ended, None);
}

#[test]
fn a_supply_goes_on_after_the_timeline() {
    let clock = Arc::new(ManualClock::default());
    let (stop, counters, mut kept) = (StopSignal::default(), Counters::default(), Kept::default());
    let timeline = ScheduleSpec::Replay(vec![0.0; 3]).plan(3, &mut RandomState::new(0)).unwrap();
    let target = Served { clock: clock.clone(), time: Duration::from_millis(10), ..Served::default() };
    let supply = Supply::new(3);
    supply.publish(10);
    supply.close();
    let plan =
        Drive { supply: Some(&supply), max_concurrency: Some(2), ..Drive::of(&timeline, &*clock, &stop, &counters) };
    drive(&target, &plan, &mut kept).unwrap();
    let rows = kept.into_rows();
    assert_eq!(rows.iter().map(|row| row.index).collect::<Vec<_>>(), (0..10).collect::<Vec<_>>());
    assert_eq!(supply.left(), 0);
}

#[test]
fn limits_change_at_their_times() {
    let clock = Arc::new(ManualClock::default());
    let (stop, counters, mut kept) = (StopSignal::default(), Counters::default(), Kept::default());
    let timeline = ScheduleSpec::Replay(vec![0.0; 5000]).plan(5000, &mut RandomState::new(0)).unwrap();
    let target = Served { clock: clock.clone(), time: Duration::from_millis(10), ..Served::default() };
    let plan = Drive {
        max_concurrency: Some(8),
        limits: &[(0.0, 2), (1.0, 8), (2.0, 1)],
        duration: Some(Duration::from_secs(3)),
        drain_timeout: Duration::from_secs(1),
        ..Drive::of(&timeline, &*clock, &stop, &counters)
    };
    let origin = drive(&target, &plan, &mut kept).unwrap().origin;
    let rows = kept.into_rows();
    let sent = |from: f64| rows.iter().filter(move |row| (from..from + 1.0).contains(&row.sent.secs_since(origin)));
    // A request takes 10 ms, so a limit of n sends 100 n per second. A change takes effect within a wait of 20 ms.
    for (from, limit) in [(0.0, 2_usize), (1.0, 8), (2.0, 1)] {
        let count = sent(from).count();
        assert!(count.abs_diff(100 * limit) <= 3 * limit.max(8), "{count} sent from {from} s on");
        let settled: Vec<_> = sent(from).filter(|row| row.sent.secs_since(origin) > from + 0.03).collect();
        let in_flight = |at: Timestamp| settled.iter().filter(|row| row.sent <= at && at < row.done).count();
        assert_eq!(settled.iter().map(|row| in_flight(row.sent)).max(), Some(limit));
    }
}
