//! Reference server with self-timestamped tokens: the send time in each token is compared with the client's measurement.
//! No engine and no batching; each thread writes the tokens of its connections at their planned times, or as fast as the
//! client reads.

use std::collections::{BinaryHeap, VecDeque};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::{cmp::Reverse, sync::Arc, thread::JoinHandle, time::Duration};

use tacho_core::{Clock, SystemClock, Timestamp};

use crate::Error;

/// Polling interval of connections without a stream.
const POLL: Duration = Duration::from_micros(500);
/// Connections polled at a time, so that no token is late for it.
const POLLED: usize = 128;
/// A wait shorter than this is spun.
const SPIN: Duration = Duration::from_micros(60);
/// Tokens per write when nothing is paced.
const FLOOD_BATCH: usize = 32;
/// A write that ends this long after its token's timestamp was disturbed.
const DISTURBED: Duration = Duration::from_micros(500);
/// Hex digits of a token's text.
pub const DIGITS: usize = 16;

const EVENT_HEAD: &str = "data: {\"id\":\"cmpl-reference\",\"object\":\"text_completion\",\"created\":1790000000,\
    \"model\":\"reference\",\"choices\":[{\"index\":0,\"text\":\"";
const EVENT_TAIL: &str = "\",\"logprobs\":null,\"finish_reason\":null,\"stop_reason\":null,\
    \"prompt_token_ids\":null,\"token_ids\":null}]}\n\n";

#[derive(Debug, Clone, Copy)]
pub struct ReferenceSpec {
    pub tokens: usize,
    /// Time between two tokens of a stream; zero floods.
    pub gap: Duration,
    /// Time from a request to its first token.
    pub first: Duration,
}

/// A running reference server; dropping it stops it.
#[derive(Debug)]
pub struct ReferenceServer {
    address: SocketAddr,
    over: Arc<AtomicBool>,
    disturbed: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

impl ReferenceServer {
    /// One thread on a free port of 127.0.0.1. Each token's text is its send time by `clock`, as [`DIGITS`] hex digits of
    /// nanoseconds.
    pub fn start(spec: ReferenceSpec, clock: SystemClock) -> Result<ReferenceServer, Error> {
        Self::start_threads(spec, clock, 1, |_| {})
    }

    /// Several threads that share the connections; each calls `begin` with its number first.
    pub fn start_threads(
        spec: ReferenceSpec,
        clock: SystemClock,
        threads: usize,
        begin: impl Fn(usize) + Clone + Send + 'static,
    ) -> Result<ReferenceServer, Error> {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let failed = |source| Error::Bind { addr: any, source };
        let listener = TcpListener::bind(any).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let over = Arc::new(AtomicBool::new(false));
        let disturbed = Arc::new(AtomicU64::new(0));
        let mut server =
            ReferenceServer { address, over: over.clone(), disturbed: disturbed.clone(), threads: Vec::new() };
        let mut inboxes = Vec::new();
        for number in 0..threads.max(1) {
            let (inbox, accepted) = channel();
            inboxes.push(inbox);
            let (over, disturbed, begin) = (over.clone(), disturbed.clone(), begin.clone());
            let run = move || {
                begin(number);
                let (streams, idle, due) = (Vec::new(), VecDeque::new(), BinaryHeap::new());
                Writer { spec, clock, accepted, over, disturbed, streams, idle, due }.run();
            };
            server.threads.push(std::thread::Builder::new().name("reference".into()).spawn(run).map_err(failed)?);
        }
        let accept = move || accept(&listener, &over, &inboxes);
        server.threads.push(std::thread::Builder::new().name("accept".into()).spawn(accept).map_err(failed)?);
        Ok(server)
    }

    /// Paced tokens that were written long after their timestamps: this thread was off its core in between.
    pub fn disturbed(&self) -> u64 {
        self.disturbed.load(Ordering::Relaxed)
    }

