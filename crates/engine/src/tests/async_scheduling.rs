//! Asynchronous scheduling, against times computed by hand: steps take 12 ms.

use std::collections::VecDeque;

use tacho_core::{ServerTimes, Timestamp};

use crate::*;

const COST: CostModel = CostModel { fixed_ns: 12e6, ..CostModel::FREE };
/// Scheduling a prefill step takes 30 ms.
const SLOW: CostModel = CostModel { schedule_ns: 30e6, ..COST };

fn spec() -> EngineSpec {
    EngineSpec {
        max_num_seqs: 4,
        max_num_batched_tokens: 8,
        block_size: 4,
        num_blocks: 32,
        max_model_len: 64,
        enable_prefix_caching: false,
        mean_output_len: 8.0,
        async_scheduling: true,
        ..EngineSpec::default()
    }
}

fn job(prompt: usize, output: usize) -> Job {
    let ids = |from: usize, count: usize| (from..from + count).map(|id| id as u32);
    Job::generate(ids(0, prompt).collect(), ids(100, output).collect(), Finish::Length)
}

/// Observed iterations, and tokens by sequence.
#[derive(Debug, Default)]
struct Seen {
    /// Start of each iteration, and the sequences in its batch.
    turns: Vec<(u64, usize)>,
    /// Times of the tokens of each sequence, in milliseconds.
    tokens: Vec<Vec<u64>>,
    /// The engine's own times of the sequences, as they ended.
    times: Vec<ServerTimes>,
}

/// Submits jobs at these milliseconds, and runs the engine until it is idle.
fn run_jobs(engine: &mut Engine, jobs: &[(u64, Job)]) -> Seen {
    let mut coming: VecDeque<(usize, &(u64, Job))> = jobs.iter().enumerate().collect();
    let mut seen = Seen { tokens: vec![vec![]; jobs.len()], ..Seen::default() };
    let (mut now, mut events) = (Timestamp::ZERO, Vec::new());
    loop {
        while let Some((id, (due, job))) = coming.pop_front_if(|(_, (due, _))| Timestamp(*due * 1_000_000) <= now) {
            engine.submit(SeqId(id as u64), job.clone(), Timestamp(due * 1_000_000)).unwrap();
        }
        let Some(step) = engine.begin_step(now) else {
            let Some((_, (due, _))) = coming.front() else { return seen };
            now = Timestamp(due * 1_000_000);
            continue;
        };
        seen.turns.push((now.0 / 1_000_000, step.batch.sequences));
        engine.check_balance();
        now = now + step.takes;
        engine.end_step(now, &mut events);
        engine.check_balance();
        for event in events.drain(..) {
            let tokens = &mut seen.tokens[event.id.0 as usize];
            assert_eq!(event.position, tokens.len());
            tokens.push(now.0 / 1_000_000);
            seen.times.extend(event.times);
        }
    }
}

fn observe_run(spec: EngineSpec, cost: CostModel, jobs: &[(u64, Job)]) -> Seen {
    run_jobs(&mut Engine::new(spec, cost).unwrap(), jobs)
}

#[test]
fn a_lone_request_waits_for_scheduling() {
    let lone = |cost: CostModel| observe_run(spec(), cost, &[(0, job(3, 4))]);
    let slow = lone(SLOW);
    assert_eq!(slow.tokens[0], [30, 42, 54, 66]);
    // An idle engine schedules two steps; the last iteration only waits.
    assert_eq!(slow.turns, [(0, 1), (30, 1), (30, 1), (42, 1), (54, 0)]);
    assert_eq!(lone(CostModel { drain_ns: 2e6, ..SLOW }).tokens[0], [32, 44, 56, 68]);
    let recorded = CostModel { schedule_cudagraph_ns: 5e6, cudagraph_max_tokens: 8, ..SLOW };
    assert_eq!(lone(recorded).tokens[0], [12, 24, 36, 48], "scheduled while nothing else could be computed");
}

#[test]
fn a_joining_prefill_delays_a_finished_token() {
    let seen = observe_run(spec(), SLOW, &[(0, job(3, 7)), (45, job(3, 2))]);
    // The second arrives during the iteration from 42 to 54 and is scheduled from 54 to 84; the fourth token was done
    // at 66.
    assert_eq!(seen.tokens, [vec![30, 42, 54, 84, 84, 96, 108], vec![84, 96]]);
}

#[test]
fn prefill_steps_are_bound_by_scheduling() {
    let chunks = observe_run(spec(), SLOW, &[(0, job(40, 2))]);
    assert_eq!(chunks.turns[..5], [(0, 1), (30, 1), (60, 1), (90, 1), (120, 1)]);
    assert_eq!(chunks.tokens[0], [150, 162]);
    let requests: Vec<(u64, Job)> = (0..5).map(|_| (0, job(8, 1))).collect();
    let each: Vec<u64> = observe_run(spec(), SLOW, &requests).tokens.concat();
    assert_eq!(each, [60, 90, 120, 150, 150], "the last waits for no scheduling");
}

#[test]
fn a_first_token_comes_a_step_later_than_without() {
    let jobs = [(0, job(3, 5)), (13, job(3, 1))];
    let ahead = observe_run(spec(), COST, &jobs);
    let plain = observe_run(EngineSpec { async_scheduling: false, ..spec() }, COST, &jobs);
    assert_eq!(ahead.tokens[0], plain.tokens[0]);
    assert_eq!((&ahead.tokens[1][..], &plain.tokens[1][..]), (&[48][..], &[36][..]));
}

