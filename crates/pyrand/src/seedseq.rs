//! NumPy's `SeedSequence`: an integer mixed into a pool of four words, and words drawn from that pool.

const POOL: usize = 4;
const INIT_A: u32 = 0x43b0_d7e5;
const MULT_A: u32 = 0x931e_8875;
const INIT_B: u32 = 0x8b51_f9dd;
const MULT_B: u32 = 0x58f3_8ded;
const MIX_LEFT: u32 = 0xca01_f9dd;
const MIX_RIGHT: u32 = 0x4973_f715;

/// `np.random.SeedSequence(entropy)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeedSequence {
    pool: [u32; POOL],
}

impl SeedSequence {
    /// From a non-negative integer.
    pub fn new(entropy: u64) -> Self {
        SeedSequence::from_words(&[entropy as u32, (entropy >> 32) as u32])
    }

    /// From a non-negative integer of any size, as little-endian 32-bit words.
    pub fn from_words(words: &[u32]) -> Self {
        let used = words.iter().rposition(|&word| word != 0).map_or(0, |last| last + 1);
        let words = &words[..used];
        let mut hash = INIT_A;
        let mut pool: [u32; POOL] = std::array::from_fn(|i| hashmix(words.get(i).copied().unwrap_or(0), &mut hash));
        for source in 0..POOL {
            for target in (0..POOL).filter(|&target| target != source) {
                pool[target] = mix(pool[target], hashmix(pool[source], &mut hash));
            }
        }
        for &word in words.iter().skip(POOL) {
            for slot in &mut pool {
                *slot = mix(*slot, hashmix(word, &mut hash));
            }
        }
        SeedSequence { pool }
    }

    pub fn pool(&self) -> [u32; 4] {
        self.pool
    }

    /// `generate_state(count)` as 32-bit words.
    pub fn words(&self, count: usize) -> Vec<u32> {
        let mut hash = INIT_B;
        (0..count)
            .map(|i| {
                let mut word = self.pool[i % POOL] ^ hash;
                hash = hash.wrapping_mul(MULT_B);
                word = word.wrapping_mul(hash);
                word ^ (word >> 16)
            })
            .collect()
    }
}

fn hashmix(value: u32, hash: &mut u32) -> u32 {
    let value = value ^ *hash;
    *hash = hash.wrapping_mul(MULT_A);
    let value = value.wrapping_mul(*hash);
    value ^ (value >> 16)
}

fn mix(left: u32, right: u32) -> u32 {
    let mixed = MIX_LEFT.wrapping_mul(left).wrapping_sub(MIX_RIGHT.wrapping_mul(right));
    mixed ^ (mixed >> 16)
}
