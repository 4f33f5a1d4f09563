//! Finds secrets in a text in any form that a server may have put them: as they are, in base64, percent-encoded, as a
//! JSON string, in HTML, and in combinations of these.

use std::{borrow::Cow, ops::Range};

use memchr::memmem;

use super::Secret;
use crate::base64;

/// Encodings inside one another that are looked through, such as JSON in JSON.
const MAX_DEPTH: usize = 2;
/// Shortest part of a secret at the end of a cut text that counts as one.
const SHORTEST_PART: usize = 4;

/// A secret to look for.
#[derive(Debug)]
pub(super) struct Needle {
    secret: Secret,
    /// The digits in base64 that it determines, at each of the three positions and in both alphabets.
    base64: Vec<Vec<u8>>,
}

impl Needle {
    pub(super) fn new(secret: Secret) -> Needle {
        let coded = (0..3).flat_map(|before| coded(secret.expose().as_bytes(), before));
        Needle { base64: coded.filter(|digits| digits.len() > SHORTEST_PART).collect(), secret }
    }

    pub(super) fn is(&self, secret: &Secret) -> bool {
        self.secret == *secret
    }

    pub(super) fn len(&self) -> usize {
        self.secret.expose().len()
    }

    /// A number matches whole numbers only: its digits occur in longer ones.
    fn matches(&self, text: &[u8], at: usize) -> bool {
        let secret = self.secret.expose().as_bytes();
        let is_digit = |at: Option<usize>| at.and_then(|at| text.get(at)).is_some_and(u8::is_ascii_digit);
        !secret.iter().all(u8::is_ascii_digit) || !is_digit(at.checked_sub(1)) && !is_digit(Some(at + secret.len()))
    }
}

/// The digits in base64 that `secret` determines after `before` other bytes, in both alphabets.
fn coded(secret: &[u8], before: usize) -> [Vec<u8>; 2] {
    let padded = [&[0; 2][..before], secret].concat();
    let digits = base64::encode(&padded).into_bytes();
    let (first, last) = ((before * 8).div_ceil(6), padded.len() * 8 / 6);
    let standard = digits.get(first..last).unwrap_or_default().to_vec();
    let of_url = standard.iter().map(|digit| match digit {
        b'+' => b'-',
        b'/' => b'_',
        other => *other,
    });
    [of_url.collect(), standard]
}

/// The places of secrets in `text`, in order. The end of a text that `is_cut` may be the beginning of a secret.
pub(super) fn find<'n>(
    text: &[u8],
    needles: impl Iterator<Item = &'n Needle> + Clone,
    is_cut: bool,
) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    if needles.clone().next().is_none() {
        return found;
    }
    let plain = View { bytes: Cow::Borrowed(text), starts: None };
    plain.search_all(&needles, is_cut, MAX_DEPTH, &mut found);
    found.sort_by_key(|range| range.start);
    found.dedup_by(|next, before| {
        let overlaps = next.start <= before.end;
        if overlaps {
            before.end = before.end.max(next.end);
        }
        overlaps
    });
    found
}

/// A text with some encodings removed.
struct View<'t> {
    bytes: Cow<'t, [u8]>,
    /// Where each byte, and the end, is in the original; `None` for the original itself.
    starts: Option<Vec<usize>>,
}

impl View<'_> {
    /// Searches the text, and what it decodes to.
    fn search_all<'n>(
        &self,
        needles: &(impl Iterator<Item = &'n Needle> + Clone),
        is_cut: bool,
        depth: usize,
        found: &mut Vec<Range<usize>>,
    ) {
        needles.clone().for_each(|needle| self.search(needle, is_cut, found));
        if depth > 0 {
            let decoded = [Code::Percent, Code::Plus, Code::Backslash, Code::Html]
                .into_iter()
                .filter_map(|code| self.decoded(code));
            decoded.for_each(|view| view.search_all(needles, is_cut, depth - 1, found));
        }
    }

    fn search(&self, needle: &Needle, is_cut: bool, found: &mut Vec<Range<usize>>) {
        let secret = needle.secret.expose().as_bytes();
        let plain = memmem::find_iter(&self.bytes, secret).filter(|&at| needle.matches(&self.bytes, at));
        found.extend(plain.map(|at| self.original(at..at + secret.len())));
        for digits in &needle.base64 {
            // The rest of the code may hold the user, or the last byte of the secret.
            found.extend(memmem::find_iter(&self.bytes, digits).map(|at| self.original(self.code_around(at))));
        }
        if is_cut {
            let forms = needle.base64.iter().map(Vec::as_slice).chain([secret]);
            let part = forms.filter_map(|form| ends_within(&self.bytes, form)).max();
            found.extend(part.map(|length| self.original(self.bytes.len() - length..self.bytes.len())));
        }
    }

    /// The run of base64 digits around a position.
    fn code_around(&self, at: usize) -> Range<usize> {
        let is_other = |byte: &u8| !(byte.is_ascii_alphanumeric() || b"+/-_=".contains(byte));
        let start = self.bytes[..at].iter().rposition(is_other).map_or(0, |before| before + 1);
        let end = self.bytes[at..].iter().position(is_other).map_or(self.bytes.len(), |length| at + length);
        start..end
    }

    fn original(&self, range: Range<usize>) -> Range<usize> {
        match &self.starts {
            Some(starts) => starts[range.start]..starts[range.end],
            None => range,
        }
    }

    /// The text with one level of an encoding removed; `None` if there is none.
    fn decoded(&self, code: Code) -> Option<View<'static>> {
        let escape = |at: usize| code.escape(&self.bytes[at..]);
        let first = memchr::memchr_iter(code as u8, &self.bytes).find(|&at| escape(at).is_some())?;
        let mut bytes = self.bytes[..first].to_vec();
        let mut starts: Vec<usize> = (0..first).map(|at| self.original(at..at).start).collect();
        let mut at = first;
        while at < self.bytes.len() {
            let mut buffer = [0; 4];
            let (decoded, length) = match escape(at) {
                Some((character, length)) => (character.encode(&mut buffer), length),
                None => (&self.bytes[at..=at], 1),
            };
            bytes.extend_from_slice(decoded);
            starts.resize(bytes.len(), self.original(at..at).start);
            at += length;
        }
        starts.push(self.original(at..at).start);
        Some(View { bytes: Cow::Owned(bytes), starts: Some(starts) })
    }
}

