//! HTTP/1.1 framing: encodes a request, and parses a response incrementally without copying its body.

mod request;

pub(crate) use request::{after_host, request};

const MAX_HEAD: usize = 64 << 10;
/// Maximum number of informational (1xx) heads before a response.
const MAX_INFORMATIONAL: u32 = 64;
/// Bytes after which it is clear whether a server speaks HTTP.
const PROTOCOL_NAME_LEN: usize = 16;
/// Maximum length of the line before a chunk, which may contain extensions.
const MAX_CHUNK_LINE: u32 = 16 << 10;
/// Maximum length of all trailers together.
const MAX_TRAILER: u32 = 64 << 10;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) status: u16,
    pub(crate) reason: String,
    pub(crate) location: Option<Box<str>>,
    pub(crate) encoding: Option<Box<str>>,
    pub(crate) content_type: Option<Box<str>>,
    /// Describes bytes in the body (vLLM's pooling responses), or answers the key of a WebSocket.
    pub(crate) metadata: Option<Box<str>>,
    /// The values of `Set-Cookie`, one per line.
    pub(crate) cookies: Option<Box<str>>,
    /// Seconds of `Retry-After`; 0 without one.
    pub(crate) retry_after: u32,
    /// Whether the body ends with the connection, so that a lost connection looks like its end.
    pub(crate) open_ended: bool,
    keep_alive: bool,
}

impl Head {
    /// Stores a header if it is relevant.
    pub(super) fn note(&mut self, name: &str, value: &str) {
        if name.eq_ignore_ascii_case("location") {
            self.location = Some(value.into());
        } else if name.eq_ignore_ascii_case("content-encoding") {
            self.encoding = Some(value.to_ascii_lowercase().into());
        } else if name.eq_ignore_ascii_case("content-type") {
            self.content_type = Some(value.into());
        } else if name.eq_ignore_ascii_case("metadata") || name.eq_ignore_ascii_case("sec-websocket-accept") {
            self.metadata = Some(value.into());
        } else if name.eq_ignore_ascii_case("retry-after") {
            // A date is not worth reading: rate limiters send seconds.
            self.retry_after = value.parse().unwrap_or(0);
        } else if name.eq_ignore_ascii_case("set-cookie") {
            self.cookies = Some([self.cookies.as_deref().unwrap_or_default(), value].join("\n").into());
        }
    }
}

/// The bytes are not a valid HTTP response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Broken {
    Head,
    Chunk,
    /// The line before a chunk is too long.
    ChunkLine,
    /// The trailers are too long.
    Trailer,
    /// The connection ended inside the response.
    Incomplete,
    /// Bytes after the end of the response.
    Surplus,
    /// Invalid HTTP/2; the reason.
    Http2(&'static str),
    /// The server reset the stream with this HTTP/2 error code.
    Reset(u32),
    /// The server closed the HTTP/2 connection before it processed the request.
    GoneAway(u32),
}

pub(crate) trait Sink {
    fn head(&mut self, head: &Head);
    /// Part of the body; returns `false` to stop.
    fn body(&mut self, bytes: &[u8]) -> bool;
    /// Whether the request asks to switch to another protocol, whose bytes then follow the head.
    fn upgrades(&self) -> bool {
        false
    }
    /// Whether to pass it every header, before the head.
    fn wants_headers(&self) -> bool {
        false
    }
    fn header(&mut self, _name: &str, _value: &[u8]) {}
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Head,
    Sized(u64),
    /// The body ends with the connection.
    UntilClose,
    Chunk(Chunk),
    /// HTTP/2 frames mark the end of the body.
    Framed,
    End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Chunk {
    /// In the size line: its value, and whether a digit was seen.
    Size(u64, bool),
    AfterSize(u64),
    /// In a chunk extension, which is ignored.
    Extension(u64),
    Data(u64),
    /// Before the line end after a chunk.
    DataEnd,
    /// In the trailer; whether the current line is still empty.
    Trailer(bool),
}

#[derive(Debug)]
pub(crate) struct Reader {
    state: State,
    head_bytes: Vec<u8>,
    head: Head,
    has_body: bool,
    /// Bytes of the current line between chunks, or of all trailers.
    between: u32,
    /// Number of informational heads so far.
    informed: u32,
}

impl Reader {
    /// A parser for the response to any method except HEAD.
    pub(crate) fn new() -> Self {
        Reader {
            state: State::Head,
            head_bytes: Vec::new(),
            head: Head::default(),
            has_body: true,
            between: 0,
            informed: 0,
        }
    }

