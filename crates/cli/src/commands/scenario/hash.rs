//! `tacho hash`: the hash functions of the prefix cache.

use std::hash::{BuildHasher, RandomState};

use tacho_core::json::{Dict, Value, dumps};
use tacho_report::hash as report;
use tacho_run::scenarios::hash;
use tacho_workload::hashing::{Algorithm, Chain, Payload, hex, make_blocks};

use super::{print, save_json};
use crate::args::scenario::hash::HashArgs;
use crate::exit::Exit;

/// Runs the benchmarks that the arguments ask for.
pub(crate) fn run(args: &HashArgs) -> anyhow::Result<Exit> {
    let seed = std::env::var("PYTHONHASHSEED").ok();
    // vLLM draws 32 random bytes for each process; any fresh bits serve.
    let drawn: String = (0..4).map(|at| format!("{:016x}", RandomState::new().hash_one(at))).collect();
    let seeds = |algorithm| Chain::seed(algorithm, seed.as_deref(), &drawn);
    if args.dry_run || args.save_workload.is_some() {
        let digests = digests(args, &seeds);
        match &args.save_workload {
            Some(path) => save_json(path.as_ref(), digests)?,
            None => print(&[dumps(&Value::Dict(digests))])?,
        }
        if args.dry_run {
            return Ok(Exit::Done);
        }
    }
    if args.functions {
        print(&report::functions(
            &hash::functions(&Payload::new(args.payload_seed), args.iterations),
            args.iterations,
        ))?;
    }
    if args.blocks {
        let blocks = make_blocks(&args.spec);
        print(&[report::chains_headline(args.algorithms.len(), args.spec.num_blocks, args.spec.block_size)])?;
        for &algorithm in &args.algorithms {
            print(&[report::chain(&hash::chains(algorithm, &seeds(algorithm), &blocks, args.trials))])?;
        }
    }
    Ok(Exit::Done)
}

/// What is hashed, and to what.
fn digests(args: &HashArgs, seeds: &dyn Fn(Algorithm) -> String) -> Dict {
    let mut all = Dict::new();
    let numbers = |numbers: &[u64]| Value::List(numbers.iter().map(|&number| Value::from(number)).collect());
    if args.functions {
        let payload = Payload::new(args.payload_seed);
        let mut bytes = Vec::new();
        let mut functions = Dict::new();
        functions.set("seed", args.payload_seed);
        functions.set("bytes", hex(&payload.bytes));
        functions.set("integers", numbers(&payload.numbers));
        let digest = |algorithm: Algorithm| {
            (algorithm.name().to_owned(), Value::from(hex(&algorithm.digest(payload.input(), &mut bytes))))
        };
        functions.set("digests", Algorithm::ALL.into_iter().map(digest).collect::<Dict>());
        functions.set("builtin_hash", payload.builtin_hash(crate::commands::dataset::hash_seed()));
        all.set("functions", functions);
    }
    if args.blocks {
        let blocks = make_blocks(&args.spec);
        let mut chains = Dict::new();
        chains.set("blocks", blocks.iter().map(|block| numbers(block)).collect::<Vec<Value>>());
        let chain = |&algorithm: &Algorithm| {
            let chain = Chain::new(algorithm, &seeds(algorithm), &blocks);
            let mut one = Dict::new();
            one.set("none_hash", hex(&chain.none_hash));
            one.set("chain", chain.hashes.iter().map(|hash| Value::from(hex(hash))).collect::<Vec<Value>>());
            (algorithm.name().to_owned(), Value::Dict(one))
        };
        chains.set("algorithms", args.algorithms.iter().map(chain).collect::<Dict>());
        all.set("blocks", chains);
    }
    all
}
