//! Blocks of tokens and the chain of their hashes.

use tacho_pyrand::Random;

use super::{Algorithm, Input};

/// Settings of the blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlocksSpec {
    /// How many.
    pub num_blocks: usize,
    /// Tokens of one.
    pub block_size: usize,
    /// Tokens are below this number.
    pub vocab_size: u64,
    /// Seed of the draws.
    pub seed: u64,
}

/// Draws the blocks, row by row.
pub fn make_blocks(spec: &BlocksSpec) -> Vec<Vec<u64>> {
    let mut random = Random::new(spec.seed);
    let mut block = || (0..spec.block_size).map(|_| random.below(spec.vocab_size)).collect();
    (0..spec.num_blocks).map(|_| block()).collect()
}

/// The hashes of blocks, each with its forerunner's in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    /// The hash from which the chain begins.
    pub none_hash: Vec<u8>,
    /// One for each block.
    pub hashes: Vec<Vec<u8>>,
}

impl Chain {
    /// The chain that begins with the hash of `seed`.
    pub fn new(algorithm: Algorithm, seed: &str, blocks: &[Vec<u64>]) -> Self {
        let mut bytes = Vec::new();
        let none_hash = algorithm.digest(Input::Text(seed), &mut bytes);
        let mut hashes: Vec<Vec<u8>> = Vec::with_capacity(blocks.len());
        for block in blocks {
            let parent = hashes.last().unwrap_or(&none_hash);
            hashes.push(algorithm.digest(Input::Block(parent, block), &mut bytes));
        }
        Chain { none_hash, hashes }
    }

    /// The text that a chain begins with: `PYTHONHASHSEED` where it is set, otherwise vLLM's own for SHA-256. The xxHash
    /// variants then begin with what the process draws.
    pub fn seed(algorithm: Algorithm, variable: Option<&str>, drawn: &str) -> String {
        let unset = if algorithm.is_sha() { "vllm-none-hash" } else { drawn };
        variable.unwrap_or(unset).to_owned()
    }
}
