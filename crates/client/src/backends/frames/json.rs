//! JSON values one after another, with or without white space or commas between them, or as the items of one list.

use super::BadFrame;
use crate::{backends::Flow, backends::sse::MAX_EVENT};

#[derive(Debug, Default)]
pub(in crate::backends) struct Values {
    /// The start of an incomplete value.
    buffer: Vec<u8>,
    scan: Scan,
}

/// Where in a value the last byte was.
#[derive(Debug, Default, Clone, Copy)]
struct Scan {
    depth: u32,
    in_string: bool,
    escaped: bool,
    /// Whether the value is a number, a word or a string outside of any object or list.
    bare: bool,
}

impl Values {
    pub(super) fn feed(&mut self, bytes: &[u8], message: &mut impl FnMut(&[u8]) -> Flow) -> Result<Flow, BadFrame> {
        let mut start = 0;
        for (at, &byte) in bytes.iter().enumerate() {
            if !self.is_inside() && is_between(byte) {
                start = at + 1;
                continue;
            }
            let Some(last) = self.scan.step(byte) else { continue };
            let end = if last { at + 1 } else { at };
            if self.emit(&bytes[start..end], message) == Flow::Stop {
                return Ok(Flow::Stop);
            }
            start = at + 1;
        }
        self.buffer.extend_from_slice(&bytes[start..]);
        if self.buffer.len() > MAX_EVENT { Err(BadFrame::TOO_LONG) } else { Ok(Flow::Continue) }
    }

    fn is_inside(&self) -> bool {
        self.scan.depth > 0 || self.scan.in_string || self.scan.bare
    }

    fn emit(&mut self, rest: &[u8], message: &mut impl FnMut(&[u8]) -> Flow) -> Flow {
        if self.buffer.is_empty() {
            return message(rest);
        }
        self.buffer.extend_from_slice(rest);
        let flow = message(&self.buffer);
        self.buffer.clear();
        flow
    }

    /// What follows the last value.
    pub(super) fn rest(&self) -> &[u8] {
        &self.buffer
    }
}

/// Whether a byte separates values. The brackets of a list around them do too.
fn is_between(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | b',' | b'[' | b']' | 0x1e)
}

impl Scan {
    /// Takes a byte. Some if a value ends: true if the byte is its last one, false if it only follows.
    fn step(&mut self, byte: u8) -> Option<bool> {
        if self.in_string {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => {
                    self.in_string = false;
                    return (self.depth == 0).then_some(true);
                }
                _ => {}
            }
            return None;
        }
        match byte {
            b'"' => self.in_string = true,
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' if self.depth > 0 => {
                self.depth -= 1;
                return (self.depth == 0).then_some(true);
            }
            _ if self.depth > 0 => {}
            _ if self.bare && is_between(byte) => {
                self.bare = false;
                return Some(false);
            }
            _ => self.bare = true,
        }
        None
    }
}
