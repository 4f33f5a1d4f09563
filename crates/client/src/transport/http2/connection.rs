//! One HTTP/2 connection: what it has to say, and what it makes of what it hears. No sockets besides `flush`.

use std::io;

use super::frame::{Fault, Frames, Header, Kind, MAX_FRAME, Piece, flags, put};
use super::hpack::Decoder;
use super::request;
use crate::transport::http1::{Broken, Head, Reader, Sink};
use crate::transport::link::Link;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The window before either side says otherwise.
const FIRST_WINDOW: u32 = 65_535;
/// The widest window there is: a client that measures should never be what a server waits for.
const WINDOW: u32 = (1 << 31) - 1;
/// How much of it may be used up before it is opened anew.
const REOPEN: u32 = 1 << 30;
/// Output that may wait before no more of a body is added.
const ENOUGH_OUTPUT: usize = 64 << 10;
/// Output beyond this means a server that asks and does not listen.
const TOO_MUCH_OUTPUT: usize = 1 << 20;
/// A header block may not be longer.
const MAX_BLOCK: usize = 64 << 10;
const REFUSED_STREAM: u32 = 7;

/// An HTTP/2 connection that carries one request after the other.
#[derive(Debug)]
pub(crate) struct Http2 {
    frames: Frames,
    session: Session,
}

impl Http2 {
    /// The client's side of a new connection.
    pub(crate) fn new(tls: bool) -> Self {
        Http2 { frames: Frames::new(), session: Session::new(if tls { "https" } else { "http" }) }
    }

    /// Whether something waits to be written.
    pub(crate) fn has_output(&self) -> bool {
        self.session.sent < self.session.out.len()
    }

    /// Whether the server takes no further requests here.
    pub(crate) fn is_going_away(&self) -> bool {
        // Numbers of streams are finite, too.
        self.session.going_away || self.session.stream > 1 << 30
    }

    /// Whether the server has said that it did nothing about the request.
    pub(crate) fn has_refused(&self) -> bool {
        self.session.refused
    }

    /// Writes what the connection takes: frames that wait, then more of the request. `written` counts the bytes of
    /// the request that were put into frames.
    pub(crate) fn flush(&mut self, link: &mut Link, mut request: Option<(&[u8], &mut usize)>) -> io::Result<()> {
        loop {
            if let Some((request, written)) = &mut request {
                self.session.fill(request, written);
            }
            if !self.has_output() {
                return Ok(());
            }
            match link.write(&self.session.out[self.session.sent..])? {
                0 => return Ok(()),
                count => self.session.note_sent(count),
            }
        }
    }

    /// What a server would be sent, without a socket in between.
    #[cfg(test)]
    pub(super) fn output(&mut self, request: &[u8], written: &mut usize) -> Vec<u8> {
        self.session.fill(request, written);
        self.session.sent = 0;
        std::mem::take(&mut self.session.out)
    }

    /// Takes bytes from the connection.
    pub(crate) fn feed(&mut self, mut bytes: &[u8], reader: &mut Reader, sink: &mut impl Sink) -> Result<(), Broken> {
        let Http2 { frames, session } = self;
        while let Some(piece) = frames.next(&mut bytes)? {
            match piece {
                Piece::Body(stream, bytes) => {
                    if session.is_current(stream) && !reader.take_body(bytes, sink)? {
                        return Ok(());
                    }
                }
                Piece::BodyFrame(header) => session.body_frame(&header, reader)?,
                Piece::Frame(header, payload) => session.frame(&header, payload, reader, sink)?,
            }
        }
        Ok(())
    }
}

impl From<Fault> for Broken {
    fn from(Fault(reason): Fault) -> Self {
        Broken::Http2(reason)
    }
}

#[derive(Debug)]
struct Session {
    scheme: &'static str,
    headers: Decoder,
    out: Vec<u8>,
    sent: usize,
    /// The latest request's stream; zero before the first.
    stream: u32,
    /// Whether its answer is still awaited.
    active: bool,
    /// How much the server takes: on the connection, on the stream, and on the stream at its beginning.
    connection_window: i64,
    stream_window: i64,
    first_window: u32,
    /// How much has come since the windows were opened: on the connection, on the stream.
    connection_used: u32,
    stream_used: u32,
    /// A header block that goes on in the next frame, with the frame that began it.
    block: Vec<u8>,
    block_of: Option<Header>,
    going_away: bool,
    refused: bool,
}

impl Session {
    fn new(scheme: &'static str) -> Self {
        let mut out = PREFACE.to_vec();
        // No pushes; windows as wide as can be.
        let settings = [&[0, 2, 0, 0, 0, 0, 0, 4][..], &WINDOW.to_be_bytes()].concat();
        put(Kind::Settings, 0, 0, &settings, &mut out);
        put(Kind::WindowUpdate, 0, 0, &(WINDOW - FIRST_WINDOW).to_be_bytes(), &mut out);
        Session {
            scheme,
            headers: Decoder::new(),
            out,
            sent: 0,
            stream: 0,
            active: false,
            connection_window: i64::from(FIRST_WINDOW),
            stream_window: 0,
            first_window: FIRST_WINDOW,
            connection_used: 0,
            stream_used: 0,
            block: Vec::new(),
            block_of: None,
            going_away: false,
            refused: false,
        }
    }

