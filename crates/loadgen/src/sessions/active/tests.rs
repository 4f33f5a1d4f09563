use std::{collections::HashSet, io};

use tacho_core::{Clock, Counters, FailureKind, Kept, ManualClock, Mutex, Outcome, Request};
use tacho_pyrand::RandomState;

use super::*;
use crate::{Drive, Graph, Node, ScheduleSpec, Script, StopSignal, Target, drive_sessions};

/// Completes each request with its index as text after a fixed time, on a clock that it advances itself.
struct Echo {
    clock: ManualClock,
    time: Duration,
    failing: HashSet<usize>,
    supplied: Mutex<Vec<(usize, String)>>,
}

struct EchoWorker<'a> {
    target: &'a Echo,
    in_flight: Vec<Observation>,
}

impl Target for Echo {
    type Worker<'t> = EchoWorker<'t>;

    fn worker(&self, _: usize, _: usize) -> io::Result<EchoWorker<'_>> {
        Ok(EchoWorker { target: self, in_flight: Vec::new() })
    }
}

impl Worker for EchoWorker<'_> {
    fn issue(&mut self, mut row: Observation) {
        row.sent = self.target.clock.now();
        self.in_flight.push(row);
    }

    fn supply(&mut self, index: usize, request: &Request) {
        let tacho_core::Content::Text(text) = &request.content else { panic!("texts") };
        self.target.supplied.lock().push((index, text.clone()));
    }

    fn poll(&mut self, until: Timestamp, done: &mut Vec<Observation>) {
        let Echo { clock, time, failing, .. } = self.target;
        let first = self.in_flight.iter().map(|row| row.sent + *time).min().unwrap_or(Timestamp::NEVER);
        clock.set(until.min(first).max(clock.now() + Duration::from_micros(1)));
        let now = clock.now();
        let (over, rest) = self.in_flight.drain(..).partition(|row| row.sent + *time <= now);
        self.in_flight = rest;
        let over: Vec<Observation> = over;
        done.extend(over.into_iter().map(|mut row| {
            row.done = row.sent + *time;
            row.text = row.index.to_string().into_bytes();
            if failing.contains(&row.index) {
                row.outcome = Outcome::failed(FailureKind::TimedOut, "late");
            }
            row
        }));
    }

    fn abort(&mut self, _: &mut Vec<Observation>) {}
}

/// All completions so far, in the order of their requests.
struct Joined;

impl Script for Joined {
    fn keeps(&self, _: usize) -> bool {
        true
    }

