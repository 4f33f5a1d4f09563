use std::time::Duration;

use tacho_core::Timestamp;

use crate::*;

const COST: CostModel = CostModel {
    fixed_ns: 1000.0,
    per_prefill_token_ns: 100.0,
    per_sequence_ns: 10.0,
    per_kv_token_ns: 1.0,
    ..CostModel::FREE
};

fn spec() -> EngineSpec {
    EngineSpec {
        max_num_seqs: 4,
        max_num_batched_tokens: 8,
        block_size: 4,
        num_blocks: 16,
        max_model_len: 64,
        enable_prefix_caching: false,
        mean_output_len: 8.0,
        ..EngineSpec::default()
    }
}

fn job(prompt: impl IntoIterator<Item = u32>, output: usize) -> Job {
    let output: Vec<u32> = (0..output as u32).map(|at| 1000 + at).collect();
    Job::generate(prompt.into_iter().collect(), output.into(), Finish::Length)
}

/// Runs one step from `now`; returns its batch, its end, and the tokens as (sequence, position).
fn step(engine: &mut Engine, now: &mut Timestamp) -> (BatchShape, Vec<(u64, usize)>) {
    let step = engine.begin_step(*now).expect("there is work");
    *now = *now + step.takes;
    let mut events = Vec::new();
    engine.end_step(*now, &mut events);
    engine.check_balance();
    (step.batch, events.iter().map(|event| (event.id.0, event.position)).collect())
}

#[test]
fn long_prompts_are_prefilled_in_chunks_next_to_decoding() {
    let mut engine = Engine::new(spec(), COST).unwrap();
    let mut now = Timestamp::ZERO;
    engine.submit(SeqId(1), job(0..2, 4), now).unwrap();
    engine.submit(SeqId(2), job(100..113, 2), now).unwrap();

    let (batch, tokens) = step(&mut engine, &mut now);
    assert_eq!(batch, BatchShape { prefill_tokens: 8, decode_sequences: 0, sequences: 2, kv_tokens: 8 });
    assert_eq!(tokens, [(1, 0)], "the second prompt has 6 of 13 tokens done");
    assert_eq!(now, Timestamp(1000 + 800 + 20 + 8));

    let (batch, tokens) = step(&mut engine, &mut now);
    assert_eq!(batch, BatchShape { prefill_tokens: 7, decode_sequences: 1, sequences: 2, kv_tokens: 3 + 13 });
    assert_eq!(tokens, [(1, 1), (2, 0)]);

    let (batch, tokens) = step(&mut engine, &mut now);
    assert_eq!(batch, BatchShape { prefill_tokens: 0, decode_sequences: 2, sequences: 2, kv_tokens: 4 + 14 });
    assert_eq!(tokens, [(1, 2), (2, 1)]);

    let (batch, tokens) = step(&mut engine, &mut now);
    assert_eq!((batch.sequences, tokens), (1, vec![(1, 3)]));
    assert!(engine.begin_step(now).is_none() && engine.is_idle());
    assert_eq!(engine.free_blocks(), 16);
}

#[test]
fn admission_is_first_come_first_served_up_to_max_num_seqs() {
    let mut engine = Engine::new(EngineSpec { max_num_seqs: 2, ..spec() }, COST).unwrap();
    let mut now = Timestamp::ZERO;
    (1..=4).for_each(|id| engine.submit(SeqId(id), job([id as u32], 2), now).unwrap());
    assert_eq!(step(&mut engine, &mut now).1, [(1, 0), (2, 0)]);
    assert_eq!((engine.running_ids(), engine.waiting_ids()), (vec![1, 2], vec![3, 4]));
    assert_eq!(step(&mut engine, &mut now).1, [(1, 1), (2, 1)]);
    assert_eq!(step(&mut engine, &mut now).1, [(3, 0), (4, 0)]);
}

