//! Broken input out of good input, the same for the same seed. `TACHO_FUZZ_COUNT` says how many of each kind are tried
//! (a million for a long run), `TACHO_FUZZ_SEED` where the sequence starts.

/// How many inputs of each kind are tried.
pub fn fuzz_count(default: u64) -> u64 {
    number("TACHO_FUZZ_COUNT").unwrap_or(default)
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Numbers that readers stumble over.
const EDGES: [u64; 10] = [0, 1, 0x7f, 0x80, 0xff, 0x7fff, 0xffff, 0x7fff_ffff, 0xffff_ffff, 0x7fff_ffff_ffff_ffff];

/// Calls `read` with broken forms of the given inputs, and with noise.
pub fn fuzz(good: &[Vec<u8>], default: u64, mut read: impl FnMut(&[u8])) {
    let mut mutator = Mutator { state: number("TACHO_FUZZ_SEED").unwrap_or(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 };
    good.iter().for_each(|whole| read(whole));
    for _ in 0..fuzz_count(default) {
        let seed = &good[mutator.below(good.len())];
        let other = &good[mutator.below(good.len())];
        read(&mutator.broken(seed, other));
    }
}

struct Mutator {
    state: u64,
}

impl Mutator {
    fn next(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state
    }

    fn below(&mut self, count: usize) -> usize {
        (self.next() % count.max(1) as u64) as usize
    }

    fn broken(&mut self, seed: &[u8], other: &[u8]) -> Vec<u8> {
        let mut bytes = seed.to_vec();
        for _ in 0..=self.below(4) {
            self.change(&mut bytes, other);
        }
        bytes
    }

    fn change(&mut self, bytes: &mut Vec<u8>, other: &[u8]) {
        let at = self.below(bytes.len());
        match self.below(8) {
            0 => bytes.truncate(at),
            1 => self.number(bytes, at),
            2 => drop(bytes.drain(at..(at + 1 + self.below(16)).min(bytes.len())).count()),
            3 => {
                let len = 1 + self.below(64);
                let piece: Vec<u8> = bytes[at..].iter().take(len).copied().collect();
                let to = self.below(bytes.len());
                bytes.splice(to..to, piece);
            }
            4 => {
                let from = self.below(other.len());
                let len = 1 + self.below(64);
                let piece: Vec<u8> = other[from..].iter().take(len).copied().collect();
                bytes.splice(at..at, piece);
            }
            5 => {
                let repeats = 1 << self.below(12);
                let byte = bytes.get(at).copied().unwrap_or(b'[');
                bytes.splice(at..at, std::iter::repeat_n(byte, repeats));
            }
            _ => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << (self.next() % 8);
                }
            }
        }
    }

    /// Puts an edge of some width and order of bytes over what is there.
    fn number(&mut self, bytes: &mut [u8], at: usize) {
        let edge = EDGES[self.below(EDGES.len())];
        let width = 1 << self.below(4);
        let little = self.next() & 1 == 0;
        for place in 0..width {
            let shift = if little { place } else { width - 1 - place };
            if let Some(byte) = bytes.get_mut(at + place) {
                *byte = (edge >> (8 * shift)) as u8;
            }
        }
    }
}
