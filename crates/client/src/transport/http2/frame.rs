//! Frames: cut out of the bytes of a connection in whatever pieces they come, and written.

/// No frame may be longer: the size that both sides accept unless they say otherwise, and neither does.
pub(super) const MAX_FRAME: usize = 16 << 10;
const HEADER: usize = 9;

/// Bytes that are not HTTP/2, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fault(pub(super) &'static str);

/// What a frame is, by its type byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Data,
    Headers,
    Reset,
    Settings,
    PushPromise,
    Ping,
    GoAway,
    WindowUpdate,
    Continuation,
    /// Priorities, and whatever comes after this was written: to be passed over.
    Other,
}

impl Kind {
    fn of(byte: u8) -> Self {
        match byte {
            0 => Kind::Data,
            1 => Kind::Headers,
            3 => Kind::Reset,
            4 => Kind::Settings,
            5 => Kind::PushPromise,
            6 => Kind::Ping,
            7 => Kind::GoAway,
            8 => Kind::WindowUpdate,
            9 => Kind::Continuation,
            _ => Kind::Other,
        }
    }

    fn byte(self) -> u8 {
        (0..=9).find(|&byte| Kind::of(byte) == self).unwrap_or(2)
    }
}

/// Flags; what a bit means depends on the kind of frame.
pub(super) mod flags {
    pub(in super::super) const END_STREAM: u8 = 0x1;
    pub(in super::super) const ACK: u8 = 0x1;
    pub(in super::super) const END_HEADERS: u8 = 0x4;
    pub(in super::super) const PADDED: u8 = 0x8;
    pub(in super::super) const PRIORITY: u8 = 0x20;
}

/// The nine bytes before every frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) length: usize,
    pub(super) kind: Kind,
    pub(super) flags: u8,
    pub(super) stream: u32,
}

impl Header {
    fn read(raw: &[u8; HEADER]) -> Self {
        let [a, b, c, kind, flags, stream @ ..] = *raw;
        Header {
            length: u32::from_be_bytes([0, a, b, c]) as usize,
            kind: Kind::of(kind),
            flags,
            stream: u32::from_be_bytes(stream) & 0x7fff_ffff,
        }
    }

    pub(super) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Appends a frame.
pub(super) fn put(kind: Kind, flags: u8, stream: u32, payload: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(payload.len() as u32).to_be_bytes()[1..]);
    out.extend_from_slice(&[kind.byte(), flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
}

/// What a frame's bytes amount to. Bodies are handed on as they come; everything else is gathered first.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    /// Some bytes of a body.
    Body(u32, &'a [u8]),
    /// A frame of a body is over.
    BodyFrame(Header),
    /// Any other frame, whole.
    Frame(Header, &'a [u8]),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Header,
    PadLength,
    Body { left: usize, padding: usize },
    Payload,
}

/// Cuts frames out of a connection's bytes.
#[derive(Debug)]
pub(super) struct Frames {
    state: State,
    raw: [u8; HEADER],
    filled: usize,
    header: Header,
    payload: Vec<u8>,
}

impl Frames {
    pub(super) fn new() -> Self {
        let raw = [0; HEADER];
        Frames { state: State::Header, raw, filled: 0, header: Header::read(&raw), payload: Vec::new() }
    }

    /// The next piece that the input holds; the input is left behind it.
    pub(super) fn next<'s, 'i: 's>(&'s mut self, input: &mut &'i [u8]) -> Result<Option<Piece<'s>>, Fault> {
        loop {
            match self.state {
                State::Header => {
                    let part = take(input, HEADER - self.filled);
                    self.raw[self.filled..self.filled + part.len()].copy_from_slice(part);
                    self.filled += part.len();
                    if self.filled < HEADER {
                        return Ok(None);
                    }
                    self.filled = 0;
                    self.begin()?;
                }
                State::PadLength => {
                    let [padding] = take(input, 1) else { return Ok(None) };
                    let padding = usize::from(*padding);
                    let left = self.header.length - 1;
                    let left = left.checked_sub(padding).ok_or(Fault("a frame is padded beyond its end"))?;
                    self.state = State::Body { left, padding };
                }
                State::Body { left: 0, padding: 0 } => {
                    self.state = State::Header;
                    return Ok(Some(Piece::BodyFrame(self.header)));
                }
                State::Body { .. } if input.is_empty() => return Ok(None),
                State::Body { left: 0, padding } => {
                    self.state = State::Body { left: 0, padding: padding - take(input, padding).len() };
                }
                State::Body { left, padding } => {
                    let bytes = take(input, left);
                    self.state = State::Body { left: left - bytes.len(), padding };
                    return Ok(Some(Piece::Body(self.header.stream, bytes)));
                }
                State::Payload => {
                    self.payload.extend_from_slice(take(input, self.header.length - self.payload.len()));
                    if self.payload.len() < self.header.length {
                        return Ok(None);
                    }
                    self.state = State::Header;
                    return Ok(Some(Piece::Frame(self.header, &self.payload)));
                }
            }
        }
    }

    fn begin(&mut self) -> Result<(), Fault> {
        self.header = Header::read(&self.raw);
        if self.header.length > MAX_FRAME {
            return Err(Fault("a frame is longer than allowed"));
        }
        self.payload.clear();
        self.state = match (self.header.kind, self.header.has(flags::PADDED)) {
            (Kind::Data, true) if self.header.length == 0 => return Err(Fault("a frame is padded beyond its end")),
            (Kind::Data, true) => State::PadLength,
            (Kind::Data, false) => State::Body { left: self.header.length, padding: 0 },
            _ => State::Payload,
        };
        Ok(())
    }
}

fn take<'a>(input: &mut &'a [u8], most: usize) -> &'a [u8] {
    let (part, rest) = input.split_at(most.min(input.len()));
    *input = rest;
    part
}

/// The standard's name of an error code.
pub(crate) fn code_name(code: u32) -> &'static str {
    const NAMES: [&str; 14] = [
        "NO_ERROR",
        "PROTOCOL_ERROR",
        "INTERNAL_ERROR",
        "FLOW_CONTROL_ERROR",
        "SETTINGS_TIMEOUT",
        "STREAM_CLOSED",
        "FRAME_SIZE_ERROR",
        "REFUSED_STREAM",
        "CANCEL",
        "COMPRESSION_ERROR",
        "CONNECT_ERROR",
        "ENHANCE_YOUR_CALM",
        "INADEQUATE_SECURITY",
        "HTTP_1_1_REQUIRED",
    ];
    NAMES.get(code as usize).copied().unwrap_or("an unknown error")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_written_as_they_are_read() {
        for byte in [0, 1, 3, 4, 5, 6, 7, 8, 9] {
            assert_eq!(Kind::of(byte).byte(), byte);
        }
    }

    #[test]
    fn padding_is_passed_over() {
        let bytes = [&[0, 0, 6, 0, 9, 0, 0, 0, 3, 3][..], b"hi\0\0\0", &[0, 0, 0, 4, 1, 0x80, 0, 0, 0]].concat();
        let mut frames = Frames::new();
        let mut input = &bytes[..];
        assert_eq!(frames.next(&mut input), Ok(Some(Piece::Body(3, b"hi"))));
        let header = Header { length: 6, kind: Kind::Data, flags: 9, stream: 3 };
        assert_eq!(frames.next(&mut input), Ok(Some(Piece::BodyFrame(header))));
        let settings = Header { length: 0, kind: Kind::Settings, flags: 1, stream: 0 };
        assert_eq!(frames.next(&mut input), Ok(Some(Piece::Frame(settings, b""))));
        assert_eq!(frames.next(&mut input), Ok(None));
    }
}
