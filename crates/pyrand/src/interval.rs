//! NumPy's masked-rejection draw, shared by its legacy and its new generator.

/// Draws `word & mask` until it is at most `max`: NumPy's `random_interval`, which draws nothing for `max` 0.
pub(crate) fn masked_interval<W: Words + ?Sized>(words: &mut W, max: u64) -> u64 {
    if max == 0 {
        return 0;
    }
    let mask = u64::MAX >> max.leading_zeros();
    loop {
        let word = if max <= u64::from(u32::MAX) { u64::from(words.word32()) } else { words.word64() };
        if word & mask <= max {
            return word & mask;
        }
    }
}

/// A source of random words, for the algorithm that both NumPy generators share.
pub(crate) trait Words {
    fn word32(&mut self) -> u32;
    fn word64(&mut self) -> u64;
}
