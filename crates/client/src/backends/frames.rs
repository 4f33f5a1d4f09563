//! Splits a body into messages, by the framing of the protocol and the rules.

mod binary;
mod json;
#[cfg(test)]
mod tests;

use memchr::{memchr2, memmem};

use super::sse::{MAX_EVENT, Standard, TooLong};
use super::{BackendKind, Flow, Rules, declared::Framing, format::ResponseFormat};
use binary::Binary;
use json::Values;

/// Why a body cannot be split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BadFrame(pub(super) &'static str);

impl BadFrame {
    const TOO_LONG: BadFrame = BadFrame("a message is longer than any real one");
}

impl From<TooLong> for BadFrame {
    fn from(_: TooLong) -> Self {
        BadFrame::TOO_LONG
    }
}

/// A body that is being split into messages.
#[derive(Debug)]
pub(super) enum Frames {
    /// Server-sent events, as in the standard.
    Events(Standard),
    /// Server-sent events, as upstream parses them.
    Blocks(Blocks),
    /// Lines, without their optional prefix.
    Lines(Lines),
    /// JSON values, one after another.
    Values(Values),
    Binary(Binary),
}

impl Frames {
    pub(super) fn new(backend: BackendKind, rules: Rules) -> Self {
        if let Some(declared) = backend.description() {
            return Frames::framed(declared.framing());
        }
        match (backend.row().format, rules) {
            (_, Rules::Standard) => Frames::Events(Standard::default()),
            (ResponseFormat::Tgi, _) => Frames::Lines(Lines::new(b"data:", Comments::Skipped)),
            (ResponseFormat::TensorRtLlm, _) => Frames::Lines(Lines::new(b"data:", Comments::Messages)),
            _ if backend.is_legacy_completions() => Frames::Lines(Lines::new(b"data: ", Comments::Messages)),
            (ResponseFormat::Audio, _) => Frames::Blocks(Blocks::new(Reading::AllOfIt)),
            (ResponseFormat::Responses | ResponseFormat::Messages, _) => {
                Frames::Blocks(Blocks::new(Reading::DataLines))
            }
            _ => Frames::Blocks(Blocks::new(Reading::NoComments)),
        }
    }

    fn framed(framing: Framing) -> Self {
        match framing {
            Framing::Sse | Framing::Whole => Frames::Events(Standard::default()),
            Framing::JsonLines => Frames::Lines(Lines::new(b"", Comments::Messages)),
            Framing::Json => Frames::Values(Values::default()),
            Framing::LengthPrefixed(prefix) => Frames::Binary(Binary::prefixed(prefix)),
            Framing::AwsEventStream => Frames::Binary(Binary::aws()),
        }
    }

    /// Splits bytes and passes each complete message to `message`, until it returns stop.
    pub(super) fn feed(&mut self, bytes: &[u8], message: &mut impl FnMut(&[u8]) -> Flow) -> Result<Flow, BadFrame> {
        match self {
            Frames::Events(standard) => Ok(standard.feed(bytes, message)?),
            Frames::Blocks(blocks) => Ok(blocks.feed(bytes, message)?),
            Frames::Lines(lines) => Ok(lines.feed(bytes, message)?),
            Frames::Values(values) => values.feed(bytes, message),
            Frames::Binary(binary) => binary.feed(bytes, message),
        }
    }

    /// Ends the body: passes the rest of an incomplete message to `tail`.
    pub(super) fn finish(&mut self, tail: &mut impl FnMut(&[u8])) {
        match self {
            Frames::Events(standard) => standard.finish(tail),
            Frames::Blocks(blocks) => {
                if let Some(data) = trim(&blocks.buffer).strip_prefix(b"data: ") {
                    tail(data);
                }
            }
            Frames::Lines(lines) => {
                let line = std::mem::take(&mut lines.buffer);
                if let Some(line) = lines.message_of(&line) {
                    tail(line);
                }
            }
            Frames::Values(values) if !values.rest().is_empty() => tail(values.rest()),
            Frames::Binary(binary) if !binary.rest().is_empty() => tail(b"{"),
            Frames::Values(_) | Frames::Binary(_) => {}
        }
    }

    /// Whether upstream strips the end of the body, including the end of the last message.
    pub(super) fn strips_its_end(&self) -> bool {
        matches!(self, Frames::Blocks(Blocks { reading: Reading::NoComments | Reading::AllOfIt, .. }))
    }

    /// Whether anything but white space follows the last message.
    pub(super) fn has_rest(&self) -> bool {
        match self {
            Frames::Events(standard) => standard.has_rest(),
            Frames::Blocks(blocks) => blocks.passed_over || !trim(&blocks.buffer).is_empty(),
            Frames::Lines(lines) => !trim(&lines.buffer).is_empty(),
            Frames::Values(values) => !trim(values.rest()).is_empty(),
            Frames::Binary(binary) => !binary.rest().is_empty(),
        }
    }

