//! Foreign text for terminals, pages and files: characters that control a terminal or reorder text are escaped.

use std::fmt::Write;

/// Escapes all characters that could move the cursor, control the terminal or reorder text. Line breaks and tabs
/// stay.
pub fn harmless(text: &str) -> String {
    escape(text, |character| matches!(character, '\n' | '\t'))
}

/// Like [`harmless`], for text that must stay on one line.
pub fn harmless_line(text: &str) -> String {
    escape(text, |_| false)
}

fn escape(text: &str, keep: impl Fn(char) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if keep(character) || !is_harmful(character) {
            out.push(character);
        } else if u32::from(character) < 0x100 {
            let _ = write!(out, "\\x{:02x}", u32::from(character));
        } else {
            let _ = write!(out, "\\u{:04x}", u32::from(character));
        }
    }
    out
}

/// Returns whether a character is a control character, a line or paragraph separator, or a bidirectional mark.
pub(crate) fn is_harmful(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        )
}
