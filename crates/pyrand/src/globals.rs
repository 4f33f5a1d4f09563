//! The two module-level generators of a Python process, passed explicitly to all code that draws from them.

use crate::{cpython::Random, randomstate::RandomState};

/// `random` and `np.random` as one process sees them.
#[derive(Debug, Clone, PartialEq)]
pub struct Globals {
    /// The `random` module.
    pub py: Random,
    pub np: RandomState,
}

impl Globals {
    /// Seeds both with `seed`, as `vllm bench serve` does at its start.
    pub fn seeded(seed: u32) -> Self {
        Globals { py: Random::new(u64::from(seed)), np: RandomState::new(seed) }
    }

    pub fn seed(&mut self, seed: u32) {
        *self = Globals::seeded(seed);
    }
}