    /// Whether an incomplete message at the end counts like any other.
    pub(super) fn ends_anywhere(&self) -> bool {
        matches!(self, Frames::Lines(_))
    }
}

/// How upstream extracts the message from a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reading {
    /// The whole block; comments are skipped.
    NoComments,
    /// The whole block, including comments (audio).
    AllOfIt,
    /// The joined data lines (responses).
    DataLines,
}

/// Blocks separated by an empty line.
#[derive(Debug)]
pub(super) struct Blocks {
    reading: Reading,
    buffer: Vec<u8>,
    /// The data lines of a block that has several.
    joined: Vec<u8>,
    /// Whether comments followed the last message.
    passed_over: bool,
}

impl Blocks {
    fn new(reading: Reading) -> Self {
        Blocks { reading, buffer: Vec::new(), joined: Vec::new(), passed_over: false }
    }

    fn feed(&mut self, bytes: &[u8], message: &mut impl FnMut(&[u8]) -> Flow) -> Result<Flow, TooLong> {
        let Blocks { reading, buffer, joined, passed_over } = self;
        buffer.extend_from_slice(bytes);
        let (mut start, mut flow) = (0, Flow::Continue);
        while flow == Flow::Continue {
            let Some(end) = memmem::find(&buffer[start..], b"\n\n") else { break };
            let block = trim(&buffer[start..start + end]);
            start += end + 2;
            if block.is_empty() {
                continue;
            }
            *passed_over = *reading == Reading::NoComments && block[0] == b':';
            flow = match reading {
                _ if *passed_over => Flow::Continue,
                Reading::DataLines if !join_data(block, joined) => Flow::Continue,
                Reading::DataLines => message(trim(joined)),
                Reading::NoComments | Reading::AllOfIt => message(block.strip_prefix(b"data: ").unwrap_or(block)),
            };
        }
        buffer.drain(..start);
        if buffer.len() > MAX_EVENT { Err(TooLong) } else { Ok(flow) }
    }
}

/// Joins the data lines of a block; returns `false` if it has none.
fn join_data(block: &[u8], joined: &mut Vec<u8>) -> bool {
    let mut values = block.split(|&byte| byte == b'\n').filter_map(|line| {
        let value = line.strip_prefix(b"data:")?;
        Some(value.strip_prefix(b" ").unwrap_or(value))
    });
    let Some(first) = values.next() else { return false };
    joined.clear();
    joined.extend_from_slice(first);
    for value in values {
        joined.push(b'\n');
        joined.extend_from_slice(value);
    }
    true
}

/// Handling of lines that begin with a colon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comments {
    Skipped,
    /// Treated as a message, which is then malformed.
    Messages,
}

#[derive(Debug)]
pub(super) struct Lines {
    buffer: Vec<u8>,
    prefix: &'static [u8],
    comments: Comments,
}

impl Lines {
    fn new(prefix: &'static [u8], comments: Comments) -> Self {
        Lines { buffer: Vec::new(), prefix, comments }
    }

    fn feed(&mut self, mut rest: &[u8], message: &mut impl FnMut(&[u8]) -> Flow) -> Result<Flow, TooLong> {
        // Older demonstration servers end lines with a zero byte, which cannot occur in JSON.
        while let Some(end) = memchr2(b'\n', 0, rest) {
            let flow = if self.buffer.is_empty() {
                self.message_of(&rest[..end]).map_or(Flow::Continue, &mut *message)
            } else {
                self.buffer.extend_from_slice(&rest[..end]);
                let line = std::mem::take(&mut self.buffer);
                let flow = self.message_of(&line).map_or(Flow::Continue, &mut *message);
                self.buffer = line;
                self.buffer.clear();
                flow
            };
            rest = &rest[end + 1..];
            if flow == Flow::Stop {
                return Ok(Flow::Stop);
            }
        }
        self.buffer.extend_from_slice(rest);
        if self.buffer.len() > MAX_EVENT { Err(TooLong) } else { Ok(Flow::Continue) }
    }

    fn message_of<'l>(&self, line: &'l [u8]) -> Option<&'l [u8]> {
        let line = trim(line);
        let skipped = line.is_empty() || (self.comments == Comments::Skipped && line.starts_with(b":"));
        (!skipped).then(|| line.strip_prefix(self.prefix).unwrap_or(line))
    }
}

/// Python's `strip` for the white space that occurs in streams.
fn trim(bytes: &[u8]) -> &[u8] {
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t'..=b'\r' | 0x1c..=0x1f);
    let start = bytes.iter().position(|byte| !blank(byte)).unwrap_or(bytes.len());
    let end = bytes.iter().rposition(|byte| !blank(byte)).map_or(start, |at| at + 1);
    &bytes[start..end]
}
