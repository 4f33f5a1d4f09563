//! Tokens by ID and by bytes: one arena, and an open-addressed table.

const EMPTY: u32 = u32::MAX;

pub(crate) struct Vocabulary {
    arena: Vec<u8>,
    spans: Vec<(u32, u32)>,
    slots: Vec<(u32, u32)>,
}

impl Vocabulary {
    pub(crate) fn new(tokens: &[Option<Vec<u8>>]) -> Self {
        let slots = (tokens.len() * 2).next_power_of_two();
        let mut vocabulary = Vocabulary { arena: Vec::new(), spans: Vec::new(), slots: vec![(0, EMPTY); slots] };
        for (id, token) in tokens.iter().enumerate() {
            vocabulary.set_bytes(id as u32, token.as_deref().unwrap_or_default());
            if token.is_some() {
                vocabulary.add_word(id as u32);
            }
        }
        vocabulary
    }

    pub(crate) fn set_bytes(&mut self, id: u32, bytes: &[u8]) {
        let id = id as usize;
        if self.spans.len() <= id {
            self.spans.resize(id + 1, (0, 0));
        }
        self.spans[id] = (self.arena.len() as u32, bytes.len() as u32);
        self.arena.extend_from_slice(bytes);
    }

    fn add_word(&mut self, id: u32) {
        let hash = hash(self.bytes(id));
        let mut at = self.home(hash);
        while self.slots[at].1 != EMPTY {
            at = (at + 1) & (self.slots.len() - 1);
        }
        self.slots[at] = (hash, id);
    }

    /// The token with these bytes, whose hash is given.
    pub(crate) fn word(&self, hash: u32, word: &[u8]) -> Option<u32> {
        let mut at = self.home(hash);
        loop {
            match self.slots[at] {
                (_, EMPTY) => return None,
                (found, id) if found == hash && self.bytes(id) == word => return Some(id),
                _ => at = (at + 1) & (self.slots.len() - 1),
            }
        }
    }

    /// The bytes of an ID; empty if it is unknown.
    pub(crate) fn bytes(&self, id: u32) -> &[u8] {
        let (start, len) = self.spans.get(id as usize).copied().unwrap_or_default();
        &self.arena[start as usize..(start + len) as usize]
    }

    pub(crate) fn ids(&self) -> Vec<u32> {
        (0..self.spans.len() as u32).filter(|&id| !self.bytes(id).is_empty()).collect()
    }

    /// The ID of the token or added token with these bytes.
    pub(crate) fn find(&self, bytes: &[u8]) -> Option<u32> {
        self.word(hash(bytes), bytes).or_else(|| self.ids().into_iter().find(|&id| self.bytes(id) == bytes))
    }

    fn home(&self, hash: u32) -> usize {
        hash as usize & (self.slots.len() - 1)
    }
}

/// A multiplicative hash over eight bytes at a time; the tables are built once from trusted files.
pub(crate) fn hash(bytes: &[u8]) -> u32 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut state = bytes.len() as u64;
    let mut chunks = bytes.chunks_exact(8);
    for chunk in &mut chunks {
        let word = u64::from_le_bytes(chunk.try_into().expect("a chunk has eight bytes"));
        state = (state.rotate_left(23) ^ word).wrapping_mul(FACTOR);
    }
    let tail = chunks.remainder().iter().fold(0, |word, &byte| word << 8 | u64::from(byte));
    state = (state.rotate_left(23) ^ tail).wrapping_mul(FACTOR);
    (state >> 32) as u32
}
