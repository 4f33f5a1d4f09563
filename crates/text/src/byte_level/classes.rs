//! The class of a character in GPT-2's splitting pattern: letter, number, space or anything else.

use std::sync::LazyLock;

use super::ranges::{LETTERS, NUMBERS};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    Other,
    /// `\p{L}`.
    Letter,
    /// `\p{N}`.
    Number,
    /// `\s`.
    Space,
}

const BASIC_PLANE: usize = 0x1_0000;

/// The classes of the basic multilingual plane, which covers nearly all text.
static BASIC: LazyLock<Vec<Class>> = LazyLock::new(|| {
    let mut classes = vec![Class::Other; BASIC_PLANE];
    for (ranges, class) in [(LETTERS, Class::Letter), (NUMBERS, Class::Number)] {
        for &(first, last) in ranges.iter().filter(|(first, _)| (*first as usize) < BASIC_PLANE) {
            classes[first as usize..=(last as usize).min(BASIC_PLANE - 1)].fill(class);
        }
    }
    for (code, class) in classes.iter_mut().enumerate() {
        if char::from_u32(code as u32).is_some_and(char::is_whitespace) {
            *class = Class::Space;
        }
    }
    classes
});

pub(crate) fn class_of(character: char) -> Class {
    match BASIC.get(character as usize) {
        Some(&class) => class,
        None if in_ranges(LETTERS, character) => Class::Letter,
        None if in_ranges(NUMBERS, character) => Class::Number,
        None => Class::Other,
    }
}

fn in_ranges(ranges: &[(u32, u32)], character: char) -> bool {
    let code = character as u32;
    let after = ranges.partition_point(|&(first, _)| first <= code);
    after > 0 && code <= ranges[after - 1].1
}

#[cfg(test)]
mod tests {
    use tokenizers::pre_tokenizers::byte_level::ByteLevel;
    use tokenizers::{OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer};

    use super::*;

    /// Whether the library keeps `character` in one word with `before`.
    fn joins(before: char, character: char) -> bool {
        let mut text = PreTokenizedString::from(format!("{before}{character}"));
        ByteLevel::new(false, true, true).pre_tokenize(&mut text).unwrap();
        text.get_splits(OffsetReferential::Original, OffsetType::Byte).len() == 1
    }

    #[test]
    fn every_character_has_the_class_the_library_gives_it() {
        for character in (0..=0x0010_ffff).filter_map(char::from_u32) {
            let agrees = match class_of(character) {
                Class::Letter => joins('a', character),
                Class::Number => joins('1', character),
                Class::Other => joins('!', character),
                Class::Space => joins('\n', character),
            };
            assert!(agrees, "U+{:04X} is not {:?}", character as u32, class_of(character));
        }
    }
}