/// The length of the longest proper beginning of `form` that `text` ends with, if it is long enough to tell something.
fn ends_within(text: &[u8], form: &[u8]) -> Option<usize> {
    let longest = form.len().saturating_sub(1).min(text.len());
    (SHORTEST_PART..=longest).rev().find(|&length| text.ends_with(&form[..length]))
}

/// What an escape sequence stands for.
enum Escaped {
    Byte(u8),
    Character(char),
}

impl Escaped {
    fn encode(self, buffer: &mut [u8; 4]) -> &[u8] {
        match self {
            Escaped::Byte(byte) => {
                buffer[0] = byte;
                &buffer[..1]
            }
            Escaped::Character(character) => character.encode_utf8(buffer).as_bytes(),
        }
    }
}

/// An encoding of texts, by the character that its escape sequences begin with.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Code {
    Percent = b'%' as isize,
    /// A space in a form or a query.
    Plus = b'+' as isize,
    Backslash = b'\\' as isize,
    Html = b'&' as isize,
}

impl Code {
    /// The escape sequence that `text` begins with, and its length.
    fn escape(self, text: &[u8]) -> Option<(Escaped, usize)> {
        if text.first() == Some(&(self as u8)) { escape(text) } else { None }
    }
}

/// The escape sequence that `text` begins with, and its length.
fn escape(text: &[u8]) -> Option<(Escaped, usize)> {
    let hex = |range: Range<usize>| {
        let digits = text.get(range).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit))?;
        u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    };
    let byte = |value: u32, length| Some((Escaped::Byte(value as u8), length));
    match text {
        [b'%', ..] => byte(hex(1..3)?, 3),
        [b'+', ..] => byte(u32::from(b' '), 1),
        [b'\\', b'x', ..] => byte(hex(2..4)?, 4),
        [b'\\', b'u', ..] => {
            let unit = hex(2..6)?;
            let low = (text.get(6..8) == Some(b"\\u")).then(|| hex(8..12)).flatten();
            match (unit, low) {
                (0xd800..=0xdbff, Some(low @ 0xdc00..=0xdfff)) => {
                    let code = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
                    char::from_u32(code).map(|character| (Escaped::Character(character), 12))
                }
                _ => char::from_u32(unit).map(|character| (Escaped::Character(character), 6)),
            }
        }
        [b'\\', letter, ..] => {
            let meant = match letter {
                b'n' => b'\n',
                b't' => b'\t',
                b'r' => b'\r',
                b'b' => 8,
                b'f' => 12,
                b'"' | b'\\' | b'/' | b'\'' => *letter,
                _ => return None,
            };
            byte(u32::from(meant), 2)
        }
        [b'&', ..] => {
            let length = text.iter().take(10).position(|&byte| byte == b';')?;
            let name = std::str::from_utf8(&text[1..length]).ok()?;
            let number = |digits: &str| match digits.strip_prefix(['x', 'X']) {
                Some(hex) => u32::from_str_radix(hex, 16).ok(),
                None => digits.parse().ok(),
            };
            let character = match name {
                "amp" => '&',
                "lt" => '<',
                "gt" => '>',
                "quot" => '"',
                "apos" => '\'',
                _ => char::from_u32(number(name.strip_prefix('#')?)?)?,
            };
            Some((Escaped::Character(character), length + 1))
        }
        _ => None,
    }
}
