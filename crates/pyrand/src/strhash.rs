//! CPython's string hash: SipHash-1-3 with the key derived from `PYTHONHASHSEED`.

/// The key of a process's string hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HashKey {
    k0: u64,
    k1: u64,
}

impl HashKey {
    /// The key for `PYTHONHASHSEED=seed`; 0 disables salting.
    pub fn from_seed(seed: u32) -> Self {
        if seed == 0 {
            return HashKey { k0: 0, k1: 0 };
        }
        let mut state = seed;
        let bytes: [u8; 16] = std::array::from_fn(|_| {
            state = state.wrapping_mul(214_013).wrapping_add(2_531_011);
            (state >> 16) as u8
        });
        let whole = u128::from_le_bytes(bytes);
        HashKey { k0: whole as u64, k1: (whole >> 64) as u64 }
    }

    /// `hash(text)` of a string. CPython hashes its memory: characters of one, two or four bytes, as the largest needs.
    pub fn hash(self, text: &str) -> i64 {
        let largest = text.chars().max().map_or(0, u32::from);
        let width = if largest < 0x100 {
            1
        } else if largest < 0x1_0000 {
            2
        } else {
            4
        };
        let bytes: Vec<u8> =
            text.chars().flat_map(|one| u32::from(one).to_le_bytes().into_iter().take(width)).collect();
        if bytes.is_empty() {
            return 0;
        }
        let hash = siphash13(self, &bytes) as i64;
        // CPython reserves -1 for errors.
        if hash == -1 { -2 } else { hash }
    }
}

fn siphash13(key: HashKey, bytes: &[u8]) -> u64 {
    let mut state = [
        key.k0 ^ 0x736f_6d65_7073_6575,
        key.k1 ^ 0x646f_7261_6e64_6f6d,
        key.k0 ^ 0x6c79_6765_6e65_7261,
        key.k1 ^ 0x7465_6462_7974_6573,
    ];
    let mut chunks = bytes.chunks_exact(8);
    for chunk in &mut chunks {
        absorb(&mut state, little_endian(chunk));
    }
    let tail = little_endian(chunks.remainder()) | (bytes.len() as u64) << 56;
    absorb(&mut state, tail);
    state[2] ^= 0xff;
    for _ in 0..3 {
        round(&mut state);
    }
    state[0] ^ state[1] ^ state[2] ^ state[3]
}

fn little_endian(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte))
}

fn absorb(state: &mut [u64; 4], word: u64) {
    state[3] ^= word;
    round(state);
    state[0] ^= word;
}

fn round(v: &mut [u64; 4]) {
    v[0] = v[0].wrapping_add(v[1]);
    v[2] = v[2].wrapping_add(v[3]);
    v[1] = v[1].rotate_left(13) ^ v[0];
    v[3] = v[3].rotate_left(16) ^ v[2];
    v[0] = v[0].rotate_left(32);
    v[2] = v[2].wrapping_add(v[1]);
    v[0] = v[0].wrapping_add(v[3]);
    v[1] = v[1].rotate_left(17) ^ v[2];
    v[3] = v[3].rotate_left(21) ^ v[0];
    v[2] = v[2].rotate_left(32);
}
