//! The real client in conversations: each turn's body contains the earlier responses, as with `tacho serve
//! --sessions`.

use std::time::Duration;

use tacho_client::{Client, ClientPlan, PayloadSpec};
use tacho_core::{Counters, Kept, Observation, Request, SystemClock};
use tacho_loadgen::{
    Completion, Completions, Drive, Graph, Node, OnFailure, ScheduleSpec, Script, SessionPlan, StopSignal,
    drive_sessions,
};
use tacho_pyrand::RandomState;
use tacho_sim::reference_server::send_times;
use tacho_text::Tokenizer;
use tacho_workload::sessions::{ReceivedResponse, Replay, ReplaySpec, SyntheticSpec, Trace};

use crate::{Load, Seen, server::Server, system, tacho::endpoint};

/// Pause between a response and the next turn.
pub(crate) const PAUSE: Duration = Duration::from_millis(50);
/// Interval in seconds over which conversations start, so that first turns do not wait for each other.
pub(crate) const BEGIN: f64 = 1.0;

/// Requests built from responses.
struct Talk(Replay);

impl Script for Talk {
    fn keeps(&self, index: usize) -> bool {
        self.0.keeps(index)
    }

    fn request(&self, index: usize, answers: &Completions) -> Option<Request> {
        self.0.request(index, &|place| answers.get(&place).map(heard))
    }
}

fn heard(said: &Completion) -> ReceivedResponse<'_> {
    ReceivedResponse { text: &said.text, reply: said.reply.as_deref() }
}

pub(crate) fn run(load: Load) -> Seen {
    let server = Server::start(load);
    let clock = SystemClock::start();
    let trace = Trace::made(&spec(load), &Tokenizer::builtin()).unwrap();
    let replay = ReplaySpec { chat: false, server_history: false, output_len: load.tokens as u64, seed: 0 };
    let talk = Talk(trace.replay(&replay, None).unwrap());
    let connections = ClientPlan { preconnect: load.streams, spare: false, at_most: Some(load.streams) };
    let payload = PayloadSpec { model: "reference".into(), ..PayloadSpec::default() };
    let client = Client::new(endpoint(&server), &payload, &talk.0.requests, connections, clock).unwrap();
    let at_once = ScheduleSpec::Rate { rate: f64::INFINITY, burstiness: 1.0 };
    let timeline = at_once.plan(trace.steps.len(), &mut RandomState::new(0)).unwrap();
    let (stop, counters) = (StopSignal::default(), Counters::default());
    let drive_plan = Drive::of(&timeline, &clock, &stop, &counters);
    let starts: Vec<f64> = (0..load.streams).map(|at| BEGIN * at as f64 / load.streams as f64).collect();
    let graph = graph(&trace);
    let plan = SessionPlan {
        graph: &graph,
        range: 0..load.streams,
        stride: 1,
        starts: &starts,
        from: 0.0,
        max_sessions: None,
        ramp: Duration::ZERO,
        on_failure: OnFailure::End,
        script: &talk,
    };
    let before = system::cpu_time();
    let mut kept = Kept::default();
    let driven = drive_sessions(&client, &drive_plan, &plan, &mut kept).unwrap();
    let cpu = system::cpu_time() - before;
    let blurred = driven.workers.iter().map(|worker| worker.late_coalesced).sum();
    let mut seen = Seen { cpu, blurred, ..Seen::default() };
    kept.into_rows().iter().for_each(|row| tell(&mut seen, row, row.index % load.turns));
    assert_eq!(seen.tokens, load.streams * load.turns * load.tokens);
    seen
}

fn tell(seen: &mut Seen, row: &Observation, turn: usize) {
    assert!(row.outcome.is_complete(), "{:?}", row.outcome);
    seen.tokens += row.chunks.len();
    seen.gaps.extend(row.chunks.windows(2).map(|pair| pair[1].0 - pair[0].0));
    seen.truth.extend(send_times(&row.text).windows(2).map(|pair| pair[1].0.saturating_sub(pair[0].0)));
    seen.late[turn.min(1)].push(row.sent.0.saturating_sub(row.scheduled.0));
}

fn spec(load: Load) -> SyntheticSpec {
    SyntheticSpec {
        conversations: load.streams,
        turns: (load.turns, load.turns),
        input_len: 32,
        later_len: 16,
        output_len: load.tokens as u64,
        prefix_len: 0,
        shared: (0.0, 0.0),
        delay_ms: PAUSE.as_secs_f64() * 1000.0,
        max_len: None,
        seed: 0,
    }
}

fn graph(trace: &Trace) -> Graph {
    let (trees, _) = trace.trees();
    let node = |(step, &session): (&tacho_workload::sessions::Step, &usize)| Node {
        session,
        parents: step.parents.iter().map(|edge| (edge.parent, PAUSE)).collect(),
        sends: true,
        ..Node::default()
    };
    Graph::new(trace.steps.iter().zip(&trees).map(node).collect())
}