    /// Whether any byte of the response has been read.
    pub(crate) fn begun(&self) -> bool {
        self.state != State::Head || !self.head_bytes.is_empty()
    }

    pub(crate) fn ended(&self) -> bool {
        self.state == State::End
    }

    /// Whether the connection can take another request after this response.
    pub(crate) fn reusable(&self) -> bool {
        self.ended() && self.head.keep_alive
    }

    pub(crate) fn head(&self) -> &Head {
        &self.head
    }

    /// Takes the cookies of the response, once its head has arrived.
    pub(crate) fn take_cookies(&mut self) -> Option<Box<str>> {
        self.head.cookies.take()
    }

    /// Parses bytes from the connection; returns how many belong to this response.
    pub(crate) fn feed(&mut self, bytes: &[u8], sink: &mut impl Sink) -> Result<usize, Broken> {
        let mut at = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            match self.state {
                State::Head => at += self.feed_head(rest, sink)?,
                State::Sized(left) => {
                    let take = usize::try_from(left).unwrap_or(usize::MAX).min(rest.len());
                    self.state = if left == take as u64 { State::End } else { State::Sized(left - take as u64) };
                    at += take;
                    if !sink.body(&rest[..take]) {
                        return Ok(at);
                    }
                }
                State::UntilClose | State::Framed => {
                    sink.body(rest);
                    return Ok(bytes.len());
                }
                State::Chunk(chunk) => {
                    let (used, wanted) = self.feed_chunk(chunk, rest, sink)?;
                    at += used;
                    if !wanted {
                        return Ok(at);
                    }
                }
                State::End => break,
            }
        }
        Ok(at)
    }

    /// Takes a head that HTTP/2 has parsed.
    pub(super) fn take_head(&mut self, head: Head, sink: &mut impl Sink) {
        self.head = Head { keep_alive: true, ..head };
        self.state = State::Framed;
        sink.head(&self.head);
    }

    /// HTTP/2 signals that the response is complete.
    pub(super) fn finish(&mut self) {
        self.state = State::End;
    }

    pub(crate) fn end_of_input(&mut self) -> Result<(), Broken> {
        match self.state {
            State::End | State::UntilClose => {
                self.state = State::End;
                Ok(())
            }
            _ => Err(Broken::Incomplete),
        }
    }

    fn feed_head(&mut self, bytes: &[u8], sink: &mut impl Sink) -> Result<usize, Broken> {
        let before = self.head_bytes.len();
        self.head_bytes.extend_from_slice(bytes);
        // Do not parse a slowly arriving head again for every byte: only a line end can complete it.
        if before >= PROTOCOL_NAME_LEN && memchr::memchr(b'\n', bytes).is_none() && self.head_bytes.len() <= MAX_HEAD {
            return Ok(bytes.len());
        }
        let mut slots = [httparse::EMPTY_HEADER; 96];
        let mut response = httparse::Response::new(&mut slots);
        match response.parse(&self.head_bytes) {
            Ok(httparse::Status::Complete(length)) => {
                let framing = read_head(&response, &mut self.head)?;
                if sink.wants_headers() && self.head.status >= 200 {
                    response.headers.iter().for_each(|header| sink.header(header.name, header.value));
                }
                // Free the memory for the rest of the stream.
                self.head_bytes = Vec::new();
                self.state = framing;
                if self.head.status == 101 && sink.upgrades() {
                    self.state = State::UntilClose;
                    sink.head(&self.head);
                } else if (100..200).contains(&self.head.status) {
                    self.state = State::Head;
                    self.informed += 1;
                    if self.informed > MAX_INFORMATIONAL {
                        return Err(Broken::Head);
                    }
                } else {
                    if !self.has_body || matches!(self.head.status, 204 | 304) {
                        self.state = State::End;
                    }
                    sink.head(&self.head);
                }
                Ok(length - before)
            }
            Ok(httparse::Status::Partial) if self.head_bytes.len() <= MAX_HEAD => Ok(bytes.len()),
            _ => Err(Broken::Head),
        }
    }

