//! Paged KV blocks: reference counts, the LRU queue of free blocks, and the hashes of cached ones.

use std::hash::{BuildHasherDefault, Hasher};
use std::{collections::HashMap, collections::hash_map::Entry};

use crate::sequence::BlockHash;

const NONE: u32 = u32::MAX;

#[derive(Debug, Clone)]
struct Block {
    refs: u32,
    hash: Option<BlockHash>,
    prev: u32,
    next: u32,
}

/// Block hashes are mixed already and need no second hash.
#[derive(Debug, Default)]
struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, name: u64) {
        self.0 = name;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// All blocks. A block is in use (referenced) or in the free queue. A free block may hold a cached prefix until it is
/// reused, oldest first.
#[derive(Debug)]
pub(super) struct BlockPool {
    /// Blocks that have been used. The others are free and older than any in the queue.
    blocks: Vec<Block>,
    total: usize,
    oldest: u32,
    newest: u32,
    free: usize,
    /// References to blocks beyond the first of each.
    extra_references: usize,
    cached: HashMap<BlockHash, u32, BuildHasherDefault<IdentityHasher>>,
}

impl BlockPool {
    pub(super) fn new(total: usize) -> Self {
        BlockPool {
            blocks: Vec::new(),
            total,
            oldest: NONE,
            newest: NONE,
            free: total,
            extra_references: 0,
            cached: HashMap::default(),
        }
    }

    pub(super) fn total(&self) -> usize {
        self.total
    }

    pub(super) fn free(&self) -> usize {
        self.free
    }

    /// Number of references to blocks beyond the first of each.
    pub(super) fn extra_references(&self) -> usize {
        self.extra_references
    }

    /// The cached blocks of the longest cached prefix of `hashes`.
    pub(super) fn find(&self, hashes: &[BlockHash]) -> Vec<u32> {
        hashes.iter().map_while(|hash| self.cached.get(hash).copied()).collect()
    }

    pub(super) fn free_among(&self, blocks: &[u32]) -> usize {
        blocks.iter().filter(|&&block| self.blocks[block as usize].refs == 0).count()
    }

    /// Number of these blocks that other sequences use too.
    pub(super) fn shared_among(&self, blocks: &[u32]) -> usize {
        blocks.iter().filter(|&&block| self.blocks[block as usize].refs > 1).count()
    }

    /// References cached blocks and removes them from the free queue.
    pub(super) fn share(&mut self, blocks: &[u32]) {
        for &block in blocks {
            if self.blocks[block as usize].refs == 0 {
                self.unlink(block);
            } else {
                self.extra_references += 1;
            }
            self.blocks[block as usize].refs += 1;
        }
    }

    /// Appends `count` free blocks to `to`; returns false and changes nothing if there are too few.
    pub(super) fn take(&mut self, count: usize, to: &mut Vec<u32>) -> bool {
        if count > self.free {
            return false;
        }
        for _ in 0..count {
            let block = if self.blocks.len() < self.total { self.first_use() } else { self.reuse() };
            self.blocks[block as usize].refs = 1;
            to.push(block);
        }
        true
    }

    fn first_use(&mut self) -> u32 {
        self.free -= 1;
        self.blocks.push(Block { refs: 0, hash: None, prev: NONE, next: NONE });
        (self.blocks.len() - 1) as u32
    }

    fn reuse(&mut self) -> u32 {
        let block = self.oldest;
        self.unlink(block);
        if let Some(hash) = self.blocks[block as usize].hash.take() {
            self.cached.remove(&hash);
        }
        block
    }

    /// Releases a sequence's blocks. The last are reused first, because a prefix is worth more than its continuation.
    pub(super) fn release(&mut self, blocks: &mut Vec<u32>) {
        while let Some(block) = blocks.pop() {
            let entry = &mut self.blocks[block as usize];
            entry.refs -= 1;
            if entry.refs == 0 {
                self.push_free(block);
            } else {
                self.extra_references -= 1;
            }
        }
    }

    /// Sets the hash of a full block, unless another block has it.
    pub(super) fn register(&mut self, block: u32, hash: BlockHash) {
        let entry = &mut self.blocks[block as usize];
        if entry.hash.is_none()
            && let Entry::Vacant(free) = self.cached.entry(hash)
        {
            entry.hash = Some(hash);
            free.insert(block);
        }
    }

    /// Drops all cached prefixes; refused while blocks are in use, as in vLLM.
    pub(super) fn drop_cached(&mut self) -> bool {
        if self.free < self.total {
            return false;
        }
        self.cached.clear();
        self.blocks.iter_mut().for_each(|block| block.hash = None);
        true
    }

    fn push_free(&mut self, block: u32) {
        let last = self.newest;
        let entry = &mut self.blocks[block as usize];
        (entry.prev, entry.next) = (last, NONE);
        if last == NONE {
            self.oldest = block;
        } else {
            self.blocks[last as usize].next = block;
        }
        self.newest = block;
        self.free += 1;
    }

    fn unlink(&mut self, block: u32) {
        let Block { prev, next, .. } = self.blocks[block as usize];
        if prev == NONE {
            self.oldest = next;
        } else {
            self.blocks[prev as usize].next = next;
        }
        if next == NONE {
            self.newest = prev;
        } else {
            self.blocks[next as usize].prev = prev;
        }
        self.free -= 1;
    }
}

#[cfg(test)]
impl BlockPool {
    /// References per block, and the free queue's blocks in order, for tests of balance.
    pub(super) fn census(&self) -> (Vec<u32>, Vec<u32>) {
        let unused = self.blocks.len() as u32..self.total as u32;
        let mut queue: Vec<u32> = unused.clone().collect();
        let mut at = self.oldest;
        while at != NONE {
            queue.push(at);
            at = self.blocks[at as usize].next;
        }
        (self.blocks.iter().map(|block| block.refs).chain(unused.map(|_| 0)).collect(), queue)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evicts_the_least_recently_freed_and_tails_before_heads() {
        let mut pool = BlockPool::new(4);
        let (mut one, mut two) = (Vec::new(), Vec::new());
        assert!(pool.take(2, &mut one) && pool.take(2, &mut two));
        assert!(!pool.take(1, &mut Vec::new()));
        pool.register(one[0], 10);
        pool.register(one[1], 11);
        pool.register(two[0], 20);
        pool.release(&mut two.clone());
        pool.release(&mut one.clone());
        assert_eq!(pool.free(), 4);
        let mut fresh = Vec::new();
        assert!(pool.take(3, &mut fresh));
        assert_eq!(fresh, [two[1], two[0], one[1]]);
        assert_eq!(pool.find(&[20]), Vec::<u32>::new());
        assert_eq!(pool.find(&[10, 11]), [one[0]]);
    }

    #[test]
    fn shared_blocks_stay_until_the_last_user_leaves() {
        let mut pool = BlockPool::new(2);
        let mut one = Vec::new();
        assert!(pool.take(1, &mut one));
        pool.register(one[0], 7);
        let mut two = pool.find(&[7]);
        pool.share(&two);
        assert_eq!(pool.extra_references(), 1);
        pool.release(&mut one);
        assert_eq!((pool.free(), pool.extra_references()), (1, 0));
        assert!(!pool.drop_cached(), "a block is in use");
        pool.release(&mut two);
        assert_eq!(pool.free(), 2);
        assert!(pool.drop_cached());
        assert_eq!(pool.find(&[7]), Vec::<u32>::new());
    }
}