    fn is_current(&self, stream: u32) -> bool {
        self.active && stream == self.stream
    }

    fn note_sent(&mut self, count: usize) {
        self.sent += count;
        if self.sent == self.out.len() {
            self.out.clear();
            self.sent = 0;
        }
    }

    /// Puts as much of the request into frames as the windows allow.
    fn fill(&mut self, request: &[u8], written: &mut usize) {
        if *written == 0 {
            *written = self.begin(request);
        }
        while *written < request.len() && self.out.len() - self.sent < ENOUGH_OUTPUT {
            let window = self.connection_window.min(self.stream_window).max(0) as usize;
            let length = (request.len() - *written).min(window).min(MAX_FRAME);
            if length == 0 {
                return;
            }
            let (start, end) = (*written, *written + length);
            let last = if end == request.len() { flags::END_STREAM } else { 0 };
            put(Kind::Data, last, self.stream, &request[start..end], &mut self.out);
            *written = end;
            self.connection_window -= length as i64;
            self.stream_window -= length as i64;
        }
    }

    /// Opens a stream with the request's head; tells where its body begins.
    fn begin(&mut self, request: &[u8]) -> usize {
        let (block, body_at) = request::head(request, self.scheme);
        self.stream = if self.stream == 0 { 1 } else { self.stream + 2 };
        (self.active, self.refused) = (true, false);
        self.stream_window = i64::from(self.first_window);
        self.stream_used = 0;
        let end = if body_at == request.len() { flags::END_STREAM } else { 0 };
        let mut parts = block.chunks(MAX_FRAME).peekable();
        let mut kind = Kind::Headers;
        while let Some(part) = parts.next() {
            let last = if parts.peek().is_none() { flags::END_HEADERS } else { 0 };
            let end = if kind == Kind::Headers { end } else { 0 };
            put(kind, last | end, self.stream, part, &mut self.out);
            kind = Kind::Continuation;
        }
        body_at
    }

    fn finish(&mut self, reader: &mut Reader) {
        self.active = false;
        reader.finish();
    }

    fn body_frame(&mut self, header: &Header, reader: &mut Reader) -> Result<(), Broken> {
        if self.block_of.is_some() || header.stream == 0 {
            return Err(Broken::Http2("a frame of a body stands where it may not"));
        }
        self.connection_used += header.length as u32;
        if self.connection_used >= REOPEN {
            let opened = std::mem::take(&mut self.connection_used);
            put(Kind::WindowUpdate, 0, 0, &opened.to_be_bytes(), &mut self.out);
        }
        if !self.is_current(header.stream) {
            return Ok(());
        }
        self.stream_used += header.length as u32;
        if header.has(flags::END_STREAM) {
            if !reader.begun() {
                return Err(Broken::Http2("a body comes before its headers"));
            }
            self.finish(reader);
        } else if self.stream_used >= REOPEN {
            let opened = std::mem::take(&mut self.stream_used);
            put(Kind::WindowUpdate, 0, self.stream, &opened.to_be_bytes(), &mut self.out);
        }
        Ok(())
    }

    fn frame(
        &mut self,
        header: &Header,
        payload: &[u8],
        reader: &mut Reader,
        sink: &mut impl Sink,
    ) -> Result<(), Broken> {
        if self.block_of.is_some() != (header.kind == Kind::Continuation) {
            return Err(Broken::Http2("a header block is interrupted, or continued without a beginning"));
        }
        match header.kind {
            Kind::Headers => self.block(*header, unpadded(header, payload)?, header, reader, sink),
            Kind::Continuation => match self.block_of {
                Some(first) if first.stream == header.stream => self.block(first, payload, header, reader, sink),
                _ => Err(Broken::Http2("a header block goes on in another stream")),
            },
            Kind::Reset => self.reset(header, payload),
            Kind::Settings => Ok(self.settings(header, payload)?),
            Kind::Ping => Ok(self.ping(header, payload)?),
            Kind::GoAway => self.go_away(payload),
            Kind::WindowUpdate => Ok(self.window_update(header, payload)?),
            Kind::PushPromise => Err(Broken::Http2("the server pushes though it may not")),
            Kind::Data | Kind::Other => Ok(()),
        }
    }

