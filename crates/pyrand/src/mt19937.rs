//! The Mersenne Twister that CPython's `random` and NumPy's `RandomState` share: state and words, no distributions.

use crate::interval::Words;

const WORDS: usize = 624;
const SHIFT: usize = 397;
const HIGH_BIT: u32 = 0x8000_0000;
const TWIST: u32 = 0x9908_b0df;
const ARRAY_SEED: u32 = 19_650_218;

/// MT19937 with its 624 words of state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mt19937 {
    words: [u32; WORDS],
    position: usize,
}

impl Mt19937 {
    /// Seeded by one word, as `init_genrand` does.
    pub fn from_word(seed: u32) -> Self {
        let mut words = [0; WORDS];
        words[0] = seed;
        for i in 1..WORDS {
            let before = words[i - 1];
            words[i] = 1_812_433_253_u32.wrapping_mul(before ^ (before >> 30)).wrapping_add(i as u32);
        }
        Mt19937 { words, position: WORDS }
    }

    /// Seeded by several words, as `init_by_array` does. An empty key counts as one zero word.
    pub fn from_key(key: &[u32]) -> Self {
        let key = if key.is_empty() { &[0] } else { key };
        let mut twister = Mt19937::from_word(ARRAY_SEED);
        let words = &mut twister.words;
        let (mut i, mut j) = (1, 0);
        for _ in 0..WORDS.max(key.len()) {
            let mixed = mix_before(words, i).wrapping_mul(1_664_525);
            words[i] = (words[i] ^ mixed).wrapping_add(key[j]).wrapping_add(j as u32);
            i = next_word(words, i);
            j = (j + 1) % key.len();
        }
        for _ in 1..WORDS {
            let mixed = mix_before(words, i).wrapping_mul(1_566_083_941);
            words[i] = (words[i] ^ mixed).wrapping_sub(i as u32);
            i = next_word(words, i);
        }
        words[0] = HIGH_BIT;
        twister
    }

    /// The next 32 bits.
    pub fn next_u32(&mut self) -> u32 {
        if self.position == WORDS {
            self.regenerate();
        }
        let mut word = self.words[self.position];
        self.position += 1;
        word ^= word >> 11;
        word ^= (word << 7) & 0x9d2c_5680;
        word ^= (word << 15) & 0xefc6_0000;
        word ^ (word >> 18)
    }

    /// The next 64 bits, high word first.
    pub fn next_u64(&mut self) -> u64 {
        let high = u64::from(self.next_u32());
        high << 32 | u64::from(self.next_u32())
    }

    /// The next double in `[0, 1)`, of 53 random bits.
    pub fn next_f64(&mut self) -> f64 {
        let high = f64::from(self.next_u32() >> 5);
        let low = f64::from(self.next_u32() >> 6);
        (high * 67_108_864.0 + low) / 9_007_199_254_740_992.0
    }

    fn regenerate(&mut self) {
        for i in 0..WORDS {
            let joined = (self.words[i] & HIGH_BIT) | (self.words[(i + 1) % WORDS] & !HIGH_BIT);
            let twist = if joined & 1 == 1 { TWIST } else { 0 };
            self.words[i] = self.words[(i + SHIFT) % WORDS] ^ (joined >> 1) ^ twist;
        }
        self.position = 0;
    }
}

fn mix_before(words: &[u32; WORDS], i: usize) -> u32 {
    words[i - 1] ^ (words[i - 1] >> 30)
}

/// Steps the seeding cursor, which skips word 0 after copying the last word there.
fn next_word(words: &mut [u32; WORDS], i: usize) -> usize {
    if i + 1 < WORDS {
        return i + 1;
    }
    words[0] = words[WORDS - 1];
    1
}

impl Words for Mt19937 {
    fn word32(&mut self) -> u32 {
        self.next_u32()
    }

    fn word64(&mut self) -> u64 {
        self.next_u64()
    }
}
