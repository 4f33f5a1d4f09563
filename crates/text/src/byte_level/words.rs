//! GPT-2's splitting pattern as a hand-written scanner:
//! `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`.
//! Every character belongs to some word, so the words partition the text.

use super::classes::{Class, class_of};

const CONTRACTIONS: [&[u8]; 7] = [b"'s", b"'t", b"'re", b"'ve", b"'m", b"'ll", b"'d"];

pub(crate) struct Words<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Words<'t> {
    pub(crate) fn new(text: &'t str) -> Self {
        Words { text, at: 0 }
    }

    fn class_at(&self, at: usize) -> Option<(Class, usize)> {
        let bytes = self.text.as_bytes();
        let &first = bytes.get(at)?;
        if first.is_ascii() {
            return Some((ascii_class(first), 1));
        }
        let character = self.text[at..].chars().next()?;
        Some((class_of(character), character.len_utf8()))
    }

    /// The end of the run of `class` that starts at `at`.
    fn run_end(&self, mut at: usize, class: Class) -> usize {
        while let Some((found, len)) = self.class_at(at)
            && found == class
        {
            at += len;
        }
        at
    }

    /// The last space of a run belongs to the next word; a space alone is a word itself.
    fn space_end(&self, start: usize) -> usize {
        let (mut at, mut last) = (start, start);
        while let Some((Class::Space, len)) = self.class_at(at) {
            last = at;
            at += len;
        }
        if at == self.text.len() || last == start { at } else { last }
    }

    fn word_end(&self) -> usize {
        let rest = &self.text.as_bytes()[self.at..];
        if rest[0] == b'\''
            && let Some(suffix) = CONTRACTIONS.iter().find(|suffix| rest.starts_with(suffix))
        {
            return self.at + suffix.len();
        }
        let body = if rest[0] == b' ' { self.at + 1 } else { self.at };
        match self.class_at(body) {
            None | Some((Class::Space, _)) => self.space_end(self.at),
            Some((class, _)) => self.run_end(body, class),
        }
    }
}

impl<'t> Iterator for Words<'t> {
    type Item = &'t [u8];

    fn next(&mut self) -> Option<&'t [u8]> {
        if self.at == self.text.len() {
            return None;
        }
        let end = self.word_end();
        let word = &self.text.as_bytes()[self.at..end];
        self.at = end;
        Some(word)
    }
}

fn ascii_class(byte: u8) -> Class {
    const CLASSES: [Class; 128] = ascii_classes();
    CLASSES[usize::from(byte & 0x7f)]
}

const fn ascii_classes() -> [Class; 128] {
    let mut classes = [Class::Other; 128];
    let mut byte = 0;
    while byte < 128 {
        classes[byte as usize] = match byte {
            b'a'..=b'z' | b'A'..=b'Z' => Class::Letter,
            b'0'..=b'9' => Class::Number,
            9..=13 | b' ' => Class::Space,
            _ => Class::Other,
        };
        byte += 1;
    }
    classes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<&str> {
        Words::new(text).map(|word| std::str::from_utf8(word).unwrap()).collect()
    }

    #[test]
    fn spaces_go_to_the_word_that_follows() {
        assert_eq!(words("a  b\n\n c \t"), ["a", " ", " b", "\n\n", " c", " \t"]);
        assert_eq!(words("\nx \u{a0}y"), ["\n", "x", " ", "\u{a0}", "y"]);
    }

    #[test]
    fn contractions_are_words_only_where_a_word_begins() {
        assert_eq!(words("it's 'S '' 'llama"), ["it", "'s", " '", "S", " ''", " '", "llama"]);
        assert_eq!(words("'reve'd"), ["'re", "ve", "'d"]);
    }

    #[test]
    fn numbers_letters_and_the_rest_part() {
        assert_eq!(words("x1²!?… é"), ["x", "1²", "!?…", " é"]);
    }
}
