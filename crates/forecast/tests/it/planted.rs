//! Engines with known parameters, and requests to them in virtual time.

use std::sync::Arc;

use tacho_core::Timestamp;
use tacho_engine::simulation::{Arrival, Completion, Router, SendPolicy, simulate};
use tacho_engine::{CostModel, Front, Machine, Profile as Speed};
use tacho_forecast::fit::{self, Fitted, Traced};

pub(crate) fn planted() -> Machine {
    Machine {
        name: "planted".to_owned(),
        cost: CostModel {
            fixed_ns: 8e6,
            per_prefill_token_ns: 30e3,
            per_sequence_ns: 200e3,
            per_kv_token_ns: 300.0,
            per_attention_ns: 4.0,
            ..CostModel::FREE
        },
        engine: Speed::Tiny.engine(),
        front: Front { per_request_ns: 1.5e6, per_prompt_token_ns: 2e3, ..Front::default() },
        noise: 0.02,
        slowdown: None,
        errors: Vec::new(),
    }
}

/// Different servers: a slow one with chunked prefill, one with padded batches, and a noisy one.
pub(crate) fn others() -> [Machine; 3] {
    let mut slow = Machine { name: "splits prompts".to_owned(), ..planted() };
    slow.cost = CostModel {
        fixed_ns: 25e6,
        per_prefill_token_ns: 120e3,
        per_sequence_ns: 900e3,
        per_kv_token_ns: 1200.0,
        per_attention_ns: 60.0,
        ..CostModel::FREE
    };
    slow.engine.max_num_batched_tokens = 1024;
    slow.front = Front { per_request_ns: 6e6, per_prompt_token_ns: 8e3, per_token_ns: 60e3, ..Front::default() };
    let mut padded = Machine { name: "padded".to_owned(), ..planted() };
    padded.cost.padded_up_to = 24;
    padded.cost.per_sequence_ns = 400e3;
    let mut noisy = Machine { name: "noisy".to_owned(), ..planted() };
    noisy.noise = 0.06;
    [slow, padded, noisy]
}

pub(crate) fn learn(machine: &Machine, seed: u64) -> Fitted {
    let runs: Vec<Vec<Traced>> = [(1, 60, 1), (4, 100, 2), (12, 200, 3), (24, 300, 4)]
        .map(|(limit, count, own)| traced(machine, limit, count, own + 10 * seed))
        .into();
    fit::fit(&runs, &machine.engine, None).unwrap()
}

/// Requests of many lengths, all scheduled at once.
pub(crate) fn requests(count: usize, seed: u64) -> Vec<Arrival> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut draw = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let mut one = |at: u32| {
        let (prompt, output) = (30 + draw(1200) as u32, 20 + draw(150) as usize);
        let ids: Arc<[u32]> = (0..prompt).map(|id| id.wrapping_mul(31).wrapping_add(at << 16)).collect();
        Arrival { due: Timestamp::ZERO, prompt: ids, output, priority: 0 }
    };
    (0..count as u32).map(&mut one).collect()
}

pub(crate) fn traced(machine: &Machine, limit: usize, count: usize, seed: u64) -> Vec<Traced> {
    sent(machine, &requests(count, seed), Some(limit), seed)
}

pub(crate) fn sent(machine: &Machine, arrivals: &[Arrival], limit: Option<usize>, seed: u64) -> Vec<Traced> {
    let sending = SendPolicy { max_concurrency: limit, replicas: 1, router: Router::RoundRobin, seed };
    let completions = simulate(machine, arrivals, &sending).unwrap();
    let one = |(arrivals, completions): (&Arrival, &Completion)| Traced {
        sent: completions.sent.secs(),
        prompt: arrivals.prompt.len() as u64,
        tokens: completions.tokens.iter().map(|token| token.secs()).collect(),
    };
    arrivals.iter().zip(&completions).map(one).collect()
}