#[test]
fn a_prompt_that_does_not_fit_yet_blocks_those_behind_it() {
    let mut engine = Engine::new(EngineSpec { num_blocks: 4, max_num_batched_tokens: 64, ..spec() }, COST).unwrap();
    let mut now = Timestamp::ZERO;
    engine.submit(SeqId(1), job(0..8, 3), now).unwrap();
    engine.submit(SeqId(2), job(0..12, 1), now).unwrap();
    engine.submit(SeqId(3), job(0..1, 1), now).unwrap();
    assert_eq!(step(&mut engine, &mut now).1, [(1, 0)]);
    assert_eq!(engine.waiting_ids(), [2, 3]);
    step(&mut engine, &mut now);
    step(&mut engine, &mut now);
    assert_eq!(step(&mut engine, &mut now).1, [(2, 0), (3, 0)]);
}

#[test]
fn out_of_blocks_preempts_and_recomputes_the_newest() {
    let mut engine = Engine::new(EngineSpec { num_blocks: 4, ..spec() }, COST).unwrap();
    let mut now = Timestamp::ZERO;
    engine.submit(SeqId(1), job(0..4, 8), now).unwrap();
    engine.submit(SeqId(2), job(10..14, 8), now).unwrap();
    (0..5).for_each(|_| drop(step(&mut engine, &mut now)));
    assert_eq!(engine.free_blocks(), 0);
    let (batch, tokens) = step(&mut engine, &mut now);
    assert_eq!(tokens, [(1, 5)], "the older goes on");
    assert_eq!(batch.sequences, 1);
    assert_eq!((engine.running_ids(), engine.waiting_ids()), (vec![1], vec![2]));
    assert_eq!(engine.stats().preemptions, 1);
    step(&mut engine, &mut now);
    assert_eq!(step(&mut engine, &mut now).1, [(1, 7)]);
    let (batch, tokens) = step(&mut engine, &mut now);
    assert_eq!(batch.prefill_tokens, 8, "prompt and five tokens, up to the step's budget");
    assert_eq!(tokens, []);
    let (batch, tokens) = step(&mut engine, &mut now);
    assert_eq!((batch.decode_sequences, tokens), (1, vec![(2, 5)]), "no token is lost or made twice");
}

#[test]
fn out_of_blocks_the_lowest_priority_is_preempted() {
    let spec = EngineSpec { num_blocks: 4, policy: Policy::Priority, ..spec() };
    let mut engine = Engine::new(spec, COST).unwrap();
    let mut now = Timestamp::ZERO;
    engine.submit(SeqId(1), Job { priority: 3, ..job(0..4, 8) }, now).unwrap();
    engine.submit(SeqId(2), Job { priority: 1, ..job(10..14, 8) }, now).unwrap();
    (0..5).for_each(|_| drop(step(&mut engine, &mut now)));
    assert_eq!(engine.running_ids(), [2, 1], "the urgent one was admitted first");
    let (_, tokens) = step(&mut engine, &mut now);
    assert_eq!(tokens, [(2, 5)]);
    assert_eq!((engine.running_ids(), engine.waiting_ids()), (vec![2], vec![1]));
    engine.submit(SeqId(3), Job { priority: 2, ..job(20..22, 1) }, now).unwrap();
    assert_eq!(engine.waiting_ids(), [3, 1], "rank, not arrival");
}

#[test]
fn decoding_alone_computes_one_token_of_a_prompt() {
    let spec = EngineSpec { decode_bench: true, max_num_batched_tokens: 8, num_blocks: 16, ..spec() };
    let mut engine = Engine::new(spec, COST).unwrap();
    let mut now = Timestamp::ZERO;
    engine.submit(SeqId(1), job(0..40, 2), now).unwrap();
    let (batch, tokens) = step(&mut engine, &mut now);
    assert_eq!((batch.prefill_tokens, batch.kv_tokens, tokens), (1, 40, vec![(1, 0)]), "beyond the step's budget");
}

