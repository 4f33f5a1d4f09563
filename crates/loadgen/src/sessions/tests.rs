use std::collections::HashSet;
use std::io;
use std::sync::Mutex;

use tacho_core::{Clock, Counters, FailureKind, Kept, ManualClock, Outcome};
use tacho_pyrand::RandomState;

use super::*;
use crate::{Drive, ScheduleSpec, StopSignal, Target, WorkerStats, drive_sessions};

/// Answers each request with its own number after a fixed time, on a clock that it moves itself.
struct Echo {
    clock: ManualClock,
    time: Duration,
    failing: HashSet<usize>,
    supplied: Mutex<Vec<(usize, String)>>,
}

struct EchoWorker<'a> {
    target: &'a Echo,
    under_way: Vec<Observation>,
}

impl Target for Echo {
    type Worker<'t> = EchoWorker<'t>;

    fn worker(&self, _: usize, _: usize) -> io::Result<EchoWorker<'_>> {
        Ok(EchoWorker { target: self, under_way: Vec::new() })
    }
}

impl Worker for EchoWorker<'_> {
    fn issue(&mut self, mut row: Observation) {
        row.sent = self.target.clock.now();
        self.under_way.push(row);
    }

    fn supply(&mut self, index: usize, request: &Request) {
        let tacho_core::Content::Text(text) = &request.content else { panic!("texts") };
        self.target.supplied.lock().unwrap().push((index, text.clone()));
    }

    fn turn(&mut self, until: Stamp, done: &mut Vec<Observation>) {
        let Echo { clock, time, failing, .. } = self.target;
        let first = self.under_way.iter().map(|row| row.sent + *time).min().unwrap_or(Stamp::NEVER);
        clock.set(until.min(first).max(clock.now() + Duration::from_micros(1)));
        let now = clock.now();
        let (over, rest) = self.under_way.drain(..).partition(|row| row.sent + *time <= now);
        self.under_way = rest;
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

    fn take_tokens(&mut self) -> u64 {
        0
    }

    fn stats(&self) -> WorkerStats {
        WorkerStats::default()
    }
}

/// All answers so far, in the order of their requests.
struct Joined;

impl Script for Joined {
    fn keeps(&self, _: usize) -> bool {
        true
    }

    fn request(&self, _: usize, answers: &HashMap<usize, Vec<u8>>) -> Option<Request> {
        let mut known: Vec<&usize> = answers.keys().collect();
        known.sort();
        let text: Vec<String> =
            known.iter().map(|index| String::from_utf8_lossy(&answers[index]).into_owned()).collect();
        Some(Request::text(text.join(","), 0, 1))
    }
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn node(session: usize, at: u64, parents: &[(usize, u64)]) -> Node {
    let parents = parents.iter().map(|(parent, pause)| (*parent, ms(*pause))).collect();
    Node { session, at: ms(at), parents, sends: true }
}

struct Ran {
    /// Request, milliseconds at which it was due and at which it was sent.
    rows: Vec<(usize, u64, u64)>,
    supplied: Vec<(usize, String)>,
}

fn run(nodes: Vec<Node>, starts: &[f64], max_sessions: Option<usize>, failing: &[usize], on_failure: OnFailure) -> Ran {
    let target = Echo {
        clock: ManualClock::default(),
        time: ms(100),
        failing: failing.iter().copied().collect(),
        supplied: Mutex::default(),
    };
    let count = nodes.len();
    let graph = Graph::new(nodes);
    let plan = SessionPlan { graph: &graph, starts, max_sessions, on_failure, script: &Joined };
    let timeline = ScheduleSpec::Replay(vec![0.0; count]).plan(count, &mut RandomState::new(0)).unwrap();
    let (stop, counters) = (StopSignal::default(), Counters::default());
    let drive = Drive::of(&timeline, &target.clock, &stop, &counters);
    let mut kept = Kept::default();
    let driven = drive_sessions(&target, &drive, &plan, &mut kept).unwrap();
    let since = |stamp: Stamp| (stamp.since(driven.origin).as_micros() as u64 + 500) / 1000;
    let rows = kept.into_rows().iter().map(|row| (row.index, since(row.due), since(row.sent))).collect();
    Ran { rows, supplied: target.supplied.into_inner().unwrap() }
}

#[test]
fn a_turn_is_due_after_the_answer_and_its_pause() {
    let nodes = vec![node(0, 0, &[]), node(0, 0, &[(0, 250)]), node(0, 1000, &[(1, 10)])];
    let ran = run(nodes, &[0.0], None, &[], OnFailure::End);
    assert_eq!(ran.rows, [(0, 0, 0), (1, 350, 350), (2, 1000, 1000)], "the latest of its own time and its parents'");
    assert_eq!(ran.supplied, [(1, "0".to_owned()), (2, "0,1".to_owned())]);
}

#[test]
fn a_join_waits_for_all_and_for_each_pause() {
    let nodes =
        vec![node(0, 0, &[]), node(0, 0, &[(0, 50)]), node(0, 0, &[(0, 300)]), node(0, 0, &[(1, 500), (2, 20)])];
    let ran = run(nodes, &[0.0], None, &[], OnFailure::End);
    // 0 ends at 100; 1 runs 150–250, 2 runs 400–500; the join is due at the later of 250 + 500 and 500 + 20.
    assert_eq!(ran.rows[3], (3, 750, 750));
}

#[test]
fn a_gate_sends_nothing_and_lets_others_go() {
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
    assert_eq!(went_on.supplied[0], (1, String::new()), "a failed answer is no part of what follows");
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
