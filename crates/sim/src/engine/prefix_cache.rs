//! Names of full blocks: a hash of a block's tokens chained to the block before, so equal names mean equal prefixes.

use super::sequence::Sequence;

/// Appends the hashes of the blocks that have become full of known tokens.
pub(super) fn extend_hashes(sequence: &mut Sequence, block_size: usize) {
    let full = sequence.known() / block_size;
    for block in sequence.hashes.len()..full {
        let parent = block.checked_sub(1).map_or_else(|| mix(sequence.job.salt), |before| sequence.hashes[before]);
        let tokens = (block * block_size)..((block + 1) * block_size);
        let hash = tokens.fold(parent, |hash, at| mix(hash ^ u64::from(sequence.token(at))));
        sequence.hashes.push(hash);
    }
}

/// A bijective scrambler of 64 bits (the finaliser of the SplitMix64 generator).
pub(super) fn mix(value: u64) -> u64 {
    let mut bits = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use tacho_core::Stamp;

    use super::super::sequence::BlockHash;
    use super::super::{Finish, Job, SeqId};
    use super::*;

    fn hashes(prompt: &[u32], salt: u64) -> Vec<BlockHash> {
        let job = Job { salt, ..Job::generate(prompt.into(), [1].into(), Finish::Length) };
        let mut sequence = Sequence::new(SeqId(0), job, Stamp::ZERO);
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
