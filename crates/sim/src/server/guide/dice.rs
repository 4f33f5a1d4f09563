//! Random draws of a constrained text, and its size limit.

use tacho_pyrand::Generator;

/// Most parts and bytes of a text; empty parts count too.
pub(crate) const MAX_PARTS: usize = 1 << 18;

/// Random draws: the smaller the size, the shorter the text.
#[derive(Debug)]
pub(crate) struct Dice {
    generator: Generator,
    /// 0 is the shortest text, 2 an ordinary one.
    pub(crate) size: usize,
    /// Parts and bytes that may still be made.
    left: usize,
}

impl Dice {
    pub(crate) fn new(seed: u64, size: usize) -> Self {
        Dice { generator: Generator::new(seed), size, left: MAX_PARTS }
    }

    /// A number below `count`, which is at least one.
    pub(crate) fn below(&mut self, count: usize) -> usize {
        self.generator.up_to(count as u64 - 1) as usize
    }

    pub(crate) fn includes(&mut self) -> bool {
        self.size > 0 && self.below(2) == 0
    }

    pub(crate) fn between(&mut self, low: i64, high: i64) -> i64 {
        let span = high.saturating_sub(low).max(0) as u64;
        low.saturating_add(self.generator.up_to(span) as i64)
    }

    pub(crate) fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        if items.is_empty() { None } else { Some(&items[self.below(items.len())]) }
    }

    /// Number of repetitions from `min` to `max`, within the size limit.
    pub(crate) fn times(&mut self, min: usize, max: Option<usize>) -> usize {
        let more = max.map_or(usize::MAX, |max| max.saturating_sub(min)).min(self.size * 4);
        min.saturating_add(self.below(more + 1)).min(self.left)
    }

    /// Counts parts or bytes; returns whether more are allowed.
    pub(crate) fn spend(&mut self, parts: usize) -> bool {
        self.left = self.left.saturating_sub(parts);
        self.left > 0
    }

    pub(crate) fn left(&self) -> usize {
        self.left
    }
}