    fn feed_chunk(&mut self, chunk: Chunk, bytes: &[u8], sink: &mut impl Sink) -> Result<(usize, bool), Broken> {
        let byte = bytes[0];
        let next = match (chunk, byte) {
            (Chunk::Data(left), _) => {
                let take = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
                let left = left - take as u64;
                self.state = State::Chunk(if left == 0 { Chunk::DataEnd } else { Chunk::Data(left) });
                return Ok((take, sink.body(&bytes[..take])));
            }
            (Chunk::Size(0, true) | Chunk::AfterSize(0) | Chunk::Extension(0), b'\n') => Chunk::Trailer(true),
            (Chunk::Size(size, true) | Chunk::AfterSize(size) | Chunk::Extension(size), b'\n') => Chunk::Data(size),
            (Chunk::Size(size, _), digit) if digit.is_ascii_hexdigit() && size < 1 << 56 => {
                Chunk::Size(size << 4 | u64::from(char::from(digit).to_digit(16).unwrap_or(0)), true)
            }
            (Chunk::Size(size, true) | Chunk::AfterSize(size), b'\r' | b' ' | b'\t') => Chunk::AfterSize(size),
            (Chunk::Size(size, true) | Chunk::AfterSize(size), b';') | (Chunk::Extension(size), _) => {
                Chunk::Extension(size)
            }
            (Chunk::DataEnd, b'\r') => Chunk::DataEnd,
            (Chunk::DataEnd, b'\n') => Chunk::Size(0, false),
            (Chunk::Trailer(true), b'\n') => {
                self.state = State::End;
                return Ok((1, true));
            }
            (Chunk::Trailer(_), b'\n') => Chunk::Trailer(true),
            (Chunk::Trailer(empty), b'\r') => Chunk::Trailer(empty),
            (Chunk::Trailer(_), _) => Chunk::Trailer(false),
            _ => return Err(Broken::Chunk),
        };
        self.state = State::Chunk(next);
        self.count_between(chunk, next)?;
        Ok((1, true))
    }

    /// Counts a byte between chunks, to limit their number.
    fn count_between(&mut self, before: Chunk, after: Chunk) -> Result<(), Broken> {
        let restarts = matches!(after, Chunk::Data(_))
            || (matches!(after, Chunk::Trailer(_)) && !matches!(before, Chunk::Trailer(_)));
        self.between = if restarts { 0 } else { self.between + 1 };
        match after {
            Chunk::Trailer(_) if self.between > MAX_TRAILER => Err(Broken::Trailer),
            Chunk::Trailer(_) => Ok(()),
            _ if self.between > MAX_CHUNK_LINE => Err(Broken::ChunkLine),
            _ => Ok(()),
        }
    }
}

fn read_head(response: &httparse::Response<'_, '_>, head: &mut Head) -> Result<State, Broken> {
    *head = Head {
        status: response.code.ok_or(Broken::Head)?,
        reason: response.reason.unwrap_or_default().to_owned(),
        keep_alive: response.version == Some(1),
        ..Head::default()
    };
    let (mut codings, mut length) = (Vec::new(), None);
    for header in response.headers.iter() {
        let value = String::from_utf8_lossy(header.value);
        let value = value.trim();
        if header.name.eq_ignore_ascii_case("transfer-encoding") {
            codings.extend(list(value));
        } else if header.name.eq_ignore_ascii_case("content-length") {
            for given in list(value) {
                let given = content_length(&given).ok_or(Broken::Head)?;
                if length.replace(given).is_some_and(|other| other != given) {
                    return Err(Broken::Head);
                }
            }
        } else if header.name.eq_ignore_ascii_case("connection") {
            let options = list(value);
            head.keep_alive |= options.iter().any(|option| option == "keep-alive");
            head.keep_alive &= options.iter().all(|option| option != "close");
        } else {
            head.note(header.name, value);
        }
    }
    let framing = match (codings.last().map(String::as_str), length) {
        (Some("chunked"), _) => State::Chunk(Chunk::Size(0, false)),
        // Without an outermost chunked coding, a coded body ends with the connection, whatever length it claims.
        (Some(_), _) | (None, None) => State::UntilClose,
        (None, Some(0)) => State::End,
        (None, Some(length)) => State::Sized(length),
    };
    // Other transfer codings have to be decoded like content codings.
    codings.retain(|coding| !matches!(coding.as_str(), "identity" | "chunked"));
    if let Some(coding) = codings.pop() {
        head.encoding =
            Some(if head.encoding.is_none() && codings.is_empty() { coding.into() } else { "several".into() });
    }
    head.open_ended = framing == State::UntilClose;
    head.keep_alive &= !head.open_ended;
    Ok(framing)
}

/// The members of a list header, in lower case.
fn list(value: &str) -> Vec<String> {
    value.split(',').map(|item| item.trim().to_ascii_lowercase()).filter(|item| !item.is_empty()).collect()
}

/// Digits only: Rust would also accept a sign.
fn content_length(text: &str) -> Option<u64> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests;
