//! Incremental decoding, one token at a time: emits only complete characters.

use crate::{Tokenizer, tokenizer::Engine};

/// Decodes a stream of IDs.
#[derive(Debug, Clone, Default)]
pub struct Decoder {
    /// Byte-level: bytes that do not yet form a character.
    pending: Vec<u8>,
    /// Other engines: the IDs that the text still depends on, and how many of them have been emitted.
    window: Vec<u32>,
    emitted: usize,
}

impl Decoder {
    pub fn new() -> Self {
        Decoder::default()
    }

    /// Decodes one ID and returns the text that is now complete, possibly empty.
    pub fn push(&mut self, tokenizer: &Tokenizer, id: u32) -> String {
        match tokenizer.engine() {
            Engine::ByteLevel(engine) => {
                self.pending.extend_from_slice(engine.bytes(id));
                take_whole_characters(&mut self.pending)
            }
            Engine::General(_) => self.push_to_window(tokenizer, id),
        }
    }

    /// The rest of the text: bytes that never formed a character become replacement characters.
    pub fn finish(&mut self, tokenizer: &Tokenizer) -> String {
        let rest = String::from_utf8_lossy(&self.pending).into_owned();
        let window = self.text_beyond(tokenizer, &tokenizer.decode(&self.window));
        *self = Decoder::default();
        rest + &window
    }

    /// Decodes with the preceding tokens, because tokens depend on their neighbors (a leading space, split bytes).
    /// Emits only the difference, once it ends in a complete character.
    fn push_to_window(&mut self, tokenizer: &Tokenizer, id: u32) -> String {
        self.window.push(id);
        let text = tokenizer.decode(&self.window);
        if text.ends_with(char::REPLACEMENT_CHARACTER) {
            return String::new();
        }
        let new = self.text_beyond(tokenizer, &text);
        if !new.is_empty() {
            self.window.drain(..self.emitted);
            self.emitted = self.window.len();
        }
        new
    }

    fn text_beyond(&self, tokenizer: &Tokenizer, text: &str) -> String {
        let known = tokenizer.decode(&self.window[..self.emitted]);
        text.strip_prefix(known.as_str()).unwrap_or_default().to_owned()
    }
}

/// Takes everything that is final from the front: complete characters, and a replacement for each invalid sequence.
fn take_whole_characters(bytes: &mut Vec<u8>) -> String {
    let open = bytes.utf8_chunks().last().map_or(0, |chunk| {
        let invalid = chunk.invalid();
        if is_unfinished(invalid) { invalid.len() } else { 0 }
    });
    let rest = bytes.split_off(bytes.len() - open);
    let text = String::from_utf8_lossy(bytes).into_owned();
    *bytes = rest;
    text
}

/// Whether more bytes could complete this invalid tail.
fn is_unfinished(tail: &[u8]) -> bool {
    !tail.is_empty() && matches!(std::str::from_utf8(tail), Err(error) if error.error_len().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_come_out_whole() {
        let mut bytes = "aé".as_bytes().to_vec();
        let last = bytes.pop().unwrap();
        assert_eq!(take_whole_characters(&mut bytes), "a");
        bytes.push(last);
        assert_eq!(take_whole_characters(&mut bytes), "é");
        assert!(bytes.is_empty());
    }

    #[test]
    fn broken_bytes_are_replaced_at_once() {
        let mut bytes = vec![b'a', 0xff, b'b', 0xe2, 0x82];
        assert_eq!(take_whole_characters(&mut bytes), "a\u{fffd}b");
        assert_eq!(bytes, [0xe2, 0x82]);
        bytes.push(b'c');
        assert_eq!(take_whole_characters(&mut bytes), "\u{fffd}c");
    }
}
