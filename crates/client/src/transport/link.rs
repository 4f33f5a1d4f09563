//! One connection: from the first packet, through tunnel and TLS, to bytes in both directions. Never waits.

use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

use rustls::ClientConnection;

use super::connect::Route;
use super::socket::{Address, Connecting, Socket};

/// A proxy's answer may not be longer.
const MAX_TUNNEL_REPLY: usize = 16 << 10;

/// A connection and what is left to do before it can be used.
pub(crate) struct Link {
    socket: Socket,
    tls: Option<Box<ClientConnection>>,
    /// None once the connection is open.
    setup: Option<Box<Setup>>,
    stamped: bool,
}

struct Setup {
    phase: Phase,
    address: Address,
    /// What a proxy is told, how much of that it was told, and what it has said.
    tunnel: Option<Arc<[u8]>>,
    said: usize,
    heard: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The listener's queue was full.
    AskAgain,
    Connecting,
    /// Being let through by a proxy.
    Tunnel,
    Handshake,
    Open,
}

/// What a read brought.
pub(crate) struct Received {
    pub(crate) count: usize,
    /// The kernel's stamp, in nanoseconds of wall-clock time.
    pub(crate) kernel: Option<u64>,
}

impl Link {
    /// Begins to connect to the `attempt`-th address of the route.
    pub(crate) fn open(route: &Route, attempt: usize, kernel_stamps: bool) -> io::Result<Link> {
        let address = &route.addresses[attempt % route.addresses.len()];
        let (socket, state) = Socket::connect(address)?;
        let stamped = kernel_stamps && socket.stamp_arrivals(address);
        let tls = match &route.tls {
            Some((config, name)) => {
                Some(Box::new(ClientConnection::new(config.clone(), name.clone()).map_err(io::Error::other)?))
            }
            None => None,
        };
        let phase = if state == Connecting::AskAgain { Phase::AskAgain } else { Phase::Connecting };
        let (address, tunnel) = (address.clone(), route.tunnel.clone());
        let setup = Setup { phase, address, tunnel, said: 0, heard: Vec::new() };
        Ok(Link { socket, tls, setup: Some(Box::new(setup)), stamped })
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    pub(crate) fn is_open(&self) -> bool {
        self.setup.is_none()
    }

    /// Whether the kernel stamps what arrives here.
    pub(crate) fn is_stamped(&self) -> bool {
        self.stamped
    }

    /// Whether the two sides agreed on HTTP/2; over plain sockets it is the route that knows.
    pub(crate) fn speaks_http2(&self, route: &Route) -> bool {
        match &self.tls {
            Some(tls) => tls.alpn_protocol() == Some(b"h2"),
            None => route.http2,
        }
    }

    /// Whether something waits to be written that the caller does not know of.
    pub(crate) fn wants_write(&self) -> bool {
        let tls = || self.tls.as_ref().is_some_and(|tls| tls.wants_write());
        match &self.setup {
            None => tls(),
            Some(setup) => match setup.phase {
                Phase::AskAgain | Phase::Connecting => true,
                Phase::Tunnel => setup.said < setup.tunnel.as_ref().map_or(0, |tunnel| tunnel.len()),
                Phase::Handshake | Phase::Open => tls(),
            },
        }
    }

    /// Takes the set-up as far as it goes now; true when the connection is open.
    pub(crate) fn advance(&mut self) -> io::Result<bool> {
        let Some(setup) = &mut self.setup else { return Ok(true) };
        loop {
            match setup.phase {
                Phase::AskAgain => match self.socket.ask(&setup.address)? {
                    Connecting::AskAgain => return Ok(false),
                    Connecting::UnderWay => setup.phase = Phase::Connecting,
                },
                Phase::Connecting => {
                    if !self.socket.is_connected()? {
                        return Ok(false);
                    }
                    setup.phase = Phase::Tunnel;
                }
                Phase::Tunnel => {
                    if !setup.tunnel(&self.socket)? {
                        return Ok(false);
                    }
                    setup.phase = Phase::Handshake;
                }
                Phase::Handshake => {
                    if let Some(tls) = &mut self.tls
                        && !handshake(tls, &self.socket)?
                    {
                        return Ok(false);
                    }
                    setup.phase = Phase::Open;
                }
                Phase::Open => {
                    self.setup = None;
                    return Ok(true);
                }
            }
        }
    }

    /// Writes what the socket takes; zero when it takes nothing now.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else {
            return Ok(would_block(self.socket.send(bytes))?.unwrap_or(0));
        };
        let taken = tls.writer().write(bytes)?;
        write_records(tls, &self.socket)?;
        Ok(taken)
    }

    /// Writes what an earlier write left in TLS's hands.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        match &mut self.tls {
            Some(tls) => write_records(tls, &self.socket).map(drop),
            None => Ok(()),
        }
    }

    /// Reads what has arrived; none when that is nothing, a count of zero at the end.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<Received>> {
        let Some(tls) = &mut self.tls else {
            let received = would_block(self.socket.receive(buffer))?;
            return Ok(received.map(|(count, kernel)| Received { count, kernel }));
        };
        let mut wire = Stamping { socket: &self.socket, kernel: None };
        let arrived = would_block(tls.read_tls(&mut wire))?;
        let kernel = wire.kernel;
        if arrived.is_some() {
            process(tls, &self.socket)?;
            write_records(tls, &self.socket)?;
        }
        // Even when nothing arrived: the handshake's last read may have brought the first bytes with it.
        match tls.reader().read(buffer) {
            Ok(plain) => Ok(Some(Received { count: plain, kernel })),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Err(io::Error::new(io::ErrorKind::UnexpectedEof, "closed without TLS's closing message"))
            }
            Err(error) => Err(error),
        }
    }
}

