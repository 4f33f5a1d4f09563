//! GPT-2's alphabet: each byte written as one printable character, so that tokens can be stored as text.

use std::sync::LazyLock;

static CHARS: LazyLock<[char; 256]> = LazyLock::new(|| {
    let mut next = 256;
    std::array::from_fn(|byte| {
        if is_printable(byte as u8) {
            return char::from(byte as u8);
        }
        let stand_in = char::from_u32(next).expect("code points from 256 on are characters");
        next += 1;
        stand_in
    })
});

static BYTES: LazyLock<[Option<u8>; 512]> = LazyLock::new(|| {
    let mut bytes = [None; 512];
    for (byte, &character) in CHARS.iter().enumerate() {
        bytes[character as usize] = Some(byte as u8);
    }
    bytes
});

fn is_printable(byte: u8) -> bool {
    matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff)
}

/// The character that represents a byte.
pub(crate) fn char_of(byte: u8) -> char {
    CHARS[usize::from(byte)]
}

pub(crate) fn byte_of(character: char) -> Option<u8> {
    BYTES.get(character as usize).copied().flatten()
}

/// The bytes that a token's text represents; its own UTF-8 if it has a character outside the alphabet.
pub(crate) fn bytes_of_token(token: &str) -> Vec<u8> {
    token.chars().map(byte_of).collect::<Option<Vec<u8>>>().unwrap_or_else(|| token.as_bytes().to_vec())
}
