//! Hashes of full blocks: a block's tokens chained to the previous block, so that equal hashes mean equal prefixes.

use crate::sequence::Sequence;

/// Appends the hashes of newly full blocks.
pub(super) fn extend_hashes(sequence: &mut Sequence, block_size: usize) {
    while sequence.known_tokens() >= (sequence.hashes.len() + 1) * block_size {
        let start = sequence.hashes.len() * block_size;
        let parent = sequence.hashes.last().copied().unwrap_or_else(|| mix(sequence.job.salt));
        let tokens = sequence.tokens(start, start + block_size);
        // One multiplication per token, and one full mix per block.
        let chained = tokens.fold(parent, |hash, token| {
            let hash = (hash ^ u64::from(*token)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            hash ^ (hash >> 32)
        });
        sequence.hashes.push(mix(chained));
    }
}

/// A bijective mix of 64 bits (the finalizer of SplitMix64).
pub(super) fn mix(value: u64) -> u64 {
    let mut bits = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use tacho_core::Timestamp;

    use super::*;
    use crate::{Finish, Job, SeqId, sequence::BlockHash};

    fn hashes(prompt: &[u32], salt: u64) -> Vec<BlockHash> {
        let job = Job { salt, ..Job::generate(prompt.into(), [1].into(), Finish::Length) };
        let mut sequence = Sequence::new(SeqId(0), job, Timestamp::ZERO);
        extend_hashes(&mut sequence, 2);
        sequence.hashes
    }

    #[test]
    fn equal_prefixes_have_equal_hashes_and_later_blocks_depend_on_earlier_ones() {
        let one = hashes(&[1, 2, 3, 4, 5], 0);
        assert_eq!(one.len(), 2, "the half-filled block has no name");
        assert_eq!(one, hashes(&[1, 2, 3, 4, 6], 0));
        assert_eq!(one[0], hashes(&[1, 2, 9, 9], 0)[0]);
        assert_ne!(one[1], hashes(&[7, 2, 3, 4], 0)[1], "same tokens, other prefix");
        assert_ne!(one[0], hashes(&[1, 2], 1)[0], "other salt");
        assert_ne!(hashes(&[1, 2], 0), hashes(&[2, 1], 0));
    }
}
