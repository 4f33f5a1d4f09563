//! A cache of encoded words: a direct-mapped table of fixed slots, each one cache line. A newer word replaces an older
//! one in the same slot, so the table never grows.

use tacho_core::Mutex;

const SLOTS: usize = 1 << 16;
const MAX_BYTES: usize = 30;
const MAX_IDS: usize = 8;

/// A short word and its IDs; `len` 0 is an empty slot.
#[derive(Clone, Copy)]
struct Slot {
    len: u8,
    count: u8,
    bytes: [u8; MAX_BYTES],
    ids: [u32; MAX_IDS],
}

pub(crate) struct WordCache {
    slots: Vec<Slot>,
}

impl WordCache {
    fn new() -> Self {
        WordCache { slots: vec![Slot { len: 0, count: 0, bytes: [0; MAX_BYTES], ids: [0; MAX_IDS] }; SLOTS] }
    }

    pub(crate) fn get(&self, hash: u32, word: &[u8]) -> Option<&[u32]> {
        let slot = &self.slots[hash as usize % SLOTS];
        let known = usize::from(slot.len) == word.len() && slot.bytes[..word.len()] == *word;
        known.then(|| &slot.ids[..usize::from(slot.count)])
    }

    /// Caches a word if it is short enough.
    pub(crate) fn put(&mut self, hash: u32, word: &[u8], ids: &[u32]) {
        if word.len() > MAX_BYTES || ids.len() > MAX_IDS {
            return;
        }
        let slot = &mut self.slots[hash as usize % SLOTS];
        (slot.len, slot.count) = (word.len() as u8, ids.len() as u8);
        slot.bytes[..word.len()].copy_from_slice(word);
        slot.ids[..ids.len()].copy_from_slice(ids);
    }
}

/// Idle caches: as many are created as threads ever encode at once.
#[derive(Default)]
pub(crate) struct CachePool {
    idle: Mutex<Vec<WordCache>>,
}

impl CachePool {
    /// Lends a cache to `work`.
    pub(crate) fn with<R>(&self, work: impl FnOnce(&mut WordCache) -> R) -> R {
        let idle = || self.idle.lock();
        let mut cache = idle().pop().unwrap_or_else(WordCache::new);
        let result = work(&mut cache);
        idle().push(cache);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_very_word_is_found() {
        let mut cache = WordCache::new();
        cache.put(7, b"word", &[1, 2]);
        assert_eq!(cache.get(7, b"word"), Some(&[1, 2][..]));
        assert_eq!(cache.get(7, b"words"), None);
        assert_eq!(cache.get(7, b"wort"), None);
        assert_eq!(cache.get(8, b"word"), None);
        cache.put(7 + SLOTS as u32, b"other", &[3]);
        assert_eq!(cache.get(7, b"word"), None);
    }

    #[test]
    fn long_words_are_not_kept() {
        let mut cache = WordCache::new();
        cache.put(1, &[b'a'; MAX_BYTES + 1], &[1]);
        cache.put(2, b"ab", &[1; MAX_IDS + 1]);
        assert_eq!(cache.get(1, &[b'a'; MAX_BYTES + 1]), None);
        assert_eq!(cache.get(2, b"ab"), None);
    }
}
