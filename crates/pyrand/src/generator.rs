//! NumPy's `Generator` over PCG64, as created by `default_rng(seed)`: Lemire's integers, masked-rejection shuffles.

use crate::{interval::masked_interval, pcg64::Pcg64, seedseq::SeedSequence};

/// `np.random.default_rng(seed)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Generator {
    pcg: Pcg64,
}

impl Generator {
    /// Seeded with a non-negative integer.
    pub fn new(seed: u64) -> Self {
        Generator::from_sequence(&SeedSequence::new(seed))
    }

    /// Seeded from a sequence, for integers beyond 64 bits.
    pub fn from_sequence(sequence: &SeedSequence) -> Self {
        Generator { pcg: Pcg64::from_sequence(sequence) }
    }

    pub fn bits(&mut self) -> &mut Pcg64 {
        &mut self.pcg
    }

    /// `random()`: a double in `[0, 1)`.
    pub fn random(&mut self) -> f64 {
        (self.pcg.next_u64() >> 11) as f64 * (1.0 / 9_007_199_254_740_992.0)
    }

    /// `integers(low, high)` as int64, `high` excluded. A range of one value draws nothing. Panics when `high <= low`.
    pub fn integers(&mut self, low: i64, high: i64) -> i64 {
        assert!(low < high, "an empty range has no element");
        low.wrapping_add(self.up_to(high.wrapping_sub(low) as u64 - 1) as i64)
    }

    /// `integers(low, high, size)`. Panics when `high <= low`.
    pub fn integers_vec(&mut self, low: i64, high: i64, size: usize) -> Vec<i64> {
        (0..size).map(|_| self.integers(low, high)).collect()
    }

    /// A draw from `0..=max`, which `integers` adds to its lower bound.
    pub fn up_to(&mut self, max: u64) -> u64 {
        match u32::try_from(max) {
            Ok(0) => 0,
            Ok(u32::MAX) => u64::from(self.pcg.next_u32()),
            Ok(max) => u64::from(self.lemire32(max)),
            Err(_) if max == u64::MAX => self.pcg.next_u64(),
            Err(_) => self.lemire64(max),
        }
    }

    /// `integers(0, 256, size, dtype=uint8)`: bytes of 32-bit words, low first; the rest of the last word is dropped.
    pub fn fill_bytes(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(4) {
            let word = self.pcg.next_u32().to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }

    /// The index that `choice(len(p), p=p)` takes; one double is drawn, also for a single entry. Panics when `p` is
    /// empty.
    pub fn choice_weighted(&mut self, p: &[f64]) -> usize {
        let mut sums: Vec<f64> = Vec::with_capacity(p.len());
        let mut total = 0.0;
        for share in p {
            total += share;
            sums.push(total);
        }
        assert!(!sums.is_empty(), "an empty choice has no element");
        let drawn = self.random();
        sums.iter().filter(|&&sum| sum / total <= drawn).count()
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            let j = masked_interval(&mut self.pcg, i as u64) as usize;
            items.swap(i, j);
        }
    }

    pub fn permutation(&mut self, n: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..n).collect();
        self.shuffle(&mut order);
        order
    }

    fn lemire32(&mut self, max: u32) -> u32 {
        let count = u64::from(max) + 1;
        let mut product = u64::from(self.pcg.next_u32()) * count;
        if u64::from(product as u32) < count {
            let threshold = u64::from(u32::MAX - max) % count;
            while u64::from(product as u32) < threshold {
                product = u64::from(self.pcg.next_u32()) * count;
            }
        }
        (product >> 32) as u32
    }

    fn lemire64(&mut self, max: u64) -> u64 {
        let count = u128::from(max) + 1;
        let mut product = u128::from(self.pcg.next_u64()) * count;
        if u128::from(product as u64) < count {
            let threshold = u128::from(u64::MAX - max) % count;
            while u128::from(product as u64) < threshold {
                product = u128::from(self.pcg.next_u64()) * count;
            }
        }
        (product >> 64) as u64
    }
}
