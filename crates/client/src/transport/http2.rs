//! HTTP/2 with the `h2` crate over our own sockets and timestamps. Bytes are fed in as they are read, and the output of
//! `h2` is drained and written. Nothing here blocks: pending futures are polled again when bytes have moved.

#[cfg(test)]
mod fuzz;

use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::{cell::RefCell, future::Future, io, rc::Rc};

use bytes::Bytes;
use h2::client::{Builder, Connection, ResponseFuture, SendRequest};
use h2::{Reason, RecvStream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::http1::{Broken, Head, Reader, Sink};
use super::link::Link;

/// Maximum window size: the client must never throttle the server.
const WINDOW: u32 = (1 << 31) - 1;
/// Maximum length of a header block.
const MAX_HEADERS: u32 = 64 << 10;
/// Maximum pending output before no more is accepted.
const MAX_PENDING_OUTPUT: usize = 256 << 10;

/// An HTTP/2 connection that carries one request at a time.
pub(crate) struct Http2 {
    pipe: Pipe,
    scheme: &'static str,
    session: Option<Session>,
    awaited: Awaited,
    going_away: bool,
    refused: bool,
}

struct Session {
    sender: SendRequest<Bytes>,
    connection: Connection<Pipe, Bytes>,
}

/// The awaited part of the current response.
enum Awaited {
    Nothing,
    Head(ResponseFuture),
    Body(RecvStream),
}

impl Http2 {
    /// The client's side of a new connection.
    pub(crate) fn new(tls: bool) -> Self {
        let pipe = Pipe::default();
        let mut builder = Builder::new();
        builder.enable_push(false).max_header_list_size(MAX_HEADERS);
        builder.initial_window_size(WINDOW).initial_connection_window_size(WINDOW);
        // The handshake only writes, and the pipe accepts everything.
        let session = match pin!(builder.handshake(pipe.clone())).poll(&mut context()) {
            Poll::Ready(Ok((sender, connection))) => Some(Session { sender, connection }),
            _ => None,
        };
        let scheme = if tls { "https" } else { "http" };
        Http2 { going_away: session.is_none(), pipe, scheme, session, awaited: Awaited::Nothing, refused: false }
    }

    pub(crate) fn has_output(&self) -> bool {
        !self.pipe.0.borrow().output.is_empty()
    }

    /// Whether the server accepts no further requests on this connection.
    pub(crate) fn is_going_away(&self) -> bool {
        self.going_away
    }

    /// Whether the server has stated that it did not process the request.
    pub(crate) fn has_refused(&self) -> bool {
        self.refused
    }

    /// Writes pending output, and starts the request if it has not started. `written` is then its full length, because
    /// `h2` buffers what the server does not accept yet.
    pub(crate) fn flush(&mut self, link: &mut Link, request: Option<(&[u8], &mut usize)>) -> io::Result<()> {
        if let Some((request, written)) = request
            && *written == 0
            && self.begin(request).map_err(to_io)?
        {
            *written = request.len();
        }
        loop {
            self.drive();
            let mut wire = self.pipe.0.borrow_mut();
            if wire.output.is_empty() {
                return Ok(());
            }
            match link.write([&[], &wire.output])? {
                0 => return Ok(()),
                count => drop(wire.output.drain(..count)),
            }
        }
    }

    pub(crate) fn feed(&mut self, bytes: &[u8], reader: &mut Reader, sink: &mut impl Sink) -> Result<(), Broken> {
        self.pipe.0.borrow_mut().input.extend_from_slice(bytes);
        let driven = self.drive();
        let read = self.read_response(reader, sink);
        // Reading frees window capacity, which the server must be notified of.
        self.drive();
        match (read, driven) {
            (Err(error), _) => {
                let unheard = !reader.begun() && error.is_remote();
                self.refused = unheard && (error.is_go_away() || error.reason() == Some(Reason::REFUSED_STREAM));
                self.awaited = Awaited::Nothing;
                Err(broken(&error))
            }
            (Ok(()), Some(error)) if matches!(self.awaited, Awaited::Nothing) && !reader.ended() => Err(broken(&error)),
            _ => Ok(()),
        }
    }

    /// Drives `h2`; returns the error that ended the connection, if any.
    fn drive(&mut self) -> Option<h2::Error> {
        let session = self.session.as_mut()?;
        let ended = match Pin::new(&mut session.connection).poll(&mut context()) {
            Poll::Pending => None,
            Poll::Ready(ended) => Some(ended),
        };
        let closed = matches!(session.sender.poll_ready(&mut context()), Poll::Ready(Err(_)));
        self.going_away |= closed || ended.is_some();
        ended.and_then(Result::err)
    }

    /// Starts a request; returns `false` if the server accepts none now.
    fn begin(&mut self, request: &[u8]) -> Result<bool, h2::Error> {
        let Some(session) = &mut self.session else { return Err(Reason::INTERNAL_ERROR.into()) };
        match session.sender.poll_ready(&mut context()) {
            Poll::Pending => return Ok(false),
            Poll::Ready(ready) => ready?,
        }
        let (head, body) = translate(request, self.scheme).ok_or(Reason::PROTOCOL_ERROR)?;
        let (response, mut upload) = session.sender.send_request(head, body.is_empty())?;
        if !body.is_empty() {
            upload.send_data(Bytes::copy_from_slice(body), true)?;
        }
        (self.awaited, self.refused) = (Awaited::Head(response), false);
        Ok(true)
    }

    /// Reads the available part of the response.
    fn read_response(&mut self, reader: &mut Reader, sink: &mut impl Sink) -> Result<(), h2::Error> {
        loop {
            match &mut self.awaited {
                Awaited::Nothing => return Ok(()),
                Awaited::Head(response) => {
                    let Poll::Ready(response) = Pin::new(response).poll(&mut context()) else { return Ok(()) };
                    let (parts, body) = response?.into_parts();
                    if sink.wants_headers() {
                        parts.headers.iter().for_each(|(name, value)| sink.header(name.as_str(), value.as_bytes()));
                    }
                    reader.take_head(head(&parts), sink);
                    self.awaited = Awaited::Body(body);
                }
                Awaited::Body(body) => match body.poll_data(&mut context()) {
                    Poll::Pending => return Ok(()),
                    Poll::Ready(Some(data)) => {
                        let data = data?;
                        body.flow_control().release_capacity(data.len())?;
                        if !sink.body(&data) {
                            return Ok(());
                        }
                    }
                    Poll::Ready(None) => {
                        let Poll::Ready(trailers) = body.poll_trailers(&mut context()) else { return Ok(()) };
                        trailers?;
                        self.awaited = Awaited::Nothing;
                        reader.finish();
                    }
                },
            }
        }
    }
}

impl std::fmt::Debug for Http2 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Http2").field("going_away", &self.going_away).field("refused", &self.refused).finish()
    }
}

