//! Identifiers in the form of random UUIDs, reproducible by seed.

use tacho_pyrand::Random;

pub(super) struct Identifiers {
    random: Random,
}

impl Identifiers {
    /// Seeded separately from the sampling generators.
    pub(super) fn new(seed: u64) -> Self {
        Identifiers { random: Random::new(seed ^ 0x7461_6368_6f00) }
    }

    pub(super) fn next(&mut self) -> String {
        let mut part = |bits: u32| self.random.getrandbits(bits);
        let (first, second, third, fourth) = (part(32), part(16), part(12), part(14));
        let last = part(32) << 16 | part(16);
        format!("{first:08x}-{second:04x}-4{third:03x}-{:04x}-{last:012x}", fourth | 0x8000)
    }
}