/// Reads for TLS and keeps the kernel's stamp of what it read.
struct Stamping<'a> {
    socket: &'a Socket,
    kernel: Option<u64>,
}

impl Read for Stamping<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let (count, kernel) = self.socket.receive(buffer)?;
        self.kernel = kernel;
        Ok(count)
    }
}

/// True when the handshake is over.
fn handshake(tls: &mut ClientConnection, mut socket: &Socket) -> io::Result<bool> {
    while tls.is_handshaking() {
        if !write_records(tls, socket)? {
            return Ok(false);
        }
        match would_block(tls.read_tls(&mut socket))? {
            None => return Ok(false),
            Some(0) => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "closed during the TLS handshake")),
            Some(_) => process(tls, socket)?,
        }
    }
    write_records(tls, socket)?;
    Ok(true)
}

/// Writes TLS records until none is left or the socket takes no more; tells whether none is left.
fn write_records(tls: &mut ClientConnection, mut socket: &Socket) -> io::Result<bool> {
    while tls.wants_write() {
        if would_block(tls.write_tls(&mut socket))?.is_none() {
            return Ok(false);
        }
    }
    Ok(true)
}

fn process(tls: &mut ClientConnection, mut socket: &Socket) -> io::Result<()> {
    let Err(error) = tls.process_new_packets() else { return Ok(()) };
    // The server should learn why; whether that works makes no difference.
    let _ = tls.write_tls(&mut socket);
    Err(match error {
        rustls::Error::InvalidCertificate(_) => {
            io::Error::other(format!("TLS: {error}: name the file of its authority with --ca-file, or pass --insecure"))
        }
        error => io::Error::other(format!("TLS: {error}")),
    })
}

impl Setup {
    /// Asks the proxy, if there is one; true when it has let us through.
    fn tunnel(&mut self, socket: &Socket) -> io::Result<bool> {
        let Some(request) = &self.tunnel else { return Ok(true) };
        while self.said < request.len() {
            match would_block(socket.send(&request[self.said..]))? {
                Some(count) => self.said += count,
                None => return Ok(false),
            }
        }
        hear_tunnel(socket, &mut self.heard)
    }
}

/// Reads the proxy's answer and not a byte more: what follows is the server's. True when it has let us through.
fn hear_tunnel(mut socket: &Socket, heard: &mut Vec<u8>) -> io::Result<bool> {
    let mut buffer = [0; 1024];
    loop {
        let Some(count) = would_block(socket.peek(&mut buffer))? else { return Ok(false) };
        if count == 0 || heard.len() > MAX_TUNNEL_REPLY {
            return Err(io::Error::other("the proxy broke off"));
        }
        let before = heard.len();
        heard.extend_from_slice(&buffer[..count]);
        let end = memchr::memmem::find(&heard[before.saturating_sub(3)..], b"\r\n\r\n");
        heard.truncate(end.map_or(heard.len(), |at| before.saturating_sub(3) + at + 4));
        let own = heard.len() - before;
        socket.read_exact(&mut buffer[..own])?;
        if end.is_some() {
            let line = heard.split(|&byte| byte == b'\r').next().unwrap_or_default();
            let line = String::from_utf8_lossy(line);
            return match line.split(' ').nth(1) {
                Some(status) if status.starts_with('2') => Ok(true),
                _ => Err(io::Error::other(format!("the proxy refused: {line}"))),
            };
        }
    }
}

/// Makes "not now" a value.
fn would_block<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(None),
        Err(error) => Err(error),
    }
}