    fn request(&self, _: usize, responses: &Completions) -> Option<Request> {
        let mut known: Vec<&usize> = responses.keys().collect();
        known.sort();
        let text: Vec<String> =
            known.iter().map(|index| String::from_utf8_lossy(&responses[index].text).into_owned()).collect();
        Some(Request::text(text.join(","), 0, 1))
    }
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn node(session: usize, at: u64, parents: &[(usize, u64)]) -> Node {
    let parents = parents.iter().map(|(parent, pause)| (*parent, ms(*pause))).collect();
    Node { session, at: ms(at), parents, sends: true, ..Node::default() }
}

struct Ran {
    /// Per request: its index, and the milliseconds at which it was scheduled and sent.
    rows: Vec<(usize, u64, u64)>,
    supplied: Vec<(usize, String)>,
}

fn run(nodes: Vec<Node>, starts: &[f64], max_sessions: Option<usize>, failing: &[usize], on_failure: OnFailure) -> Ran {
    let graph = Graph::new(nodes);
    let range = 0..graph.sessions();
    let ramp = Duration::ZERO;
    run_plan(&SessionPlan { max_sessions, ramp, on_failure, ..whole(&graph, range, starts) }, failing)
}

fn whole<'a>(graph: &'a Graph, range: std::ops::Range<usize>, starts: &'a [f64]) -> SessionPlan<'a> {
    let (max_sessions, ramp, on_failure) = (None, Duration::ZERO, OnFailure::End);
    SessionPlan { graph, range, stride: 1, starts, from: 0.0, max_sessions, ramp, on_failure, script: &Joined }
}

fn run_plan(plan: &SessionPlan<'_>, failing: &[usize]) -> Ran {
    run_on(plan, failing, (1, None))
}

/// Runs on several workers, with a limit on requests.
fn run_on(plan: &SessionPlan<'_>, failing: &[usize], (workers, max_concurrency): (usize, Option<usize>)) -> Ran {
    let target = Echo {
        clock: ManualClock::default(),
        time: ms(100),
        failing: failing.iter().copied().collect(),
        supplied: Mutex::default(),
    };
    let count = plan.graph.steps.len();
    let timeline = ScheduleSpec::Replay(vec![0.0; count]).plan(count, &mut RandomState::new(0)).unwrap();
    let (stop, counters) = (StopSignal::default(), Counters::default());
    let drive = Drive { workers, max_concurrency, ..Drive::of(&timeline, &target.clock, &stop, &counters) };
    let mut kept = Kept::default();
    let driven = drive_sessions(&target, &drive, plan, &mut kept).unwrap();
    let since = |timestamp: Timestamp| (timestamp.since(driven.origin).as_micros() as u64 + 500) / 1000;
    let rows: Vec<_> = kept.into_rows().iter().map(|row| (row.index, since(row.scheduled), since(row.sent))).collect();
    assert_eq!(counters.finished.load(std::sync::atomic::Ordering::Relaxed), rows.len() as u64);
    Ran { rows, supplied: target.supplied.into_inner() }
}

#[test]
fn a_turn_is_scheduled_after_the_completion_and_its_pause() {
    let nodes = vec![node(0, 0, &[]), node(0, 0, &[(0, 250)]), node(0, 1000, &[(1, 10)])];
    let ran = run(nodes, &[0.0], None, &[], OnFailure::End);
    assert_eq!(ran.rows, [(0, 0, 0), (1, 350, 350), (2, 1000, 1000)], "the latest of its own time and its parents'");
    let supplied = [(0, ""), (1, "0"), (2, "0,1")].map(|(index, text)| (index, text.to_owned()));
    assert_eq!(ran.supplied, supplied, "the first may have a context too");
}

#[test]
fn a_join_waits_for_all_and_for_each_pause() {
    let nodes =
        vec![node(0, 0, &[]), node(0, 0, &[(0, 50)]), node(0, 0, &[(0, 300)]), node(0, 0, &[(1, 500), (2, 20)])];
    let ran = run(nodes, &[0.0], None, &[], OnFailure::End);
    // 0 ends at 100; 1 runs 150–250, 2 runs 400–500; the join is ready at the later of 250 + 500 and 500 + 20.
    assert_eq!(ran.rows[3], (3, 750, 750));
}

#[test]
fn a_join_sends_nothing_and_releases_its_successors() {
    let mut nodes =
        vec![node(0, 40, &[]), node(0, 0, &[(0, 0)]), node(0, 0, &[(0, 0), (1, 60)]), node(0, 0, &[(2, 0)])];
    nodes[0].sends = false;
    nodes[2].sends = false;
    let ran = run(nodes, &[0.0], None, &[], OnFailure::End);
    assert_eq!(ran.rows, [(1, 40, 40), (3, 200, 200)]);
}

#[test]
fn a_failed_request_ends_its_session_and_no_other() {
    let nodes = || vec![node(0, 0, &[]), node(0, 0, &[(0, 0)]), node(1, 0, &[]), node(1, 0, &[(2, 0)])];
    let ended = run(nodes(), &[0.0, 0.0], None, &[0], OnFailure::End);
    assert_eq!(ended.rows.iter().map(|row| row.0).collect::<Vec<usize>>(), [0, 2, 3]);
    let went_on = run(nodes(), &[0.0, 0.0], None, &[0], OnFailure::Continue);
    assert_eq!(went_on.rows.iter().map(|row| row.0).collect::<Vec<usize>>(), [0, 1, 2, 3]);
    assert!(went_on.supplied.contains(&(1, String::new())), "a failed answer is no part of what follows");
}

#[test]
fn no_slot_is_idle_while_a_session_waits() {
    let chained = |position: usize| match position.is_multiple_of(3) {
        true => node(position / 3, 0, &[]),
        false => node(position / 3, 0, &[(position - 1, 0)]),
    };
    let graph = Graph::new((0..60).map(chained).collect());
    let starts = vec![0.0; 20];
    // Ten slots among nine workers with twenty sessions: two of them would have three sessions and one or two slots.
    let ran = run_on(&whole(&graph, 0..20, &starts), &[], (9, Some(10)));
    let mut sent: Vec<u64> = ran.rows.iter().map(|(_, _, sent)| *sent).collect();
    sent.sort_unstable();
    let by_tens: Vec<u64> = (0..60).map(|position| position / 10 * 100).collect();
    assert_eq!(sent, by_tens);
}

#[test]
fn sessions_hold_their_place_to_the_end() {
    let nodes = vec![node(0, 0, &[]), node(0, 0, &[(0, 1000)]), node(1, 0, &[]), node(2, 0, &[])];
    let ran = run(nodes, &[0.0, 0.0, 0.0], Some(1), &[], OnFailure::End);
    let sent: Vec<(usize, u64)> = ran.rows.iter().map(|row| (row.0, row.2)).collect();
    assert_eq!(sent, [(0, 0), (1, 1100), (2, 1200), (3, 1300)], "the pause is held too");
}

#[test]
fn sessions_start_when_planned() {
    let nodes = vec![node(0, 0, &[]), node(1, 30, &[]), node(1, 0, &[(1, 5)])];
    let ran = run(nodes, &[0.5, 2.0], None, &[], OnFailure::End);
    assert_eq!(ran.rows, [(0, 500, 500), (1, 2030, 2030), (2, 2135, 2135)]);
}

#[test]
fn the_limit_on_sessions_rises_over_the_ramp() {
    let graph = Graph::new((0..4).map(|session| node(session, 0, &[])).collect());
    let (starts, ramp) = ([0.0; 4], ms(60));
    let (range, max_sessions, on_failure) = (0..4, Some(3), OnFailure::End);
    let plan = SessionPlan { max_sessions, ramp, on_failure, ..whole(&graph, range, &starts) };
    let sent: Vec<u64> = run_plan(&plan, &[]).rows.iter().map(|row| row.2).collect();
    assert_eq!(sent, [0, 30, 60, 100], "one from the beginning, two at half of it, three after it");
}

#[test]
fn a_part_of_the_sessions_starts_at_once_and_leaves_those_of_others() {
    let graph = Graph::new((0..6).map(|session| node(session, 0, &[])).collect());
    let starts = [0.0, 1.0, 2.0, 2.25, 2.5, 3.0];
    let plan = SessionPlan { from: 2.0, stride: 2, ..whole(&graph, 2..6, &starts) };
    assert_eq!(run_plan(&plan, &[]).rows, [(2, 0, 0), (4, 500, 500)]);
}

#[test]
fn a_turn_keeps_its_gap_from_the_scheduled_time_before_it() {
    let gap = |index, parents: &[(usize, u64)], gap| Node { gap: ms(gap), ..node(index, 0, parents) };
    let nodes = vec![node(0, 0, &[]), gap(0, &[(0, 0)], 300), gap(0, &[(1, 0)], 30)];
    let ran = run(nodes, &[0.0], None, &[], OnFailure::End);
    // A completion takes 100: the second request waits for its gap, the third for the completion.
    assert_eq!(ran.rows, [(0, 0, 0), (1, 300, 300), (2, 400, 400)]);
}

/// The first completion of a session calls tools that take 400 ms; the last step carries their results.
struct Calls;

impl Script for Calls {
    fn keeps(&self, _: usize) -> bool {
        true
    }

