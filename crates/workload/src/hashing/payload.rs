//! What the benchmark of hash functions hashes.

use tacho_pyrand::{HashKey, Random};

use super::{Input, builtin};

/// 32 bytes and 32 numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payload {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// The numbers, from 1 to a million.
    pub numbers: Vec<u64>,
}

impl Payload {
    /// The payload of a seed.
    pub fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let bytes = (0..32).map(|_| random.getrandbits(8) as u8).collect();
        let numbers = (0..32).map(|_| random.randint(1, 1_000_000).unsigned_abs()).collect();
        Payload { bytes, numbers }
    }

    /// As the hash functions take it.
    pub fn input(&self) -> Input<'_> {
        Input::Pair(&self.bytes, &self.numbers)
    }

    /// Python's `hash()` of it under `PYTHONHASHSEED=seed`.
    pub fn builtin_hash(&self, seed: u32) -> i64 {
        builtin::hash(HashKey::from_seed(seed), &self.bytes, &self.numbers)
    }
}
