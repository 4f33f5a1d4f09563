//! Timing hash functions on the bytes that vLLM hashes. Python's call overhead is not in these times.

use std::hint::black_box;
use std::time::Instant;

use tacho_metrics::hash::{ChainTimes, FunctionTimes};
use tacho_workload::hashing::{Algorithm, Chain, Payload};

/// Calls before the clock starts.
const WARM_UPS: usize = 200;

/// Times each function on the payload, call by call.
pub fn functions(payload: &Payload, iterations: usize) -> Vec<FunctionTimes> {
    let mut bytes = Vec::new();
    let mut sha = || drop(black_box(Algorithm::Sha256.digest(black_box(payload.input()), &mut bytes)));
    let first = timed("SHA256 (pickle)", iterations, &mut sha);
    let mut bytes = Vec::new();
    let mut xxhash = || drop(black_box(Algorithm::XxHash.digest(black_box(payload.input()), &mut bytes)));
    let second = timed("xxHash (pickle)", iterations, &mut xxhash);
    let mut builtin = || {
        black_box(black_box(payload).builtin_hash(0));
    };
    vec![first, second, timed("built-in hash()", iterations, &mut builtin)]
}

fn timed(name: &'static str, iterations: usize, call: &mut dyn FnMut()) -> FunctionTimes {
    (0..WARM_UPS).for_each(|_| call());
    let mut micros = Vec::with_capacity(iterations);
    for _ in 0..iterations {
        let start = Instant::now();
        call();
        micros.push(start.elapsed().as_secs_f64() * 1e6);
    }
    FunctionTimes::of(name, &micros)
}

/// Times the hashing of whole chains.
pub fn chains(algorithm: Algorithm, seed: &str, blocks: &[Vec<u64>], trials: usize) -> ChainTimes {
    let seconds = (0..trials).map(|_| {
        let start = Instant::now();
        black_box(Chain::new(algorithm, seed, black_box(blocks)));
        start.elapsed().as_secs_f64()
    });
    let tokens = blocks.iter().map(Vec::len).sum();
    ChainTimes { algorithm: algorithm.name(), seconds: seconds.collect(), tokens }
}
