//! A cursor over JSON that checks everything and builds nothing, so that an event costs no allocation.
//! Accepts what Python accepts: `NaN`, infinities, lone surrogates in escapes.

use std::ops::Range;
use tacho_core::bounded::UsageCount;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NotJson;

/// Maximum nesting depth, because the text comes from a server.
const MAX_DEPTH: u32 = 256;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Null,
    False,
    True,
    Number,
    Text,
    List,
    Object,
}

/// A string's bytes between the quotes, and whether they contain escapes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Text {
    pub(crate) span: Range<usize>,
    pub(crate) escaped: bool,
}

/// A position in a UTF-8 JSON text.
#[derive(Debug, Clone)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    pub(crate) at: usize,
    depth: u32,
    /// Whether an invalid count was found.
    pub(crate) met_impossible: bool,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        let mut cursor = Cursor { bytes, at: 0, depth: 0, met_impossible: false };
        cursor.blanks();
        cursor
    }

    /// Whether only white space is left.
    pub(crate) fn at_end(&mut self) -> bool {
        self.blanks();
        self.at == self.bytes.len()
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn slice(&self, span: Range<usize>) -> &'a [u8] {
        &self.bytes[span]
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    fn expect(&mut self, byte: u8) -> Result<(), NotJson> {
        if self.peek() == Some(byte) {
            self.at += 1;
            Ok(())
        } else {
            Err(NotJson)
        }
    }

    pub(crate) fn kind(&self) -> Result<Kind, NotJson> {
        Ok(match self.peek().ok_or(NotJson)? {
            b'{' => Kind::Object,
            b'[' => Kind::List,
            b'"' => Kind::Text,
            b'n' => Kind::Null,
            b't' => Kind::True,
            b'f' => Kind::False,
            _ => Kind::Number,
        })
    }

    /// Skips the value at the cursor and validates it.
    pub(crate) fn skip(&mut self) -> Result<Kind, NotJson> {
        let kind = self.kind()?;
        match kind {
            Kind::Object => self.members(|cursor, _| cursor.skip().map(drop))?,
            Kind::List => {
                self.items(|cursor, _| cursor.skip().map(drop))?;
            }
            Kind::Text => {
                self.text()?;
            }
            Kind::Null => self.word(b"null")?,
            Kind::True => self.word(b"true")?,
            Kind::False => self.word(b"false")?,
            Kind::Number => {
                self.number_text()?;
            }
        }
        Ok(kind)
    }

    /// Skips the value; returns its span if it is truthy in Python.
    pub(crate) fn truthy_span(&mut self) -> Result<Option<Range<usize>>, NotJson> {
        let start = self.at;
        let truthy = match self.kind()? {
            Kind::Number => self.number()? != 0.0,
            Kind::Text => !self.text()?.span.is_empty(),
            Kind::List => self.items(|cursor, _| cursor.skip().map(drop))? > 0,
            Kind::Object => {
                let mut any = false;
                self.members(|cursor, _| {
                    any = true;
                    cursor.skip().map(drop)
                })?;
                any
            }
            _ => self.skip()? == Kind::True,
        };
        Ok(truthy.then_some(start..self.at))
    }

    /// Reads a token count; `None` for anything else. Invalid numbers set `met_impossible`.
    pub(crate) fn count(&mut self) -> Result<Option<u64>, NotJson> {
        if self.kind()? != Kind::Number {
            self.skip()?;
            return Ok(None);
        }
        let number = self.number()?;
        let possible = (0.0..=UsageCount::MAX as f64).contains(&number) && number.fract() == 0.0;
        self.met_impossible |= !possible;
        Ok(possible.then_some(number as u64))
    }

    /// Like [`Cursor::members`], but skips anything other than an object.
    pub(crate) fn members_if_object(
        &mut self,
        visit: impl FnMut(&mut Self, &[u8]) -> Result<(), NotJson>,
    ) -> Result<(), NotJson> {
        if self.kind()? == Kind::Object { self.members(visit) } else { self.skip().map(drop) }
    }

    /// Reads the member `name` of the object at the cursor, if there is one, and skips everything else.
    pub(crate) fn member_if_object(
        &mut self,
        name: &[u8],
        mut read: impl FnMut(&mut Self) -> Result<(), NotJson>,
    ) -> Result<(), NotJson> {
        self.members_if_object(|cursor, key| if key == name { read(cursor) } else { cursor.skip().map(drop) })
    }

    fn word(&mut self, word: &[u8]) -> Result<(), NotJson> {
        if self.bytes[self.at..].starts_with(word) {
            self.at += word.len();
            Ok(())
        } else {
            Err(NotJson)
        }
    }

    /// Visits each member of the object at the cursor; `visit` must consume the value.
    pub(crate) fn members(
        &mut self,
        mut visit: impl FnMut(&mut Self, &[u8]) -> Result<(), NotJson>,
    ) -> Result<(), NotJson> {
        self.enter(b'{')?;
        if self.leave_if(b'}') {
            return Ok(());
        }
        loop {
            self.blanks();
            let key = self.text()?;
            self.blanks();
            self.expect(b':')?;
            self.blanks();
            let bytes = self.bytes;
            visit(self, &bytes[key.span])?;
            self.blanks();
            if self.leave_if(b'}') {
                return Ok(());
            }
            self.expect(b',')?;
        }
    }

    /// Visits each item of the list at the cursor with its index; returns their number.
    pub(crate) fn items(
        &mut self,
        mut visit: impl FnMut(&mut Self, usize) -> Result<(), NotJson>,
    ) -> Result<usize, NotJson> {
        self.enter(b'[')?;
        if self.leave_if(b']') {
            return Ok(0);
        }
        for count in 0.. {
            self.blanks();
            visit(self, count)?;
            self.blanks();
            if self.leave_if(b']') {
                return Ok(count + 1);
            }
            self.expect(b',')?;
        }
        Err(NotJson)
    }

    fn enter(&mut self, open: u8) -> Result<(), NotJson> {
        self.expect(open)?;
        self.depth += 1;
        self.blanks();
        if self.depth > MAX_DEPTH { Err(NotJson) } else { Ok(()) }
    }

    fn leave_if(&mut self, close: u8) -> bool {
        let leaves = self.peek() == Some(close);
        if leaves {
            self.at += 1;
            self.depth -= 1;
        }
        leaves
    }

    /// Skips the string at the cursor.
    pub(crate) fn text(&mut self) -> Result<Text, NotJson> {
        self.expect(b'"')?;
        let start = self.at;
        let mut escaped = false;
        loop {
            match self.peek().ok_or(NotJson)? {
                b'"' => {
                    self.at += 1;
                    return Ok(Text { span: start..self.at - 1, escaped });
                }
                b'\\' => {
                    escaped = true;
                    self.escape()?;
                }
                0..0x20 => return Err(NotJson),
                _ => self.at += 1,
            }
        }
    }

    fn escape(&mut self) -> Result<(), NotJson> {
        match self.bytes.get(self.at + 1).ok_or(NotJson)? {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => self.at += 2,
            b'u' => {
                let digits = self.bytes.get(self.at + 2..self.at + 6).ok_or(NotJson)?;
                if !digits.iter().all(u8::is_ascii_hexdigit) {
                    return Err(NotJson);
                }
                self.at += 6;
            }
            _ => return Err(NotJson),
        }
        Ok(())
    }

    pub(crate) fn number(&mut self) -> Result<f64, NotJson> {
        let start = self.at;
        self.number_text()?;
        // Rust parses the names of non-finite numbers too.
        std::str::from_utf8(&self.bytes[start..self.at]).ok().and_then(|text| text.parse().ok()).ok_or(NotJson)
    }

    fn number_text(&mut self) -> Result<(), NotJson> {
        if !matches!(self.peek(), Some(b'0'..=b'9'))
            && ["NaN", "Infinity", "-Infinity"].iter().any(|word| self.word(word.as_bytes()).is_ok())
        {
            return Ok(());
        }
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<(), NotJson> {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        if self.at > start { Ok(()) } else { Err(NotJson) }
    }
}

/// Parses a text that is exactly one JSON value.
pub(crate) fn whole<'a, T>(
    bytes: &'a [u8],
    read: impl FnOnce(&mut Cursor<'a>) -> Result<T, NotJson>,
) -> Result<T, NotJson> {
    if std::str::from_utf8(bytes).is_err() {
        return Err(NotJson);
    }
    let mut cursor = Cursor::new(bytes);
    let value = read(&mut cursor)?;
    if cursor.at_end() { Ok(value) } else { Err(NotJson) }
}

pub(crate) fn is_json(bytes: &[u8]) -> bool {
    whole(bytes, |cursor| cursor.skip()).is_ok()
}

/// Appends the unescaped form of the validated string body `raw`, as WTF-8.
pub(crate) fn unescape(raw: &[u8], out: &mut Vec<u8>) {
    let mut at = 0;
    while at < raw.len() {
        let plain = memchr::memchr(b'\\', &raw[at..]).unwrap_or(raw.len() - at);
        out.extend_from_slice(&raw[at..at + plain]);
        at += plain;
        let Some(&kind) = raw.get(at + 1) else { return };
        at += 2;
        match kind {
            b'b' => out.push(8),
            b'f' => out.push(12),
            b'n' => out.push(b'\n'),
            b'r' => out.push(b'\r'),
            b't' => out.push(b'\t'),
            b'u' => {
                let mut code = hex4(raw, at);
                at += 4;
                if (0xd800..0xdc00).contains(&code) && raw[at..].starts_with(b"\\u") {
                    let low = hex4(raw, at + 2);
                    if (0xdc00..0xe000).contains(&low) {
                        code = 0x1_0000 + ((code - 0xd800) << 10) + (low - 0xdc00);
                        at += 6;
                    }
                }
                push_wtf8(out, code);
            }
            other => out.push(other),
        }
    }
}

fn hex4(raw: &[u8], at: usize) -> u32 {
    let digit = |byte: &u8| char::from(*byte).to_digit(16).unwrap_or(0);
    raw.get(at..at + 4).unwrap_or_default().iter().fold(0, |code, byte| code << 4 | digit(byte))
}

/// Appends a code point that may be a surrogate; a low one is combined with a high one just before it.
fn push_wtf8(out: &mut Vec<u8>, code: u32) {
    match char::from_u32(code) {
        Some(c) => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        None => {
            let tail = |shift: u32| 0x80 | (code >> shift & 0x3f) as u8;
            out.extend_from_slice(&[0xe0 | (code >> 12) as u8, tail(6), tail(0)]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn valid(text: &str) -> bool {
        let mut cursor = Cursor::new(text.as_bytes());
        cursor.skip().is_ok() && cursor.at_end()
    }

    #[test]
    fn accepts_and_refuses_as_python_does() {
        for text in ["{}", "[]", " [1, -2.5e3, NaN, \"a\\u00e9\", {\"k\": null}] ", "\"\\ud83d\"", "0", "-Infinity"] {
            assert!(valid(text), "{text}");
        }
        for text in ["", "{", "[1,]", "{\"a\":}", "01", "1.", "\"\n\"", "\"\\x\"", "tru", "{} {}", "'a'", "\"\\ud8\""] {
            assert!(!valid(text), "{text}");
        }
        assert!(!valid(&"[".repeat(10_000)));
    }

    #[test]
    fn unescapes_to_wtf8() {
        let text = |raw: &str| {
            let mut out = Vec::new();
            unescape(raw.as_bytes(), &mut out);
            out
        };
        assert_eq!(text(r#"a\n\"\\\/\u00e9\ud83d\ude42z"#), "a\n\"\\/é🙂z".as_bytes());
        assert_eq!(text(r"\ud83d"), [0xed, 0xa0, 0xbd]);
    }

    proptest::proptest! {
        #[test]
        fn never_panics(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200)) {
            let _ = Cursor::new(&bytes).skip();
            unescape(&bytes, &mut Vec::new());
        }

        #[test]
        fn agrees_with_the_general_reader(text in "[\\[\\]{}:,0-9.eE+\\-\"a\\\\u nultrefas]{0,12}") {
            proptest::prop_assert_eq!(valid(&text), tacho_core::json::parse(&text).is_ok());
        }
    }
}