    /// Takes a part of a header block, which `first` began; `part` tells whether it is the last.
    fn block(
        &mut self,
        first: Header,
        bytes: &[u8],
        part: &Header,
        reader: &mut Reader,
        sink: &mut impl Sink,
    ) -> Result<(), Broken> {
        self.block.extend_from_slice(bytes);
        if self.block.len() > MAX_BLOCK {
            return Err(Broken::Http2("the headers are too long"));
        }
        if !part.has(flags::END_HEADERS) {
            self.block_of = Some(first);
            return Ok(());
        }
        self.block_of = None;
        let mut head = Head::default();
        // Even those that do not matter have to be read: later ones build on them.
        self.headers.decode(&self.block, &mut |name, value| {
            let (name, value) = (String::from_utf8_lossy(name), String::from_utf8_lossy(value));
            match &*name {
                ":status" => head.status = value.parse().unwrap_or(0),
                _ => head.note(&name, &value),
            }
        })?;
        self.block.clear();
        if !self.is_current(first.stream) {
            return Ok(());
        }
        let last = first.has(flags::END_STREAM);
        match (reader.begun(), head.status) {
            // Trailers, of which nothing matters but that the body is over.
            (true, _) if last => self.finish(reader),
            (false, 200..=999) => {
                reader.take_head(head, sink);
                if last {
                    self.finish(reader);
                }
            }
            (false, 100..=199) if !last => {}
            _ => return Err(Broken::Http2("an answer's headers are not those of an answer")),
        }
        Ok(())
    }

    fn reset(&mut self, header: &Header, payload: &[u8]) -> Result<(), Broken> {
        let code = number(payload).ok_or(Fault("a reset of the wrong length"))?;
        if !self.is_current(header.stream) {
            return Ok(());
        }
        self.active = false;
        self.refused = code == REFUSED_STREAM;
        Err(Broken::Reset(code))
    }

    fn settings(&mut self, header: &Header, payload: &[u8]) -> Result<(), Fault> {
        if header.stream != 0 || !payload.len().is_multiple_of(6) {
            return Err(Fault("settings of the wrong length or place"));
        }
        if header.has(flags::ACK) {
            return Ok(());
        }
        for setting in payload.chunks_exact(6) {
            let value = number(&setting[2..]).unwrap_or_default();
            // The others limit what we never do: index headers, send longer frames, open a second stream.
            if setting[..2] == [0, 4] {
                if value > WINDOW {
                    return Err(Fault("a window is wider than the widest"));
                }
                self.stream_window += i64::from(value) - i64::from(self.first_window);
                self.first_window = value;
            }
        }
        self.answer(Kind::Settings, &[])
    }

    fn ping(&mut self, header: &Header, payload: &[u8]) -> Result<(), Fault> {
        match (header.has(flags::ACK), payload.len()) {
            (_, length) if length != 8 => Err(Fault("a ping of the wrong length")),
            (true, _) => Ok(()),
            (false, _) => self.answer(Kind::Ping, payload),
        }
    }

    fn answer(&mut self, kind: Kind, payload: &[u8]) -> Result<(), Fault> {
        put(kind, flags::ACK, 0, payload, &mut self.out);
        if self.out.len() - self.sent > TOO_MUCH_OUTPUT {
            return Err(Fault("the server asks without end and does not listen"));
        }
        Ok(())
    }

    fn go_away(&mut self, payload: &[u8]) -> Result<(), Broken> {
        // Text for people may follow.
        let numbers =
            payload.split_at_checked(4).and_then(|(last, rest)| Some((number(last)?, number(rest.get(..4)?)?)));
        let (last, code) = numbers.ok_or(Fault("a farewell of the wrong length"))?;
        self.going_away = true;
        if self.active && last & WINDOW < self.stream {
            (self.active, self.refused) = (false, true);
            return Err(Broken::GoneAway(code));
        }
        Ok(())
    }

    fn window_update(&mut self, header: &Header, payload: &[u8]) -> Result<(), Fault> {
        let by = number(payload).ok_or(Fault("a window update of the wrong length"))? & WINDOW;
        let window = match header.stream {
            0 => &mut self.connection_window,
            stream if stream == self.stream => &mut self.stream_window,
            _ => return Ok(()),
        };
        *window += i64::from(by);
        if by == 0 || *window > i64::from(WINDOW) {
            return Err(Fault("a window is opened by nothing, or too far"));
        }
        Ok(())
    }
}

/// A frame's payload without padding and priority.
fn unpadded<'a>(header: &Header, payload: &'a [u8]) -> Result<&'a [u8], Fault> {
    let beyond = Fault("a frame is padded beyond its end");
    let (padding, mut rest) = if header.has(flags::PADDED) {
        let (&padding, rest) = payload.split_first().ok_or(beyond)?;
        (usize::from(padding), rest)
    } else {
        (0, payload)
    };
    if header.has(flags::PRIORITY) {
        rest = rest.get(5..).ok_or(beyond)?;
    }
    rest.len().checked_sub(padding).map(|length| &rest[..length]).ok_or(beyond)
}

/// Four bytes as a number.
fn number(bytes: &[u8]) -> Option<u32> {
    bytes.try_into().ok().map(u32::from_be_bytes)
}
