//! The two module-level generators of a Python process, made explicit: those who draws from them takes them along.

use crate::cpython::Random;
use crate::randomstate::RandomState;

/// `random` and `np.random` as one process sees them.
#[derive(Debug, Clone, PartialEq)]
pub struct Globals {
    /// The `random` module.
    pub py: Random,
    /// The `np.random` module.
    pub np: RandomState,
}

impl Globals {
    /// Both seeded with `seed`, as `vllm bench serve` does first of all.
    pub fn seeded(seed: u32) -> Self {
        Globals { py: Random::new(u64::from(seed)), np: RandomState::new(seed) }
    }

    /// Seeds both again.
    pub fn seed(&mut self, seed: u32) {
        *self = Globals::seeded(seed);
    }
}