    pub fn addr(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for ReferenceServer {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        // A last connection ends the wait for connections.
        let _ = TcpStream::connect(self.address);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Distributes connections over the threads in turn.
fn accept(listener: &TcpListener, over: &AtomicBool, inboxes: &[Sender<TcpStream>]) {
    for inbox in inboxes.iter().cycle() {
        let accepted = listener.accept();
        if over.load(Ordering::Relaxed) {
            return;
        }
        // No descriptor may be free for a while.
        let Ok((socket, _)) = accepted else {
            std::thread::sleep(POLL);
            continue;
        };
        if socket.set_nonblocking(true).and_then(|()| socket.set_nodelay(true)).is_ok() {
            let _ = inbox.send(socket);
        }
    }
}

struct Stream {
    socket: TcpStream,
    /// Bytes of an incomplete request.
    received: Vec<u8>,
    /// Bytes that the socket did not accept.
    unsent: Vec<u8>,
    /// Tokens still to send; `None` while waiting for a request.
    left: Option<usize>,
}

enum Asked {
    Completion,
    /// Anything else, such as the server's version.
    Other,
}

struct Writer {
    spec: ReferenceSpec,
    clock: SystemClock,
    accepted: Receiver<TcpStream>,
    over: Arc<AtomicBool>,
    disturbed: Arc<AtomicU64>,
    streams: Vec<Option<Stream>>,
    /// Connections that wait for a request.
    idle: VecDeque<usize>,
    /// Due time of each paced stream's next token.
    due: BinaryHeap<Reverse<(Timestamp, usize)>>,
}

impl Writer {
    fn run(mut self) {
        let mut next_poll = Timestamp::ZERO;
        while !self.over.load(Ordering::Relaxed) {
            let now = self.clock.now();
            if now >= next_poll {
                self.take_accepted();
                self.poll_idle();
                next_poll = self.clock.now() + POLL;
            }
            if self.spec.gap.is_zero() {
                if !self.flood() {
                    std::thread::sleep(POLL);
                }
                continue;
            }
            self.tick();
            let next = self.due.peek().map_or(next_poll, |Reverse((due, _))| (*due).min(next_poll));
            let wait = next.since(self.clock.now());
            if wait > SPIN {
                std::thread::sleep(wait - SPIN);
            }
        }
    }

    fn take_accepted(&mut self) {
        for socket in self.accepted.try_iter() {
            self.idle.push_back(self.streams.len());
            self.streams.push(Some(Stream { socket, received: Vec::new(), unsent: Vec::new(), left: None }));
        }
    }

    /// Reads requests on some of the connections that have no stream.
    fn poll_idle(&mut self) {
        for _ in 0..self.idle.len().min(POLLED) {
            let Some(at) = self.idle.pop_front() else { return };
            let Some(stream) = self.streams[at].as_mut() else { continue };
            match stream.receive() {
                Ok(None) => self.idle.push_back(at),
                Ok(Some(Asked::Other)) => {
                    stream.unsent.extend_from_slice(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n");
                    match stream.flush() {
                        Ok(_) => self.idle.push_back(at),
                        Err(_) => self.streams[at] = None,
                    }
                }
                Ok(Some(Asked::Completion)) => {
                    stream.left = Some(self.spec.tokens);
                    let head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n\
                        transfer-encoding: chunked\r\n\r\n";
                    stream.unsent.extend_from_slice(head);
                    self.due.push(Reverse((self.clock.now() + self.spec.first, at)));
                }
                Err(_) => self.streams[at] = None,
            }
        }
    }

    fn tick(&mut self) {
        while let Some(&Reverse((due, at))) = self.due.peek() {
            if due > self.clock.now() {
                return;
            }
            self.due.pop();
            let Some(stream) = &mut self.streams[at] else { continue };
            let Some(left) = stream.left else { continue };
            let timestamp = self.clock.now();
            push_token(&mut stream.unsent, timestamp);
            stream.left = Some(left - 1);
            if left == 1 {
                stream.finish(self.spec.tokens);
                self.idle.push_back(at);
            } else {
                self.due.push(Reverse((due + self.spec.gap, at)));
            }
            if stream.flush().is_err() {
                self.streams[at] = None;
            }
            if self.clock.now().since(timestamp) > DISTURBED {
                self.disturbed.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Writes to every stream that accepts bytes; false when none did.
    fn flood(&mut self) -> bool {
        self.due.clear();
        let mut wrote = false;
        for at in 0..self.streams.len() {
            let Some(stream) = self.streams[at].as_mut() else { continue };
            if stream.unsent.is_empty()
                && let Some(left) = stream.left
            {
                let batch = left.min(FLOOD_BATCH);
                for _ in 0..batch {
                    push_token(&mut stream.unsent, Timestamp::ZERO);
                }
                stream.left = Some(left - batch);
                if left == batch {
                    stream.finish(self.spec.tokens);
                    self.idle.push_back(at);
                }
            }
            match stream.flush() {
                Ok(taken) => wrote |= taken,
                Err(_) => self.streams[at] = None,
            }
        }
        wrote
    }
}

impl Stream {
    /// Returns what was asked for once the request is complete.
    fn receive(&mut self) -> io::Result<Option<Asked>> {
        let mut buffer = [0; 16 << 10];
        match self.socket.read(&mut buffer) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => self.received.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(error),
        }
        let Some(end) = self.received.windows(4).position(|bytes| bytes == b"\r\n\r\n") else { return Ok(None) };
        let head = String::from_utf8_lossy(&self.received[..end]).to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length:")).map(str::trim);
        let length = length.and_then(|length| length.parse().ok()).unwrap_or(0_usize);
        if self.received.len() < end + 4 + length {
            return Ok(None);
        }
        self.received.clear();
        let is_completion = head.lines().next().is_some_and(|line| line.contains("/completions"));
        Ok(Some(if is_completion { Asked::Completion } else { Asked::Other }))
    }

    /// The end of a response: usage, `[DONE]`, the last chunk.
    fn finish(&mut self, tokens: usize) {
        let usage = format!(
            "data: {{\"id\":\"cmpl-reference\",\"choices\":[],\"usage\":{{\"prompt_tokens\":1,\
             \"completion_tokens\":{tokens}}}}}\n\ndata: [DONE]\n\n"
        );
        let _ = write!(self.unsent, "{:x}\r\n{usage}\r\n0\r\n\r\n", usage.len());
        self.left = None;
    }

    /// Writes as much as the socket accepts; returns whether it accepted anything.
    fn flush(&mut self) -> io::Result<bool> {
        let mut taken = 0;
        while taken < self.unsent.len() {
            match self.socket.write(&self.unsent[taken..]) {
                Ok(count) => taken += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        self.unsent.drain(..taken);
        Ok(taken > 0)
    }
}

/// Appends one token event as an HTTP chunk.
fn push_token(out: &mut Vec<u8>, timestamp: Timestamp) {
    let length = EVENT_HEAD.len() + DIGITS + EVENT_TAIL.len();
    let _ = write!(out, "{length:x}\r\n{EVENT_HEAD}{:016x}{EVENT_TAIL}\r\n", timestamp.0);
}

pub fn send_times(text: &[u8]) -> Vec<Timestamp> {
    let digits = |token: &[u8]| std::str::from_utf8(token).ok().and_then(|text| u64::from_str_radix(text, 16).ok());
    text.chunks_exact(DIGITS).filter_map(digits).map(Timestamp).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(spec: ReferenceSpec) -> String {
        respond(&ReferenceServer::start(spec, SystemClock::start()).unwrap())
    }

    fn respond(server: &ReferenceServer) -> String {
        let mut socket = TcpStream::connect(server.addr()).unwrap();
        socket.write_all(b"POST /v1/completions HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}").unwrap();
        let mut text = Vec::new();
        let mut buffer = [0; 4096];
        while !text.ends_with(b"0\r\n\r\n") {
            let count = socket.read(&mut buffer).unwrap();
            text.extend_from_slice(&buffer[..count]);
        }
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn tokens_carry_their_send_times() {
        let gap = Duration::from_millis(2);
        let text = response(ReferenceSpec { tokens: 5, gap, first: Duration::ZERO });
        let digits: String = text.split("\"text\":\"").skip(1).map(|rest| &rest[..DIGITS]).collect();
        let times = send_times(digits.as_bytes());
        assert_eq!(times.len(), 5);
        assert!(times.windows(2).all(|pair| pair[1] > pair[0]));
        assert!(times[4].since(times[0]) >= 3 * gap, "{times:?}");
        assert!(text.contains("\"completion_tokens\":5") && text.contains("data: [DONE]"));
    }

    #[test]
    fn a_flood_has_all_its_tokens() {
        let text = response(ReferenceSpec { tokens: 1000, gap: Duration::ZERO, first: Duration::ZERO });
        assert_eq!(text.matches("\"text\":\"").count(), 1000);
    }

    #[test]
    fn connections_are_shared_by_all_threads() {
        let spec = ReferenceSpec { tokens: 3, gap: Duration::ZERO, first: Duration::ZERO };
        let (begun, threads) = channel();
        let begin = move |number: usize| begun.send(number).unwrap();
        let server = ReferenceServer::start_threads(spec, SystemClock::start(), 2, begin).unwrap();
        for _ in 0..3 {
            assert_eq!(respond(&server).matches("\"text\":\"").count(), 3);
        }
        let mut numbers: Vec<usize> = threads.iter().take(2).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, [0, 1]);
    }
}
