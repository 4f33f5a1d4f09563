//! The reader: accepts what `json.loads` accepts.

use super::{Dict, Value};

/// A syntax error and its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseError {
    /// The error.
    pub message: &'static str,
    /// Its byte offset.
    pub at: usize,
    /// Its line in a text of several, and its column in characters; both count from 1.
    line: Option<usize>,
    column: usize,
}

/// The error of a text without a value, which has no place.
const EMPTY: &str = "it is empty";

impl ParseError {
    fn new(text: &str, message: &'static str, at: usize) -> Self {
        let before = text.get(..at).unwrap_or(text);
        let line = text.trim_end().contains('\n').then(|| before.matches('\n').count() + 1);
        let column = before.rsplit('\n').next().map_or(0, |last| last.chars().count()) + 1;
        let message = if text.trim().is_empty() { EMPTY } else { message };
        ParseError { message, at, line, column }
    }
}

impl std::fmt::Display for ParseError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.line {
            _ if self.message == EMPTY => f.write_str(EMPTY),
            Some(line) => write!(f, "{} at line {line}, column {}", self.message, self.column),
            None => write!(f, "{} at character {}", self.message, self.column),
        }
    }
}

impl std::error::Error for ParseError {}

/// Maximum nesting depth, so that hostile input cannot overflow the stack.
const MAX_DEPTH: usize = 512;

/// Parses `text` as one JSON value, surrounded by nothing but white space.
pub fn parse(text: &str) -> Result<Value, ParseError> {
    let (value, rest) = parse_prefix(text)?;
    let tail = text[rest..].trim_start_matches([' ', '\t', '\n', '\r']);
    if tail.is_empty() { Ok(value) } else { Err(ParseError::new(text, "extra data", text.len() - tail.len())) }
}

/// Parses one JSON value at the start of `text` and returns it with its end.
pub fn parse_prefix(text: &str) -> Result<(Value, usize), ParseError> {
    let mut reader = Reader { text, at: 0, depth: 0 };
    reader.blanks();
    let value = reader.value()?;
    Ok((value, reader.at))
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn fail<T>(&self, message: &'static str) -> Result<T, ParseError> {
        Err(ParseError::new(self.text, message, self.at))
    }

    fn blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn value(&mut self) -> Result<Value, ParseError> {
        match self.peek() {
            Some(b'{') => self.nested(Self::dict),
            Some(b'[') => self.nested(Self::list),
            Some(b'"') => Ok(Value::Str(self.string()?)),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => self.word(),
        }
    }

    fn nested(&mut self, read: fn(&mut Self) -> Result<Value, ParseError>) -> Result<Value, ParseError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return self.fail("too deeply nested");
        }
        let value = read(self)?;
        self.depth -= 1;
        Ok(value)
    }

    fn word(&mut self) -> Result<Value, ParseError> {
        const WORDS: [(&str, Value); 5] = [
            ("null", Value::Null),
            ("true", Value::Bool(true)),
            ("false", Value::Bool(false)),
            ("NaN", Value::Float(f64::NAN)),
            ("Infinity", Value::Float(f64::INFINITY)),
        ];
        for (word, value) in WORDS {
            if self.text[self.at..].starts_with(word) {
                self.at += word.len();
                return Ok(value);
            }
        }
        self.fail("expecting value")
    }

    fn digits(&mut self) -> usize {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        self.at - start
    }

    fn number(&mut self) -> Result<Value, ParseError> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
            if self.text[self.at..].starts_with("Infinity") {
                self.at += "Infinity".len();
                return Ok(Value::Float(f64::NEG_INFINITY));
            }
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else if self.digits() == 0 {
            return self.fail("expecting value");
        }
        let whole_end = self.at;
        if self.peek() == Some(b'.') {
            self.at += 1;
            if self.digits() == 0 {
                self.at = whole_end;
            }
        }
        let fraction_end = self.at;
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            if self.digits() == 0 {
                self.at = fraction_end;
            }
        }
        let text = &self.text[start..self.at];
        if self.at > whole_end {
            return text.parse().map(Value::Float).or_else(|_| self.fail("bad number"));
        }
        Ok(text.parse().map_or_else(|_| Value::BigInt(text.to_owned()), Value::Int))
    }

    fn string(&mut self) -> Result<String, ParseError> {
        self.at += 1;
        let mut out = String::new();
        loop {
            let rest = &self.text.as_bytes()[self.at..];
            let Some(stop) = rest.iter().position(|&b| b == b'"' || b == b'\\' || b < 0x20) else {
                return self.fail("unterminated string");
            };
            out.push_str(&self.text[self.at..self.at + stop]);
            self.at += stop;
            match rest[stop] {
                b'"' => {
                    self.at += 1;
                    return Ok(out);
                }
                b'\\' => self.escape(&mut out)?,
                _ => return self.fail("invalid control character"),
            }
        }
    }

    fn escape(&mut self, out: &mut String) -> Result<(), ParseError> {
        self.at += 1;
        let Some(kind) = self.peek() else { return self.fail("unterminated string") };
        self.at += 1;
        out.push(match kind {
            b'"' => '"',
            b'\\' => '\\',
            b'/' => '/',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => self.unicode()?,
            _ => {
                self.at -= 1;
                return self.fail("invalid escape");
            }
        });
        Ok(())
    }

    /// The rest of a `\u` escape; a lone surrogate, which a Rust string cannot hold, becomes U+FFFD.
    fn unicode(&mut self) -> Result<char, ParseError> {
        let first = self.hex4()?;
        if (0xd800..0xdc00).contains(&first) && self.text[self.at..].starts_with("\\u") {
            let back = self.at;
            self.at += 2;
            let second = self.hex4()?;
            if (0xdc00..0xe000).contains(&second) {
                let code = 0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00);
                return Ok(char::from_u32(code).unwrap_or('\u{fffd}'));
            }
            self.at = back;
        }
        Ok(char::from_u32(first).unwrap_or('\u{fffd}'))
    }

    fn hex4(&mut self) -> Result<u32, ParseError> {
        let digits = self.text.as_bytes().get(self.at..self.at + 4);
        let Some(digits) = digits.filter(|digits| digits.iter().all(u8::is_ascii_hexdigit)) else {
            return self.fail("invalid \\uXXXX escape");
        };
        self.at += 4;
        let digit = |byte: u8| char::from(byte).to_digit(16).unwrap_or(0);
        Ok(digits.iter().fold(0, |code, &byte| code << 4 | digit(byte)))
    }

    fn list(&mut self) -> Result<Value, ParseError> {
        self.at += 1;
        let mut items = Vec::new();
        self.blanks();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Value::List(items));
        }
        loop {
            self.blanks();
            items.push(self.value()?);
            self.blanks();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(Value::List(items));
                }
                _ => return self.fail("expecting ',' delimiter"),
            }
        }
    }

    fn dict(&mut self) -> Result<Value, ParseError> {
        self.at += 1;
        let mut dict = Dict::new();
        self.blanks();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Value::Dict(dict));
        }
        loop {
            self.blanks();
            if self.peek() != Some(b'"') {
                return self.fail("expecting property name enclosed in double quotes");
            }
            let key = self.string()?;
            self.blanks();
            if self.peek() != Some(b':') {
                return self.fail("expecting ':' delimiter");
            }
            self.at += 1;
            self.blanks();
            let value = self.value()?;
            if dict.get(&key).is_some() {
                dict.set(key, value);
            } else {
                dict.push(key, value);
            }
            self.blanks();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(Value::Dict(dict));
                }
                _ => return self.fail("expecting ',' delimiter"),
            }
        }
    }
}
