//! One connection: TCP, tunnel and TLS set-up, then bytes in both directions. Never blocks.

use std::io::{self, IoSlice, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::{sync::Arc, time::Duration};

use rustls::ClientConnection;
use tacho_core::secret::ServerText;

use super::addresses::{Address, AddressRotation};
use super::connect::Route;
use super::socket::{Connecting, Socket};
use super::tls::{Trust, explain};

/// Maximum length of a proxy's reply.
const MAX_TUNNEL_REPLY: usize = 16 << 10;
/// Bytes of a proxy's refusal in a message.
const MAX_REFUSAL: usize = 300;
/// Happy Eyeballs: after this delay another address is tried in parallel (RFC 8305, section 5).
pub(crate) const CONNECTION_ATTEMPT_DELAY: Duration = Duration::from_millis(250);

pub(crate) struct Link {
    socket: Socket,
    tls: Option<Box<ClientConnection>>,
    /// `None` once the connection is open.
    setup: Option<Box<Setup>>,
    timestamped: bool,
    trust: Trust,
}

struct Setup {
    phase: Phase,
    addresses: Arc<[Address]>,
    /// The first address tried, the number tried since, and the one of the link's socket.
    first: usize,
    begun: usize,
    at: usize,
    /// Parallel connection attempts to other addresses.
    attempts: Vec<(usize, Socket)>,
    failures: Vec<(usize, io::Error)>,
    kernel_timestamps: bool,
    /// The request to a proxy, how much of it was sent, and the reply so far.
    tunnel: Option<Arc<[u8]>>,
    tunnel_sent: usize,
    tunnel_reply: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Advance {
    Waiting,
    /// One more socket must be polled.
    Watch(RawFd),
    /// Open: the index of the address that works, and a bit set of those that failed.
    Open(usize, u64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The listener's queue was full.
    Retry,
    Connecting,
    /// Opening a tunnel through a proxy.
    Tunnel,
    Handshake,
    Open,
}

pub(crate) struct Received {
    pub(crate) count: usize,
    /// The kernel's timestamp, in nanoseconds of wall-clock time.
    pub(crate) kernel: Option<u64>,
    /// Whether these were the last bytes: TLS has signalled the end of data.
    pub(crate) last: bool,
}

impl Link {
    /// Starts to connect to the next address in turn, or the first after it that can be tried.
    pub(crate) fn open(route: &Route, turn: &mut AddressRotation, kernel_timestamps: bool) -> io::Result<Link> {
        let (addresses, first) = turn.next();
        let mut setup = Setup {
            phase: Phase::Connecting,
            addresses: addresses.clone(),
            first,
            begun: 0,
            at: first,
            attempts: Vec::new(),
            failures: Vec::new(),
            kernel_timestamps,
            tunnel: route.tunnel.clone(),
            tunnel_sent: 0,
            tunnel_reply: Vec::new(),
        };
        let Some((socket, timestamped)) = setup.begin_next() else {
            turn.failed();
            return Err(setup.failure());
        };
        let tls = match &route.tls {
            Some(tls) => {
                let session = ClientConnection::new(tls.config.clone(), tls.name.clone());
                Some(Box::new(session.map_err(io::Error::other)?))
            }
            None => None,
        };
        let trust = route.tls.as_ref().map_or(Trust::System, |tls| tls.trust);
        Ok(Link { socket, tls, setup: Some(Box::new(setup)), timestamped, trust })
    }

    /// Happy Eyeballs (RFC 8305): after `waited` without a connection, tries one more address in parallel; returns its socket.
    pub(crate) fn try_next_address(&mut self, waited: Duration) -> Option<RawFd> {
        let setup = self.setup.as_mut().filter(|setup| setup.phase == Phase::Connecting)?;
        if waited < CONNECTION_ATTEMPT_DELAY * setup.begun as u32 {
            return None;
        }
        let before = setup.at;
        let (attempt, _) = setup.begin_next()?;
        let fd = attempt.as_raw_fd();
        let at = std::mem::replace(&mut setup.at, before);
        setup.attempts.push((at, attempt));
        Some(fd)
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    pub(crate) fn is_open(&self) -> bool {
        self.setup.is_none()
    }

    pub(crate) fn is_timestamped(&self) -> bool {
        self.timestamped
    }

    /// Whether HTTP/2 was negotiated; over plain sockets the route decides.
    pub(crate) fn speaks_http2(&self, route: &Route) -> bool {
        match &self.tls {
            Some(tls) => tls.alpn_protocol() == Some(b"h2"),
            None => route.http2,
        }
    }

    /// Whether output is pending that the caller does not know of.
    pub(crate) fn wants_write(&self) -> bool {
        let tls = || self.tls.as_ref().is_some_and(|tls| tls.wants_write());
        match &self.setup {
            None => tls(),
            Some(setup) => match setup.phase {
                Phase::Retry | Phase::Connecting => true,
                Phase::Tunnel => setup.tunnel_sent < setup.tunnel.as_ref().map_or(0, |tunnel| tunnel.len()),
                Phase::Handshake | Phase::Open => tls(),
            },
        }
    }

    /// Advances the set-up as far as possible.
    pub(crate) fn advance(&mut self) -> io::Result<Advance> {
        let Some(setup) = &mut self.setup else { return Ok(Advance::Open(0, 0)) };
        loop {
            match setup.phase {
                Phase::Retry => match self.socket.start_connect(&setup.addresses[setup.at])? {
                    Connecting::Retry => return Ok(Advance::Waiting),
                    Connecting::InProgress => setup.phase = Phase::Connecting,
                },
                Phase::Connecting => match setup.connect(&mut self.socket)? {
                    Advance::Open(..) => setup.phase = Phase::Tunnel,
                    waiting => return Ok(waiting),
                },
                Phase::Tunnel => {
                    if !setup.tunnel(&self.socket)? {
                        return Ok(Advance::Waiting);
                    }
                    setup.phase = Phase::Handshake;
                }
                Phase::Handshake => {
                    if let Some(tls) = &mut self.tls
                        && !handshake(tls, &self.socket, self.trust)?
                    {
                        return Ok(Advance::Waiting);
                    }
                    setup.phase = Phase::Open;
                }
                Phase::Open => {
                    let open = Advance::Open(setup.at, setup.unsuccessful());
                    self.setup = None;
                    return Ok(open);
                }
            }
        }
    }

    /// Writes what the socket accepts of two parts, the first of which is mostly empty; zero if it accepts nothing now.
    pub(crate) fn write(&mut self, [first, bytes]: [&[u8]; 2]) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else {
            let sent = if first.is_empty() { self.socket.send(bytes) } else { self.socket.send_both(first, bytes) };
            return Ok(would_block(sent)?.unwrap_or(0));
        };
        let taken = tls.writer().write_vectored(&[IoSlice::new(first), IoSlice::new(bytes)])?;
        write_records(tls, &self.socket)?;
        Ok(taken)
    }

    /// Writes what an earlier write left in the TLS buffers.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        match &mut self.tls {
            Some(tls) => write_records(tls, &self.socket).map(drop),
            None => Ok(()),
        }
    }

    /// Reads available bytes; `None` if there are none, a count of zero at the end.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<Received>> {
        let Some(tls) = &mut self.tls else {
            let received = would_block(self.socket.receive(buffer))?;
            return Ok(received.map(|(count, kernel)| Received { count, kernel, last: false }));
        };
        let mut wire = Timestamping { socket: &self.socket, kernel: None };
        let arrived = would_block(tls.read_tls(&mut wire))?;
        let kernel = wire.kernel;
        let mut last = false;
        if arrived.is_some() {
            last = process(tls, &self.socket, self.trust)?;
            write_records(tls, &self.socket)?;
        }
        // Even if nothing arrived: the handshake's last read may have contained the first bytes.
        match tls.reader().read(buffer) {
            Ok(count) => Ok(Some(Received { count, kernel, last: last && count < buffer.len() })),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Err(io::Error::new(io::ErrorKind::UnexpectedEof, "closed without TLS's closing message"))
            }
            Err(error) => Err(error),
        }
    }
}