#[test]
fn a_prompt_computed_elsewhere_waits_for_its_kv_and_blocks_no_other() {
    let transfer = Transfer { fixed_ns: 5_000.0, per_token_ns: 100.0 };
    let mut engine = Engine::new(EngineSpec { transfer, ..spec() }, COST).unwrap();
    let mut now = Timestamp::ZERO;
    engine.submit(SeqId(1), Job { remote: true, ..job(0..6, 2) }, now).unwrap();
    engine.submit(SeqId(2), job(10..12, 1), now).unwrap();
    assert_eq!(step(&mut engine, &mut now).1, [(2, 0)]);
    assert!(engine.begin_step(now).is_none() && !engine.is_idle());
    assert_eq!(engine.wakes(), Some(Timestamp(5_600)));
    now = Timestamp(5_600);
    let (batch, tokens) = step(&mut engine, &mut now);
    assert_eq!((batch.prefill_tokens, batch.kv_tokens, tokens), (1, 6, vec![(1, 0)]));
}

#[test]
fn a_shared_prefix_is_not_computed_again() {
    let spec = EngineSpec { enable_prefix_caching: true, max_num_batched_tokens: 64, ..spec() };
    let mut engine = Engine::new(spec.clone(), COST).unwrap();
    let mut now = Timestamp::ZERO;
    engine.submit(SeqId(1), job(0..10, 1), now).unwrap();
    let (first, _) = step(&mut engine, &mut now);
    engine.submit(SeqId(2), job(0..10, 1), now).unwrap();
    let (second, _) = step(&mut engine, &mut now);
    assert_eq!((first.prefill_tokens, second.prefill_tokens), (10, 2), "two full blocks of four are reused");
    assert!(COST.step_time(&second) < COST.step_time(&first));
    let stats = engine.stats();
    assert_eq!((stats.prefix_cache_queries, stats.prefix_cache_hits), (20, 8));

    let salted = Job { salt: 1, ..job(0..10, 1) };
    engine.submit(SeqId(3), salted, now).unwrap();
    assert_eq!(step(&mut engine, &mut now).0.prefill_tokens, 10, "another adapter shares nothing");
    assert!(engine.reset_prefix_cache());
    engine.submit(SeqId(4), job(0..10, 1), now).unwrap();
    assert_eq!(step(&mut engine, &mut now).0.prefill_tokens, 10, "forgotten");

    let mut plain = Engine::new(EngineSpec { enable_prefix_caching: false, ..spec }, COST).unwrap();
    for id in 0..2 {
        plain.submit(SeqId(id), job(0..10, 1), now).unwrap();
        assert_eq!(step(&mut plain, &mut now).0.prefill_tokens, 10);
    }
    assert_eq!(plain.stats().prefix_cache_queries, 0);
}

#[test]
fn a_wholly_cached_prompt_still_computes_its_last_block() {
    let spec = EngineSpec { enable_prefix_caching: true, ..spec() };
    let mut engine = Engine::new(spec, COST).unwrap();
    let mut now = Timestamp::ZERO;
    for id in 0..2 {
        engine.submit(SeqId(id), job(0..8, 1), now).unwrap();
        let (batch, tokens) = step(&mut engine, &mut now);
        assert_eq!((batch.prefill_tokens, tokens), ([8, 4][id as usize], vec![(id, 0)]));
    }
}

#[test]
fn shared_blocks_are_read_once() {
    let spec = EngineSpec { enable_prefix_caching: true, max_num_batched_tokens: 64, ..spec() };
    let mut engine = Engine::new(spec, COST).unwrap();
    let mut now = Timestamp::ZERO;
    engine.submit(SeqId(1), job(0..10, 3), now).unwrap();
    step(&mut engine, &mut now);
    engine.submit(SeqId(2), job(0..10, 3), now).unwrap();
    let both = [(); 2].map(|()| step(&mut engine, &mut now).0.kv_tokens);
    assert_eq!(both, [11 + 10 - 8, 12 + 11 - 8], "two full blocks of four are shared");
    assert_eq!(step(&mut engine, &mut now).0.kv_tokens, 12, "no sequence shares them any more");
}

