//! Mutates valid input, reproducibly by the number of the input.

/// Boundary values for binary formats.
const EDGES: [u64; 10] = [0, 1, 0x7f, 0x80, 0xff, 0x7fff, 0xffff, 0x7fff_ffff, 0xffff_ffff, 0x7fff_ffff_ffff_ffff];

/// Boundary values for text formats.
const VALUES: [&str; 20] = [
    "0",
    "-1",
    "-0.0",
    "1e400",
    "-1e400",
    "1e-400",
    "NaN",
    "Infinity",
    "9223372036854775807",
    "18446744073709551616",
    "4294967296",
    "null",
    "true",
    "[]",
    "{}",
    "\"\"",
    "\"\\ud800\"",
    "\"\u{feff}\"",
    "[[[[[[[[]]]]]]]]",
    "1_0",
];

pub(super) struct Mutator {
    state: u64,
}

impl Mutator {
    /// The mutator for input number `input` of a sequence.
    pub(super) fn new(seed: u64, input: u64) -> Self {
        let mixed = (seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ input).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        Mutator { state: (mixed ^ (mixed >> 29)) | 1 }
    }

    /// A mutation of one input, or a mix of several.
    pub(super) fn out_of(mut self, good: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = good[self.below(good.len())].clone();
        let other = &good[self.below(good.len())];
        for _ in 0..=self.below(4) {
            self.change(&mut bytes, other);
        }
        bytes
    }

    fn next(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state
    }

    fn below(&mut self, count: usize) -> usize {
        ((self.next() >> 11) % count.max(1) as u64) as usize
    }

    fn change(&mut self, bytes: &mut Vec<u8>, other: &[u8]) {
        let at = self.below(bytes.len());
        match self.below(11) {
            0 => bytes.truncate(at),
            1 => self.number(bytes, at),
            2 => drop(bytes.drain(at..(at + 1 + self.below(16)).min(bytes.len())).count()),
            3 => {
                let piece = self.piece(&bytes[at..]);
                let to = self.below(bytes.len());
                bytes.splice(to..to, piece);
            }
            4 => {
                let from = self.below(other.len());
                let piece = self.piece(&other[from..]);
                bytes.splice(at..at, piece);
            }
            5 => {
                let repeats = 1 << self.below(12);
                let byte = bytes.get(at).copied().unwrap_or(b'[');
                bytes.splice(at..at, std::iter::repeat_n(byte, repeats));
            }
            6 | 7 => self.value(bytes, at),
            8 => line(bytes, at, self.next() & 1 == 0),
            _ => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << (self.next() % 8);
                }
            }
        }
    }

    fn piece(&mut self, of: &[u8]) -> Vec<u8> {
        let len = 1 + self.below(64);
        of.iter().take(len).copied().collect()
    }

    /// Overwrites bytes with a boundary value of random width and byte order.
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

    /// Replaces the next word, number or quoted string by another value, so that its surroundings stay valid.
    fn value(&mut self, bytes: &mut Vec<u8>, at: usize) {
        let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'+' | b'_');
        let Some(start) = bytes[at.min(bytes.len())..].iter().position(|byte| is_word(byte) || *byte == b'"') else {
            return;
        };
        let start = at + start;
        let length = match bytes[start] {
            b'"' => bytes[start + 1..].iter().position(|byte| *byte == b'"').map_or(1, |length| length + 2),
            _ => bytes[start..].iter().take_while(|byte| is_word(byte)).count(),
        };
        let value = VALUES[self.below(VALUES.len())];
        bytes.splice(start..start + length, value.bytes());
    }
}

/// Deletes or duplicates the line at a position.
fn line(bytes: &mut Vec<u8>, at: usize, dropped: bool) {
    let start = bytes[..at].iter().rposition(|byte| *byte == b'\n').map_or(0, |place| place + 1);
    let end = bytes[at..].iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |place| at + place + 1);
    let kept = bytes[start..end].to_vec();
    if dropped {
        bytes.drain(start..end);
    } else {
        bytes.splice(start..start, kept);
    }
}