#[test]
fn places_are_kept_until_the_last_token_is_out() {
    let jobs = [2, 2, 4, 4, 1].map(|output| (0, job(1, output)));
    let steps = |seen: Seen| seen.turns.into_iter().map(|(_, sequences)| sequences).collect::<Vec<_>>();
    assert_eq!(steps(observe_run(spec(), COST, &jobs)), [4, 4, 2, 3, 0]);
    let plain = EngineSpec { async_scheduling: false, ..spec() };
    assert_eq!(steps(observe_run(plain, COST, &jobs)), [4, 4, 3, 2]);
}

#[test]
fn a_preempted_sequence_gets_its_token_in_flight() {
    let mut engine = Engine::new(EngineSpec { num_blocks: 4, ..spec() }, COST).unwrap();
    let seen = run_jobs(&mut engine, &[(0, job(4, 8)), (0, job(4, 8))]);
    assert_eq!(seen.tokens[0], [12, 24, 36, 48, 60, 72, 84, 96]);
    // Preempted when the sixth step is scheduled, at 48, with its fifth token in flight; admitted again when the first
    // is done, and recomputed in two steps.
    assert_eq!(seen.tokens[1], [12, 24, 36, 48, 60, 120, 132, 144]);
    assert_eq!((engine.stats().preemptions, engine.free_blocks()), (1, 4));
}

#[test]
fn complete_sequences_are_not_preempted() {
    // The first needs a block while the only token of the second is in flight: the first is preempted, and continues at
    // once with the second's block.
    let mut engine = Engine::new(EngineSpec { num_blocks: 2, ..spec() }, COST).unwrap();
    let seen = run_jobs(&mut engine, &[(0, job(4, 4)), (0, job(3, 1))]);
    assert_eq!(seen.tokens, [vec![12, 24, 36, 48], vec![12]]);
    assert_eq!(seen.turns[..3], [(0, 2), (0, 0), (12, 1)]);
    assert_eq!(engine.stats().preemptions, 1);
}

#[test]
fn complete_sequences_read_no_blocks() {
    let spec = EngineSpec { enable_prefix_caching: true, max_num_batched_tokens: 64, ..spec() };
    let mut engine = Engine::new(spec, COST).unwrap();
    engine.submit(SeqId(1), job(10, 2), Timestamp::ZERO).unwrap();
    engine.submit(SeqId(2), job(10, 4), Timestamp::ZERO).unwrap();
    let mut now = Timestamp::ZERO;
    let mut read = || {
        let step = engine.begin_step(now).unwrap();
        now = now + step.takes;
        engine.end_step(now, &mut Vec::new());
        step.batch.kv_tokens
    };
    // Two blocks of four are shared, and read once until the first is done with its second token.
    assert_eq!([read(), read(), read(), read()], [10 + 10 - 8, 11 + 11 - 8, 12, 13]);
}

#[test]
fn cancelled_sequences_get_no_tokens_and_their_step_ends_as_planned() {
    let mut engine = Engine::new(spec(), COST).unwrap();
    engine.submit(SeqId(1), job(3, 5), Timestamp::ZERO).unwrap();
    let (mut now, mut events) = (Timestamp::ZERO, Vec::new());
    for _ in 0..2 {
        now = now + engine.begin_step(now).unwrap().takes;
        engine.end_step(now, &mut events);
    }
    assert_eq!((now, events.len()), (Timestamp(12_000_000), 1));
    assert_eq!((engine.cancel(&[SeqId(1)]), engine.free_blocks()), (1, 32));
    let wait = engine.begin_step(now).unwrap();
    assert_eq!((wait.batch, wait.takes.as_millis()), (BatchShape::default(), 12), "a step was in flight");
    engine.end_step(now + wait.takes, &mut events);
    assert_eq!((events.len(), engine.stats().steps), (1, 2));
    assert!(engine.begin_step(now + wait.takes).is_none() && engine.is_idle());
}

#[test]
fn latencies_are_counted_when_tokens_are_out() {
    let mut engine = Engine::new(spec(), SLOW).unwrap();
    let seen = run_jobs(&mut engine, &[(0, job(3, 7)), (45, job(3, 2))]);
    let stats = engine.stats();
    let near = |seconds: f64, wanted: f64| assert!((seconds - wanted).abs() < 1e-12, "{seconds} {wanted}");
    near(stats.time_to_first_token.sum(), 0.030 + 0.039);
    near(stats.e2e_request_latency.sum(), 0.108 + 0.051);
    near(stats.inter_token_latency.sum(), (0.108 - 0.030) + 0.012);
    near(stats.queue_time.sum(), 0.054 - 0.045);
    let times = |queue, prefill, decode| {
        let [queue, prefill, decode] = [queue, prefill, decode].map(ServerTimes::micros);
        ServerTimes { queue, prefill, decode }
    };
    assert_eq!(seen.times, [times(9e3, 30e3, 12e3), times(0.0, 30e3, 78e3)]);
    assert_eq!((stats.generation_tokens, stats.finished_length, stats.running), (9, 2, 0));
    assert_eq!(stats.steps as usize, seen.turns.iter().filter(|(_, sequences)| *sequences > 0).count());
}

#[test]
fn asynchronous_scheduling_costs_one_iteration_per_step() {
    let jobs: Vec<(u64, Job)> = (0..200).map(|at| (at * 20, job(1 + at as usize % 20, 1 + at as usize % 9))).collect();
    let ahead = observe_run(spec(), COST, &jobs).turns.len();
    let plain = observe_run(EngineSpec { async_scheduling: false, ..spec() }, COST, &jobs).turns.len();
    assert!(ahead < 2 * plain, "{ahead} {plain}");
}
