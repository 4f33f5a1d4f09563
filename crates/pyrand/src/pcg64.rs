//! PCG64 (XSL-RR 128/64), NumPy's default bit generator: state and words, no distributions.

use crate::{interval::Words, seedseq::SeedSequence};

const MULTIPLIER: u128 = 0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645;

/// PCG64 with NumPy's buffer of one half word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pcg64 {
    state: u128,
    increment: u128,
    half: Option<u32>,
}

impl Pcg64 {
    /// Seeded as `PCG64(SeedSequence(...))`.
    pub fn from_sequence(sequence: &SeedSequence) -> Self {
        let words = sequence.words(8);
        let quad = |at: usize| u64::from(words[at + 1]) << 32 | u64::from(words[at]);
        let initial = u128::from(quad(0)) << 64 | u128::from(quad(2));
        let stream = u128::from(quad(4)) << 64 | u128::from(quad(6));
        let mut pcg = Pcg64 { state: 0, increment: stream << 1 | 1, half: None };
        pcg.step();
        pcg.state = pcg.state.wrapping_add(initial);
        pcg.step();
        pcg
    }

    /// The 128-bit state.
    pub fn state(&self) -> u128 {
        self.state
    }

    /// The 128-bit increment.
    pub fn increment(&self) -> u128 {
        self.increment
    }

    /// The next 64 bits; does not touch the half word that [`Pcg64::next_u32`] buffers.
    pub fn next_u64(&mut self) -> u64 {
        self.step();
        let folded = (self.state >> 64) as u64 ^ self.state as u64;
        folded.rotate_right((self.state >> 122) as u32)
    }

    /// The next 32 bits: the low half of a word first, its high half on the next call.
    pub fn next_u32(&mut self) -> u32 {
        if let Some(kept) = self.half.take() {
            return kept;
        }
        let word = self.next_u64();
        self.half = Some((word >> 32) as u32);
        word as u32
    }

    fn step(&mut self) {
        self.state = self.state.wrapping_mul(MULTIPLIER).wrapping_add(self.increment);
    }
}

impl Words for Pcg64 {
    fn word32(&mut self) -> u32 {
        self.next_u32()
    }

    fn word64(&mut self) -> u64 {
        self.next_u64()
    }
}