fn context() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

/// The relevant fields of a response head.
fn head(parts: &http::response::Parts) -> Head {
    let mut head = Head::default();
    head.status = parts.status.as_u16();
    for (name, value) in &parts.headers {
        head.note(name.as_str(), &String::from_utf8_lossy(value.as_bytes()));
    }
    head
}

/// Converts the bytes of an HTTP/1.1 request to an HTTP/2 head and body. The protocol of a connection is known only
/// once it is open, long after requests were encoded.
fn translate<'r>(request: &'r [u8], scheme: &str) -> Option<(http::Request<()>, &'r [u8])> {
    let mut slots = [httparse::EMPTY_HEADER; 256];
    let mut parsed = httparse::Request::new(&mut slots);
    let Ok(httparse::Status::Complete(body_at)) = parsed.parse(request) else { return None };
    let host = parsed.headers.iter().find(|header| header.name.eq_ignore_ascii_case("host"))?;
    let uri = format!("{scheme}://{}{}", String::from_utf8_lossy(host.value), parsed.path?);
    let mut head = http::Request::builder().method(parsed.method?).uri(uri).version(http::Version::HTTP_2);
    for header in parsed.headers.iter() {
        let name = header.name.to_ascii_lowercase();
        // Connection-specific headers of HTTP/1.1 must not be forwarded.
        let of_http1 = ["host", "connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"];
        if !of_http1.contains(&name.as_str()) {
            head = head.header(name, header.value);
        }
    }
    Some((head.body(()).ok()?, &request[body_at..]))
}

fn broken(error: &h2::Error) -> Broken {
    let code = error.reason().map_or(u32::from(Reason::INTERNAL_ERROR), u32::from);
    match () {
        () if error.is_io() => Broken::Incomplete,
        () if error.is_library() => Broken::Http2(code_name(code)),
        () if error.is_go_away() => Broken::GoneAway(code),
        () if error.is_reset() => Broken::Reset(code),
        () => Broken::Http2(code_name(code)),
    }
}

fn to_io(error: h2::Error) -> io::Error {
    io::Error::other(format!("HTTP/2: {error}"))
}

/// The standard's name of an error code (RFC 9113, section 7).
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

/// Both directions of a connection, in memory.
#[derive(Clone, Default)]
struct Pipe(Rc<RefCell<Wire>>);

#[derive(Default)]
struct Wire {
    input: Vec<u8>,
    output: Vec<u8>,
}

impl AsyncRead for Pipe {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let input = &mut self.0.borrow_mut().input;
        if input.is_empty() {
            return Poll::Pending;
        }
        let count = input.len().min(buffer.remaining());
        buffer.put_slice(&input[..count]);
        input.drain(..count);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Pipe {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let output = &mut self.0.borrow_mut().output;
        if output.len() >= MAX_PENDING_OUTPUT {
            return Poll::Pending;
        }
        output.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