/// Reads for TLS and keeps the kernel timestamp of the read.
struct Timestamping<'a> {
    socket: &'a Socket,
    kernel: Option<u64>,
}

impl Read for Timestamping<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let (count, kernel) = self.socket.receive(buffer)?;
        self.kernel = kernel;
        Ok(count)
    }
}

/// Continues the handshake; returns whether it is complete.
fn handshake(tls: &mut ClientConnection, mut socket: &Socket, trust: Trust) -> io::Result<bool> {
    while tls.is_handshaking() {
        if !write_records(tls, socket)? {
            return Ok(false);
        }
        match would_block(tls.read_tls(&mut socket))? {
            None => return Ok(false),
            Some(0) => {
                let closed = "closed during the TLS handshake: is it an http:// server?";
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, closed));
            }
            Some(_) => drop(process(tls, socket, trust)?),
        }
    }
    write_records(tls, socket)?;
    Ok(true)
}

/// Writes TLS records until none are left or the socket is full; returns whether none are left.
fn write_records(tls: &mut ClientConnection, mut socket: &Socket) -> io::Result<bool> {
    while tls.wants_write() {
        if would_block(tls.write_tls(&mut socket))?.is_none() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Decrypts what was read; returns whether the server has closed its side.
fn process(tls: &mut ClientConnection, mut socket: &Socket, trust: Trust) -> io::Result<bool> {
    match tls.process_new_packets() {
        Ok(state) => Ok(state.peer_has_closed()),
        Err(error) => {
            // The server should learn the reason; it does not matter if that fails.
            let _ = tls.write_tls(&mut socket);
            Err(io::Error::other(explain(&error, trust)))
        }
    }
}

impl Setup {
    /// Starts with the next untried address that can be tried and sets `at` to it.
    fn begin_next(&mut self) -> Option<(Socket, bool)> {
        while self.begun < self.addresses.len() {
            self.at = (self.first + self.begun) % self.addresses.len();
            self.begun += 1;
            let address = &self.addresses[self.at];
            match Socket::connect(address) {
                Ok((socket, state)) => {
                    if state == Connecting::Retry {
                        self.phase = Phase::Retry;
                    }
                    let timestamped = self.kernel_timestamps && socket.timestamp_arrivals(address);
                    return Some((socket, timestamped));
                }
                Err(error) => self.failures.push((self.at, error)),
            }
        }
        None
    }

    /// Checks whether one of the sockets is connected, and makes it the link's.
    fn connect(&mut self, socket: &mut Socket) -> io::Result<Advance> {
        loop {
            match socket.is_connected() {
                Ok(true) => break,
                Ok(false) if self.take_connected(socket) => break,
                Ok(false) => return Ok(Advance::Waiting),
                Err(error) => self.failures.push((self.at, error)),
            }
            if let Some((at, attempt)) = self.attempts.pop() {
                (self.at, *socket) = (at, attempt);
                continue;
            }
            let Some((next, _)) = self.begin_next() else { return Err(self.failure()) };
            *socket = next;
            return Ok(Advance::Watch(socket.as_raw_fd()));
        }
        self.attempts.clear();
        Ok(Advance::Open(self.at, 0))
    }

    /// Whether a parallel attempt is connected, which then replaces the link's socket. Failed attempts are dropped.
    fn take_connected(&mut self, socket: &mut Socket) -> bool {
        for (at, attempt) in std::mem::take(&mut self.attempts) {
            match attempt.is_connected() {
                Ok(true) => {
                    (self.at, *socket) = (at, attempt);
                    return true;
                }
                Ok(false) => self.attempts.push((at, attempt)),
                Err(error) => self.failures.push((at, error)),
            }
        }
        false
    }

    /// Bit set of the addresses that failed.
    fn unsuccessful(&self) -> u64 {
        let begun = (0..self.begun).map(|step| (self.first + step) % self.addresses.len());
        begun.filter(|&at| at != self.at).fold(0, |bits, at| bits | 1 << at)
    }

    /// The errors of all addresses; the kind is that of the last one.
    fn failure(&mut self) -> io::Error {
        let Some((_, last)) = self.failures.last() else { return io::Error::other("no address") };
        let kind = last.kind();
        if self.failures.len() == 1
            && let Some((_, only)) = self.failures.pop()
        {
            return only;
        }
        let each = self.failures.iter().map(|(at, error)| format!("{}: {error}", self.addresses[*at]));
        io::Error::new(kind, each.collect::<Vec<_>>().join("; "))
    }

    /// Opens the tunnel through the proxy, if there is one; returns whether it is open.
    fn tunnel(&mut self, socket: &Socket) -> io::Result<bool> {
        let Some(request) = &self.tunnel else { return Ok(true) };
        while self.tunnel_sent < request.len() {
            match would_block(socket.send(&request[self.tunnel_sent..]))? {
                Some(count) => self.tunnel_sent += count,
                None => return Ok(false),
            }
        }
        read_tunnel_reply(socket, &mut self.tunnel_reply)
    }
}

/// Reads the proxy's reply and no byte more: the rest belongs to the server. Returns whether the tunnel is open.
fn read_tunnel_reply(mut socket: &Socket, reply: &mut Vec<u8>) -> io::Result<bool> {
    let mut buffer = [0; 1024];
    loop {
        let Some(count) = would_block(socket.peek(&mut buffer))? else { return Ok(false) };
        if count == 0 || reply.len() > MAX_TUNNEL_REPLY {
            return Err(io::Error::other("the proxy broke off"));
        }
        let before = reply.len();
        reply.extend_from_slice(&buffer[..count]);
        let end = memchr::memmem::find(&reply[before.saturating_sub(3)..], b"\r\n\r\n");
        reply.truncate(end.map_or(reply.len(), |at| before.saturating_sub(3) + at + 4));
        let own = reply.len() - before;
        socket.read_exact(&mut buffer[..own])?;
        if end.is_some() {
            let line = reply.split(|&byte| byte == b'\r').next().unwrap_or_default();
            let line = ServerText::line(line, MAX_REFUSAL);
            return match line.split(' ').nth(1) {
                Some(status) if status.starts_with('2') => Ok(true),
                _ => Err(io::Error::other(format!("the proxy refused: {line}"))),
            };
        }
    }
}

/// Converts `WouldBlock` to `None`.
fn would_block<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(None),
        Err(error) => Err(error),
    }
}
