//! Frames with a binary head: a length prefix, or AWS's event stream (`application/vnd.amazon.eventstream`).

use flate2::Crc;
use tacho_core::json::write_str;

use super::BadFrame;
use crate::{backends::Flow, backends::declared::Prefix, backends::sse::MAX_EVENT};

/// A body of frames with a binary head.
#[derive(Debug)]
pub(in crate::backends) struct Binary {
    head: Head,
    buffer: Vec<u8>,
    /// The message of an AWS event.
    message: Vec<u8>,
}

#[derive(Debug, Clone, Copy)]
enum Head {
    Prefix(Prefix),
    Aws,
}

/// Lengths of the parts of an AWS frame: its two lengths with their checksum, and the checksum at its end.
const PRELUDE: usize = 12;
const CHECKSUM: usize = 4;
const BROKEN: BadFrame = BadFrame("a frame of the event stream is broken");
const CORRUPT: BadFrame = BadFrame("the checksum of a frame is wrong");

impl Binary {
    pub(super) fn prefixed(prefix: Prefix) -> Self {
        Binary { head: Head::Prefix(prefix), buffer: Vec::new(), message: Vec::new() }
    }

    pub(super) fn aws() -> Self {
        Binary { head: Head::Aws, buffer: Vec::new(), message: Vec::new() }
    }

    pub(super) fn feed(&mut self, bytes: &[u8], message: &mut impl FnMut(&[u8]) -> Flow) -> Result<Flow, BadFrame> {
        if self.buffer.is_empty() {
            // The common case, without copying: whole frames.
            let (used, flow) = self.split(bytes, message)?;
            self.buffer.extend_from_slice(&bytes[used..]);
            return Ok(flow);
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.extend_from_slice(bytes);
        let (used, flow) = self.split(&buffer, message)?;
        buffer.drain(..used);
        self.buffer = buffer;
        Ok(flow)
    }

    /// Passes on the complete frames; returns the bytes they take.
    fn split(&mut self, bytes: &[u8], message: &mut impl FnMut(&[u8]) -> Flow) -> Result<(usize, Flow), BadFrame> {
        let mut start = 0;
        while let Some((head, total)) = self.lengths(&bytes[start..])? {
            let Some(frame) = bytes.get(start..start + total) else { break };
            start += total;
            let flow = match self.head {
                Head::Prefix(_) => message(&frame[head..]),
                Head::Aws => {
                    read_event(frame, &mut self.message)?;
                    message(&self.message)
                }
            };
            if flow == Flow::Stop {
                return Ok((start, Flow::Stop));
            }
        }
        Ok((start, Flow::Continue))
    }

    /// The lengths of the next frame's head and of the frame, once they are known.
    fn lengths(&self, bytes: &[u8]) -> Result<Option<(usize, usize)>, BadFrame> {
        let (head, length) = match self.head {
            Head::Aws => {
                let Some(total) = bytes.get(..4).and_then(|bytes| bytes.try_into().ok()) else { return Ok(None) };
                (0, u64::from(u32::from_be_bytes(total)))
            }
            Head::Prefix(Prefix { width, little_endian, skip, counts_head }) => {
                let head = skip + width;
                let Some(digits) = bytes.get(skip..head) else { return Ok(None) };
                let add = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
                let length = if little_endian { digits.iter().rev().fold(0, add) } else { digits.iter().fold(0, add) };
                (head, if counts_head { length } else { length.saturating_add(head as u64) })
            }
        };
        match usize::try_from(length) {
            Ok(total) if total > MAX_EVENT => Err(BadFrame::TOO_LONG),
            Ok(total) if total < head.max(1) => {
                Err(BadFrame("a frame is shorter than its head: check bytes, endian, skip and counts"))
            }
            Ok(total) => Ok(Some((head, total))),
            Err(_) => Err(BadFrame::TOO_LONG),
        }
    }

    pub(super) fn rest(&self) -> &[u8] {
        &self.buffer
    }
}

/// Reads a frame into a JSON object with the payload under the name of its event type, and the type of an exception
/// under `:exception`.
fn read_event(frame: &[u8], out: &mut Vec<u8>) -> Result<(), BadFrame> {
    if frame.len() < PRELUDE + CHECKSUM {
        return Err(BROKEN);
    }
    let number = |at: usize| u32::from_be_bytes([frame[at], frame[at + 1], frame[at + 2], frame[at + 3]]);
    let end = frame.len() - CHECKSUM;
    if crc(&frame[..8]) != number(8) || crc(&frame[..end]) != number(end) {
        return Err(CORRUPT);
    }
    let headers_end = PRELUDE.checked_add(number(4) as usize).filter(|at| *at <= end).ok_or(BROKEN)?;
    let (mut kind, mut name) = (&b"event"[..], &b""[..]);
    let mut headers = &frame[PRELUDE..headers_end];
    while !headers.is_empty() {
        let (key, value, rest) = header(headers).ok_or(BROKEN)?;
        match key {
            b":message-type" => kind = value,
            b":event-type" | b":exception-type" | b":error-code" => name = value,
            _ => {}
        }
        headers = rest;
    }
    let name = std::str::from_utf8(name).map_err(|_| BROKEN)?;
    let payload = frame[headers_end..end].trim_ascii();
    out.clear();
    out.push(b'{');
    if kind != b"event" {
        out.extend_from_slice(b"\":exception\":");
        write_str(out, if name.is_empty() { "error" } else { name });
        out.push(b',');
    }
    write_str(out, name);
    out.push(b':');
    out.extend_from_slice(if payload.is_empty() { b"null" } else { payload });
    out.push(b'}');
    Ok(())
}

/// Name and value of the first header, and the rest. Values other than strings are skipped.
fn header(bytes: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let (&length, rest) = bytes.split_first()?;
    let (name, rest) = rest.split_at_checked(usize::from(length))?;
    let (&kind, rest) = rest.split_first()?;
    let length = match kind {
        0 | 1 => 0,
        2 => 1,
        3 => 2,
        4 => 4,
        5 | 8 => 8,
        6 | 7 => {
            let (length, rest) = rest.split_at_checked(2)?;
            let (value, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes([length[0], length[1]])))?;
            return Some((name, value, rest));
        }
        9 => 16,
        _ => return None,
    };
    let (_, rest) = rest.split_at_checked(length)?;
    Some((name, b"", rest))
}

fn crc(bytes: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(bytes);
    crc.sum()
}