    fn request(&self, index: usize, responses: &Completions) -> Option<Request> {
        Joined.request(index, responses)
    }

    fn tools(&self, index: usize, _: &Completions) -> Option<(usize, Duration)> {
        (index == 2).then_some((0, ms(400)))
    }
}

#[test]
fn tools_run_concurrently_with_the_agents_that_a_step_waits_for() {
    // 0 ends at 100, its tools at 100 + 30 + 400; the agent runs from 100 to 200, or from 700 to 800.
    for (pause, due) in [(0, 530), (600, 800)] {
        let graph = Graph::new(vec![node(0, 0, &[]), node(0, 0, &[(0, pause)]), node(0, 0, &[(0, 30), (1, 0)])]);
        let ran = run_plan(&SessionPlan { script: &Calls, ..whole(&graph, 0..1, &[0.0]) }, &[]);
        assert_eq!(ran.rows[2], (2, due, due));
    }
}

#[test]
fn sessions_beyond_the_range_are_not_started() {
    let graph = Graph::new(vec![node(0, 0, &[]), node(1, 0, &[]), node(2, 0, &[])]);
    for max_sessions in [None, Some(1)] {
        let plan = SessionPlan { max_sessions, ..whole(&graph, 0..2, &[0.0, 0.1, 0.2]) };
        let sent: Vec<usize> = run_plan(&plan, &[]).rows.iter().map(|row| row.0).collect();
        assert_eq!(sent, [0, 1]);
    }
}

#[test]
fn a_stop_cuts_a_run_of_sessions_short() {
    let graph = Graph::new(vec![node(0, 0, &[])]);
    let (clock, failing, supplied) = (ManualClock::default(), HashSet::new(), Mutex::default());
    let target = Echo { clock, time: ms(100), failing, supplied };
    let timeline = ScheduleSpec::Replay(vec![0.0]).plan(1, &mut RandomState::new(0)).unwrap();
    for stopped in [false, true] {
        let (stop, counters) = (StopSignal::default(), Counters::default());
        if stopped {
            stop.request_stop();
        }
        let drive = Drive::of(&timeline, &target.clock, &stop, &counters);
        let driven = drive_sessions(&target, &drive, &whole(&graph, 0..1, &[0.0]), &mut Kept::default()).unwrap();
        assert_eq!(driven.is_interrupted(), stopped);
    }
}
