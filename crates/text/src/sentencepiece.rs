//! SentencePiece's BPE encoder. It orders merges by the scores of the merged pieces, and equal scores by position,
//! which a merge list in `tokenizer.json` cannot express. Mistral's library uses it.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap};

/// The character that represents a space.
pub(crate) const SPACE: char = '▁';

/// Whitespace handling before a text is split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Whitespace {
    /// Add a space before the text.
    pub(crate) add_dummy_prefix: bool,
    /// Collapse runs of spaces and strip both ends.
    pub(crate) remove_extra: bool,
    /// Replace spaces by `▁`.
    pub(crate) escape: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct Bpe {
    /// ID and score of every piece that merges can produce.
    pub(crate) pieces: HashMap<String, (u32, f32)>,
    /// Pieces that are matched as a whole and never merged.
    pub(crate) user_defined: HashMap<String, u32>,
    /// Intermediate pieces: they are split again unless they become part of a longer piece.
    pub(crate) unused: HashMap<String, (u32, f32)>,
    /// The IDs of the 256 bytes, if text outside the vocabulary is encoded as bytes.
    pub(crate) bytes: Option<Vec<u32>>,
    pub(crate) unk: u32,
    pub(crate) bos: Option<u32>,
    pub(crate) whitespace: Whitespace,
}

/// Part of the text, in a doubly linked list, so that a merge takes constant time.
#[derive(Clone, Copy)]
struct Symbol {
    start: usize,
    /// Equal to `start` once it is merged into its left neighbor.
    end: usize,
    previous: Option<usize>,
    next: Option<usize>,
    frozen: bool,
}

/// Two neighbors that form a piece.
#[derive(PartialEq)]
struct Pair {
    score: f32,
    left: usize,
    right: usize,
    /// Length of both in bytes; a pair is stale if one of them has grown.
    size: usize,
}

impl Eq for Pair {}

impl PartialOrd for Pair {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Pair {
    /// The highest score first, then the leftmost.
    fn cmp(&self, other: &Self) -> Ordering {
        self.score.total_cmp(&other.score).then(other.left.cmp(&self.left))
    }
}

impl Bpe {
    /// Encodes a text to IDs, with BOS if requested.
    pub(crate) fn encode(&self, text: &str, add_bos: bool) -> Vec<u32> {
        let mut ids: Vec<u32> = self.bos.filter(|_| add_bos).into_iter().collect();
        let text = self.normalized(text);
        let mut symbols = self.split(&text);
        let made_of = self.merge(&text, &mut symbols);
        let mut is_unknown = false;
        let mut at = (!symbols.is_empty()).then_some(0);
        while let Some(index) = at {
            let symbol = symbols[index];
            self.emit(&text[symbol.start..symbol.end], &made_of, &mut is_unknown, &mut ids);
            at = symbol.next;
        }
        ids
    }

    fn normalized(&self, text: &str) -> String {
        let Whitespace { add_dummy_prefix, remove_extra, escape } = self.whitespace;
        let mark = if escape { SPACE } else { ' ' };
        let mut out = String::with_capacity(text.len() + text.len() / 4 + 3);
        let text = if remove_extra { text.trim_start_matches(' ') } else { text };
        if text.is_empty() {
            return out;
        }
        if add_dummy_prefix {
            out.push(mark);
        }
        let mut after_space = false;
        for c in text.chars() {
            if !(c == ' ' && remove_extra && after_space) {
                out.push(if c == ' ' { mark } else { c });
            }
            after_space = c == ' ';
        }
        if remove_extra {
            out.truncate(out.trim_end_matches(mark).len());
        }
        out
    }

    /// Characters and user-defined pieces.
    fn split(&self, text: &str) -> Vec<Symbol> {
        let mut symbols: Vec<Symbol> = Vec::with_capacity(text.len());
        let mut start = 0;
        while let Some(first) = text[start..].chars().next() {
            let rest = &text[start..];
            let whole = self.user_defined.keys().filter(|piece| rest.starts_with(*piece)).map(String::len).max();
            let end = start + whole.unwrap_or(first.len_utf8());
            let index = symbols.len();
            let (previous, next) = (index.checked_sub(1), (end < text.len()).then_some(index + 1));
            symbols.push(Symbol { start, end, previous, next, frozen: whole.is_some() });
            start = end;
        }
        symbols
    }

