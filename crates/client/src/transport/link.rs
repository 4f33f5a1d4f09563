//! One connection: from the first packet, through tunnel and TLS, to bytes in both directions. Never waits.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsRawFd, RawFd};

use rustls::ClientConnection;

use super::connect::Route;
use super::sys;

/// A proxy's answer may not be longer.
const MAX_TUNNEL_REPLY: usize = 16 << 10;

/// A connection and how far its set-up has come.
pub(crate) struct Link {
    socket: TcpStream,
    tls: Option<Box<ClientConnection>>,
    phase: Phase,
    /// What the proxy is told, and what is left of it.
    tunnel: Vec<u8>,
    stamped: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum Phase {
    Connecting,
    /// Being let through by a proxy: bytes said, bytes heard.
    Tunnel(usize, Vec<u8>),
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
        let socket = sys::connect(&route.addresses[attempt % route.addresses.len()])?;
        socket.set_nodelay(true)?;
        let stamped = kernel_stamps && sys::stamp_arrivals(&socket);
        let tls = match &route.tls {
            Some((config, name)) => {
                Some(Box::new(ClientConnection::new(config.clone(), name.clone()).map_err(io::Error::other)?))
            }
            None => None,
        };
        Ok(Link { socket, tls, phase: Phase::Connecting, tunnel: route.tunnel.clone().unwrap_or_default(), stamped })
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    pub(crate) fn is_open(&self) -> bool {
        self.phase == Phase::Open
    }

    /// Whether the kernel stamps what arrives here.
    pub(crate) fn is_stamped(&self) -> bool {
        self.stamped
    }

    /// Whether something waits to be written that the caller does not know of.
    pub(crate) fn wants_write(&self) -> bool {
        match self.phase {
            Phase::Connecting => true,
            Phase::Tunnel(said, _) => said < self.tunnel.len(),
            Phase::Handshake | Phase::Open => self.tls.as_ref().is_some_and(|tls| tls.wants_write()),
        }
    }

    /// Takes the set-up as far as it goes now; true when the connection is open.
    pub(crate) fn advance(&mut self) -> io::Result<bool> {
        loop {
            match &mut self.phase {
                Phase::Open => return Ok(true),
                Phase::Connecting => {
                    if let Some(error) = self.socket.take_error()? {
                        return Err(error);
                    }
                    match self.socket.peer_addr() {
                        Ok(_) => self.phase = self.after_connect(),
                        Err(error) if error.kind() == io::ErrorKind::NotConnected => return Ok(false),
                        Err(error) => return Err(error),
                    }
                }
                Phase::Tunnel(said, heard) => {
                    if *said < self.tunnel.len() {
                        match would_block(self.socket.write(&self.tunnel[*said..]))? {
                            Some(count) => *said += count,
                            None => return Ok(false),
                        }
                    } else if !hear_tunnel(&mut self.socket, heard)? {
                        return Ok(false);
                    } else {
                        self.phase = Phase::Handshake;
                    }
                }
                Phase::Handshake => {
                    if !self.handshake()? {
                        return Ok(false);
                    }
                    self.phase = Phase::Open;
                }
            }
        }
    }

    fn after_connect(&self) -> Phase {
        match (self.tunnel.is_empty(), &self.tls) {
            (false, _) => Phase::Tunnel(0, Vec::new()),
            (true, Some(_)) => Phase::Handshake,
            (true, None) => Phase::Open,
        }
    }

    /// True when the handshake is over.
    fn handshake(&mut self) -> io::Result<bool> {
        let Some(tls) = &mut self.tls else { return Ok(true) };
        while tls.is_handshaking() {
            while tls.wants_write() {
                if would_block(tls.write_tls(&mut self.socket))?.is_none() {
                    return Ok(false);
                }
            }
            if !tls.is_handshaking() {
                break;
            }
            match would_block(tls.read_tls(&mut self.socket))? {
                None => return Ok(false),
                Some(0) => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "closed during the TLS handshake")),
                Some(_) => {
                    tls.process_new_packets().map_err(io::Error::other)?;
                }
            }
        }
        while tls.wants_write() {
            if would_block(tls.write_tls(&mut self.socket))?.is_none() {
                break;
            }
        }
        Ok(true)
    }

    /// Writes what the socket takes; zero when it takes nothing now.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else {
            return Ok(would_block(self.socket.write(bytes))?.unwrap_or(0));
        };
        let taken = tls.writer().write(bytes)?;
        while tls.wants_write() {
            if would_block(tls.write_tls(&mut self.socket))?.is_none() {
                break;
            }
        }
        Ok(taken)
    }

    /// Reads what has arrived; none when that is nothing, a count of zero at the end.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<Received>> {
        let Some(tls) = &mut self.tls else {
            let received = would_block(sys::receive(&self.socket, buffer))?;
            return Ok(received.map(|(count, kernel)| Received { count, kernel }));
        };
        let mut wire = Stamping { socket: &self.socket, kernel: None };
        let Some(count) = would_block(tls.read_tls(&mut wire))? else { return Ok(None) };
        let kernel = wire.kernel;
        tls.process_new_packets().map_err(io::Error::other)?;
        if tls.wants_write() {
            would_block(tls.write_tls(&mut self.socket))?;
        }
        match tls.reader().read(buffer) {
            Ok(plain) => Ok(Some(Received { count: plain, kernel })),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && count > 0 => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Reads for TLS and keeps the kernel's stamp of what it read.
struct Stamping<'a> {
    socket: &'a TcpStream,
    kernel: Option<u64>,
}

impl Read for Stamping<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let (count, kernel) = sys::receive(self.socket, buffer)?;
        self.kernel = kernel;
        Ok(count)
    }
}

/// Reads the proxy's answer; true when it has let us through.
fn hear_tunnel(socket: &mut TcpStream, heard: &mut Vec<u8>) -> io::Result<bool> {
    let mut buffer = [0; 1024];
    loop {
        let Some(count) = would_block(socket.read(&mut buffer))? else { return Ok(false) };
        heard.extend_from_slice(&buffer[..count]);
        if count == 0 || heard.len() > MAX_TUNNEL_REPLY {
            return Err(io::Error::other("the proxy broke off"));
        }
        if heard.ends_with(b"\r\n\r\n") {
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