#[test]
fn generated_tokens_are_a_prefix_for_the_next_turn() {
    let spec = EngineSpec { enable_prefix_caching: true, max_num_batched_tokens: 64, ..spec() };
    let mut engine = Engine::new(spec, COST).unwrap();
    let mut now = Timestamp::ZERO;
    let first = job(0..4, 5);
    let second: Vec<u32> = first.prompt.iter().chain(first.output.ids()).copied().chain([7]).collect();
    engine.submit(SeqId(1), first, now).unwrap();
    (0..5).for_each(|_| drop(step(&mut engine, &mut now)));
    engine.submit(SeqId(2), job(second, 1), now).unwrap();
    assert_eq!(step(&mut engine, &mut now).0.prefill_tokens, 2, "eight of ten tokens were computed before");
}

#[test]
fn cancelling_frees_blocks_wherever_the_sequence_is() {
    let mut engine = Engine::new(EngineSpec { max_num_seqs: 1, ..spec() }, COST).unwrap();
    let mut now = Timestamp::ZERO;
    engine.submit(SeqId(1), job(0..8, 4), now).unwrap();
    engine.submit(SeqId(2), job(0..8, 4), now).unwrap();
    step(&mut engine, &mut now);
    let step = engine.begin_step(now).unwrap();
    assert_eq!(engine.cancel(&[SeqId(1), SeqId(2)]), 2, "one in the middle of a step, one in the queue");
    assert_eq!(engine.cancel(&[SeqId(2)]), 0);
    let mut events = Vec::new();
    engine.end_step(now + step.takes, &mut events);
    assert_eq!((events, engine.free_blocks()), (vec![], 16));
    assert_eq!(engine.stats().finished_abort, 2);
    engine.check_balance();
}

#[test]
fn jobs_that_can_never_run_are_refused() {
    let mut engine = Engine::new(EngineSpec { num_blocks: 3, max_model_len: 20, ..spec() }, COST).unwrap();
    let mut refuse = |job: Job| engine.submit(SeqId(1), job, Timestamp::ZERO).unwrap_err();
    assert_eq!(refuse(job([], 1)), Rejection::EmptyPrompt);
    assert_eq!(refuse(job([1], 0)), Rejection::EmptyOutput);
    assert_eq!(refuse(job(0..20, 1)), Rejection::TooLong { tokens: 21, limit: 20 });
    assert_eq!(refuse(job(0..10, 4)), Rejection::NeverFits { needed: 4, blocks: 3 });
    assert!(engine.submit(SeqId(1), job(0..10, 3), Timestamp::ZERO).is_ok());
}

#[test]
fn latencies_are_counted_from_the_given_times() {
    let mut engine = Engine::new(EngineSpec { max_num_seqs: 1, ..spec() }, COST).unwrap();
    engine.submit(SeqId(1), job(0..4, 3), Timestamp(500)).unwrap();
    let mut now = Timestamp(1_000_500);
    let start = now;
    let mut ends = Vec::new();
    for _ in 0..3 {
        step(&mut engine, &mut now);
        ends.push(now);
    }
    let stats = engine.stats();
    let secs = |from: Timestamp, to: Timestamp| to.since(from).as_secs_f64();
    assert_eq!(stats.queue_time.sum(), secs(Timestamp(500), start));
    assert_eq!(stats.time_to_first_token.sum(), secs(Timestamp(500), ends[0]));
    assert_eq!(stats.inter_token_latency.count(), 2);
    assert!((stats.inter_token_latency.sum() - secs(ends[0], ends[2])).abs() < 1e-15);
    assert_eq!(stats.e2e_request_latency.sum(), secs(Timestamp(500), ends[2]));
    assert_eq!((stats.prompt_tokens, stats.generation_tokens, stats.finished_length), (4, 3, 1));
    assert_eq!((stats.steps, stats.running, stats.kv_cache_usage), (3, 0, 0.0));
    assert_eq!(ends[0].since(start), Duration::from_nanos(1000 + 400 + 10 + 4));
}

#[test]
fn limits_that_cannot_work_are_refused() {
    for bad in [
        EngineSpec { block_size: 0, ..spec() },
        EngineSpec { max_num_seqs: 9, ..spec() },
        EngineSpec { mean_output_len: 0.5, ..spec() },
        EngineSpec { num_blocks: usize::MAX, ..spec() },
    ] {
        assert!(Engine::new(bad, COST).is_err());
    }
}