    /// Merges until no pair forms a piece. Returns the pieces from which unused pieces were merged.
    fn merge<'t>(&self, text: &'t str, symbols: &mut [Symbol]) -> HashMap<&'t str, usize> {
        let mut pairs = BinaryHeap::new();
        let mut made_of = HashMap::new();
        let mut add = |symbols: &[Symbol], pairs: &mut BinaryHeap<Pair>, left: Option<usize>, right: Option<usize>| {
            let (Some(left), Some(right)) = (left, right) else { return };
            let (first, second) = (symbols[left], symbols[right]);
            let piece = &text[first.start..second.end];
            if first.frozen || second.frozen {
                return;
            }
            let score = match (self.pieces.get(piece), self.unused.get(piece)) {
                (Some((_, score)), _) => *score,
                (None, Some((_, score))) => {
                    made_of.insert(piece, first.end - first.start);
                    *score
                }
                (None, None) => return,
            };
            pairs.push(Pair { score, left, right, size: piece.len() });
        };
        for right in 1..symbols.len() {
            add(symbols, &mut pairs, Some(right - 1), Some(right));
        }
        while let Some(Pair { left, right, size, .. }) = pairs.pop() {
            let (first, second) = (symbols[left], symbols[right]);
            let is_gone = first.start == first.end || second.start == second.end;
            if is_gone || second.end - first.start != size || first.next != Some(right) {
                continue;
            }
            symbols[left].end = second.end;
            symbols[left].next = second.next;
            if let Some(next) = second.next {
                symbols[next].previous = Some(left);
            }
            symbols[right].end = second.start;
            add(symbols, &mut pairs, first.previous, Some(left));
            add(symbols, &mut pairs, Some(left), second.next);
        }
        made_of
    }

    fn emit(&self, piece: &str, made_of: &HashMap<&str, usize>, is_unknown: &mut bool, ids: &mut Vec<u32>) {
        if let Some(cut) = made_of.get(piece) {
            let (left, right) = piece.split_at(*cut);
            self.emit(left, made_of, is_unknown, ids);
            self.emit(right, made_of, is_unknown, ids);
            return;
        }
        let known = self.pieces.get(piece).or_else(|| self.unused.get(piece)).map(|(id, _)| *id);
        let known = known.or_else(|| self.user_defined.get(piece).copied());
        match (known, &self.bytes) {
            (Some(id), _) => ids.push(id),
            (None, Some(bytes)) => ids.extend(piece.bytes().map(|byte| bytes[usize::from(byte)])),
            // A run of unknown text is one token.
            (None, None) if *is_unknown => {}
            (None, None) => ids.push(self.unk),
        }
        *is_unknown = known.is_none();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(pieces: &[(&str, f32)]) -> Bpe {
        let pieces = pieces.iter().enumerate().map(|(id, (text, score))| ((*text).to_owned(), (id as u32, *score)));
        Bpe {
            pieces: pieces.collect(),
            user_defined: HashMap::from([("[X]".to_owned(), 100)]),
            unused: HashMap::new(),
            bytes: None,
            unk: 99,
            bos: Some(98),
            whitespace: Whitespace { add_dummy_prefix: true, remove_extra: false, escape: true },
        }
    }

    #[test]
    fn scores_order_merges_and_equal_scores_go_left_to_right() {
        // By its ID, `▁▁` would be merged first; by its score it comes last.
        let bpe = model(&[("▁", 0.0), ("▁▁", -9.0), ("h", 0.0), ("▁h", -1.0), ("a", 0.0), ("aa", -2.0)]);
        assert_eq!(bpe.encode(" h", false), [0, 3]);
        assert_eq!(bpe.encode("▁h", false), [0, 3], "a mark in the text is a space");
        assert_eq!(bpe.encode("aaa", false), [0, 5, 4]);
        assert_eq!(bpe.encode("", true), [98]);
    }

    #[test]
    fn user_defined_pieces_are_whole_and_unknown_text_is_one_token() {
        let mut bpe = model(&[("▁", 0.0), ("a", 0.0), ("▁a", -1.0)]);
        assert_eq!(bpe.encode("a[X]a??a", true), [98, 2, 100, 1, 99, 1]);
        bpe.bytes = Some((200..456).collect());
        assert_eq!(bpe.encode("é", false), [0, 200 + 0xc3, 200 + 0xa9]);
    }

    #[test]
    fn unused_pieces_lead_to_longer_ones_only() {
        let mut bpe = model(&[("▁", 0.0), ("a", 0.0), ("b", 0.0), ("c", 0.0), ("abc", -2.0)]);
        bpe.unused.insert("ab".to_owned(), (50, -1.0));
        assert_eq!(bpe.encode("abc ab", false), [0, 4, 0, 1, 2]);
    }

    #[test]
    fn extra_spaces_go_where_the_model_says_so() {
        let mut bpe = model(&[("▁", 0.0), ("a", 0.0)]);
        bpe.whitespace.remove_extra = true;
        assert_eq!(bpe.encode("  a   a  ", false), [0, 1, 0, 1]);
        assert_eq!(bpe.encode("   ", false), [0; 0]);
    }
}
