//! The BPE algorithm: merges the pair with the best rank first, the leftmost of equals, until no pair is left.

use std::{cmp::Reverse, collections::BinaryHeap};

const NONE: u32 = u32::MAX;
/// Number of symbols up to which a linear scan for the best pair beats a heap.
const MAX_SCANNED: usize = 96;

pub(crate) struct Merges {
    slots: Vec<Slot>,
}

#[derive(Clone, Copy)]
struct Slot {
    left: u32,
    right: u32,
    rank: u32,
    id: u32,
}

/// One symbol of a partly merged word: its ID, and the merge of the pair that it starts.
#[derive(Clone, Copy)]
struct Symbol {
    id: u32,
    rank: u32,
    merged: u32,
}

/// Buffers reused between words.
#[derive(Default)]
pub(crate) struct Scratch {
    symbols: Vec<Symbol>,
    found: Vec<u32>,
}

impl Merges {
    /// Builds the table from left ID, right ID and merged ID, best first. A repeated pair keeps its later rank, as in
    /// the library.
    pub(crate) fn new(merges: &[(u32, u32, u32)]) -> Self {
        let size = (merges.len() * 2 + 1).next_power_of_two();
        let mut table = Merges { slots: vec![Slot { left: NONE, right: NONE, rank: NONE, id: NONE }; size] };
        for (rank, &(left, right, id)) in merges.iter().enumerate() {
            let at = table.position(left, right);
            table.slots[at] = Slot { left, right, rank: rank as u32, id };
        }
        table
    }

    /// Whether the bytes of a token merge to that token.
    pub(crate) fn makes_whole(&self, byte_ids: &[u32; 256], token: &[u8], id: u32, scratch: &mut Scratch) -> bool {
        let mut found = std::mem::take(&mut scratch.found);
        found.clear();
        self.encode(byte_ids, token, scratch, &mut found);
        let whole = found == [id];
        scratch.found = found;
        whole
    }

    pub(crate) fn encode(&self, byte_ids: &[u32; 256], word: &[u8], scratch: &mut Scratch, ids: &mut Vec<u32>) {
        if word.len() > MAX_SCANNED {
            return self.encode_long(byte_ids, word, ids);
        }
        let symbols = &mut scratch.symbols;
        symbols.clear();
        symbols.extend(word.iter().map(|&byte| Symbol { id: byte_ids[usize::from(byte)], rank: NONE, merged: NONE }));
        for at in 1..symbols.len() {
            self.pair_up(symbols, at - 1);
        }
        while let Some(at) = best(symbols) {
            symbols[at].id = symbols[at].merged;
            symbols.remove(at + 1);
            self.pair_up(symbols, at);
            if at > 0 {
                self.pair_up(symbols, at - 1);
            }
        }
        ids.extend(symbols.iter().map(|symbol| symbol.id));
    }

    fn pair_up(&self, symbols: &mut [Symbol], at: usize) {
        let found = symbols.get(at + 1).and_then(|next| self.get(symbols[at].id, next.id));
        (symbols[at].rank, symbols[at].merged) = found.unwrap_or((NONE, NONE));
    }

    /// Encodes with a heap and linked symbols, so that a word of thousands of bytes does not take quadratic time.
    fn encode_long(&self, byte_ids: &[u32; 256], word: &[u8], ids: &mut Vec<u32>) {
        let end = word.len();
        let mut symbols: Vec<u32> = word.iter().map(|&byte| byte_ids[usize::from(byte)]).collect();
        let mut next: Vec<usize> = (1..=end).collect();
        let mut previous: Vec<usize> = (0..end).map(|at| at.wrapping_sub(1)).collect();
        let mut heap = BinaryHeap::new();
        let queue = |heap: &mut BinaryHeap<_>, symbols: &[u32], left: usize, right: usize| {
            if let Some((rank, merged)) = self.get(symbols[left], symbols[right]) {
                heap.push(Reverse((rank, left, right, merged, symbols[left], symbols[right])));
            }
        };
        for right in 1..end {
            queue(&mut heap, &symbols, right - 1, right);
        }
        while let Some(Reverse((_, left, right, merged, left_id, right_id))) = heap.pop() {
            // A symbol that has merged since has another ID or is gone.
            if symbols[left] != left_id || symbols[right] != right_id || next[left] != right {
                continue;
            }
            symbols[left] = merged;
            symbols[right] = NONE;
            next[left] = next[right];
            if next[left] < end {
                previous[next[left]] = left;
                queue(&mut heap, &symbols, left, next[left]);
            }
            if previous[left] < end {
                queue(&mut heap, &symbols, previous[left], left);
            }
        }
        ids.extend(symbols.into_iter().filter(|&id| id != NONE));
    }

    fn get(&self, left: u32, right: u32) -> Option<(u32, u32)> {
        let slot = self.slots[self.position(left, right)];
        (slot.rank != NONE).then_some((slot.rank, slot.id))
    }

    /// The slot of the pair, or the free slot for it.
    fn position(&self, left: u32, right: u32) -> usize {
        let key = u64::from(left) << 32 | u64::from(right);
        let mask = self.slots.len() - 1;
        let mut at = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & mask;
        loop {
            let slot = &self.slots[at];
            if slot.rank == NONE || (slot.left == left && slot.right == right) {
                return at;
            }
            at = (at + 1) & mask;
        }
    }
}

/// The leftmost symbol that starts the best pair.
fn best(symbols: &[Symbol]) -> Option<usize> {
    let mut best = (NONE, 0);
    for (at, symbol) in symbols.iter().enumerate() {
        if symbol.rank < best.0 {
            best = (symbol.rank, at);
        }
    }
    (best.0 != NONE).then_some(best.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes are their own IDs; `ab` is 256, `abc` 257, `bc` 258, `aa` 259.
    fn merges() -> Merges {
        Merges::new(&[(97, 98, 256), (256, 99, 257), (98, 99, 258), (97, 97, 259), (259, 259, 260)])
    }

    fn encode(word: &[u8]) -> Vec<u32> {
        let byte_ids = std::array::from_fn(|byte| byte as u32);
        let mut ids = Vec::new();
        merges().encode(&byte_ids, word, &mut Scratch::default(), &mut ids);
        ids
    }

    #[test]
    fn best_rank_merges_first_and_leftmost() {
        assert_eq!(encode(b"abc"), [257]);
        assert_eq!(encode(b"bcab"), [258, 256]);
        assert_eq!(encode(b"aaa"), [259, 97]);
        assert_eq!(encode(b"aaaa"), [260]);
    }

    #[test]
    fn long_words_merge_as_short_ones_do() {
        let byte_ids = std::array::from_fn(|byte| byte as u32);
        let merges = merges();
        for word in [b"abcaabcbcaaaab".repeat(3), b"aaaaaaa".repeat(9), b"cbaabcaab".repeat(7)] {
            let (mut short, mut long) = (Vec::new(), Vec::new());
            assert!(word.len() <= MAX_SCANNED);
            merges.encode(&byte_ids, &word, &mut Scratch::default(), &mut short);
            merges.encode_long(&byte_ids, &word, &mut long);
            assert_eq!(short, long);
        }
    }
}
