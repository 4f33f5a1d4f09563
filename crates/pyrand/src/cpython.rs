//! CPython's `random.Random`: integers seed it by array, and indices are drawn by rejection of bit strings.

use std::collections::HashSet;

use crate::mt19937::Mt19937;

/// `random.Random(seed)`, or the module-level generator after `random.seed(seed)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Random {
    twister: Mt19937,
}

impl Random {
    /// Seeded with a non-negative integer; CPython seeds a negative one as its absolute value.
    pub fn new(seed: u64) -> Self {
        Random::from_words(&[seed as u32, (seed >> 32) as u32])
    }

    /// Seeded with an integer of any size, as little-endian 32-bit words.
    pub fn from_words(words: &[u32]) -> Self {
        let used = words.iter().rposition(|&word| word != 0).map_or(0, |last| last + 1);
        Random { twister: Mt19937::from_key(&words[..used]) }
    }

    pub fn seed(&mut self, seed: u64) {
        *self = Random::new(seed);
    }

    /// `random()`: a double in `[0, 1)`.
    pub fn random(&mut self) -> f64 {
        self.twister.next_f64()
    }

    pub fn uniform(&mut self, a: f64, b: f64) -> f64 {
        a + (b - a) * self.random()
    }

    /// `getrandbits(bits)` for at most 64 bits.
    pub fn getrandbits(&mut self, bits: u32) -> u64 {
        assert!(bits <= 64, "more than 64 bits need getrandbits_words");
        let words = self.getrandbits_words(bits);
        words.iter().rev().fold(0, |value, &word| value << 32 | u64::from(word))
    }

    /// `getrandbits(bits)` of any size, as little-endian 32-bit words.
    pub fn getrandbits_words(&mut self, bits: u32) -> Vec<u32> {
        (0..bits.div_ceil(32))
            .map(|word| {
                let wanted = (bits - word * 32).min(32);
                self.twister.next_u32() >> (32 - wanted)
            })
            .collect()
    }

    /// An index in `0..n`: `_randbelow`. Panics if `n` is 0: CPython raises for an empty range too, and callers check
    /// first.
    pub fn below(&mut self, n: u64) -> u64 {
        assert!(n > 0, "an empty range has no element");
        let bits = u64::BITS - n.leading_zeros();
        loop {
            let drawn =
                if bits <= 32 { u64::from(self.twister.next_u32() >> (32 - bits)) } else { self.getrandbits(bits) };
            if drawn < n {
                return drawn;
            }
        }
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            let j = self.below(i as u64 + 1) as usize;
            items.swap(i, j);
        }
    }

    /// The index that `choice` takes from a sequence of `len`; `None` if it is empty. A single element still draws.
    pub fn choice_index(&mut self, len: usize) -> Option<usize> {
        (len > 0).then(|| self.below(len as u64) as usize)
    }

    /// `randint(a, b)`, both ends included. Panics when `b < a`.
    pub fn randint(&mut self, a: i64, b: i64) -> i64 {
        assert!(a <= b, "an empty range has no element");
        let span = b.wrapping_sub(a) as u64;
        match span.checked_add(1) {
            Some(count) => a.wrapping_add(self.below(count) as i64),
            None => a.wrapping_add(self.full_range() as i64),
        }
    }

    /// The indices that `choices(sequence, k=count)` takes from a sequence of `len`.
    pub fn choices_indices(&mut self, len: usize, count: usize) -> Vec<usize> {
        let scale = len as f64;
        (0..count).map(|_| (self.random() * scale).floor() as usize).collect()
    }

    /// The indices that `sample(range(n), count)` takes. Panics when `count > n`.
    pub fn sample_indices(&mut self, n: usize, count: usize) -> Vec<usize> {
        assert!(count <= n, "a sample cannot be larger than its population");
        if n <= pool_limit(count) { self.sample_from_pool(n, count) } else { self.sample_by_rejection(n, count) }
    }

    fn sample_from_pool(&mut self, n: usize, count: usize) -> Vec<usize> {
        let mut pool: Vec<usize> = (0..n).collect();
        (0..count)
            .map(|i| {
                let j = self.below((n - i) as u64) as usize;
                let taken = pool[j];
                pool[j] = pool[n - i - 1];
                taken
            })
            .collect()
    }

    fn sample_by_rejection(&mut self, n: usize, count: usize) -> Vec<usize> {
        let mut seen = HashSet::with_capacity(count);
        let mut taken = Vec::with_capacity(count);
        while taken.len() < count {
            let j = self.below(n as u64) as usize;
            if seen.insert(j) {
                taken.push(j);
            }
        }
        taken
    }

    /// Python's integers are unbounded, so a span of 2^64 is drawn as 65 bits until the highest is clear.
    fn full_range(&mut self) -> u64 {
        loop {
            let words = self.getrandbits_words(65);
            if words[2] == 0 {
                return u64::from(words[1]) << 32 | u64::from(words[0]);
            }
        }
    }
}

/// The largest population that `sample` copies instead of recording what it took.
fn pool_limit(count: usize) -> usize {
    if count <= 5 {
        return 21;
    }
    let digits = ((count as f64 * 3.0).ln() / 4.0_f64.ln()).ceil();
    21 + 4_usize.pow(digits as u32)
}
