//! A non-blocking stream socket, TCP or Unix: connecting, sending, and receiving with kernel timestamps.
#![expect(unsafe_code, reason = "system calls")]

use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::{net::SocketAddr, os::unix::ffi::OsStrExt, path::Path};

use super::{addresses::Address, sys::check};

/// A closed connection is an error of the call, not a signal.
#[cfg(target_os = "linux")]
const SEND_FLAGS: libc::c_int = libc::MSG_NOSIGNAL;
#[cfg(not(target_os = "linux"))]
const SEND_FLAGS: libc::c_int = 0;

#[derive(Debug)]
pub(crate) struct Socket {
    fd: OwnedFd,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Connecting {
    /// The socket becomes writable once it is connected or has failed.
    InProgress,
    /// The listener's queue is full; only a retry helps (Unix sockets only).
    Retry,
}

impl Socket {
    #[cfg(target_os = "linux")]
    fn new(family: libc::c_int) -> io::Result<Socket> {
        let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // SAFETY: no pointers; the descriptor is owned by the socket from here on.
        Ok(Socket { fd: unsafe { OwnedFd::from_raw_fd(check(libc::socket(family, kind, 0))?) } })
    }

    #[cfg(not(target_os = "linux"))]
    fn new(family: libc::c_int) -> io::Result<Socket> {
        // SAFETY: no pointers; the descriptor is owned by the socket from here on.
        let fd = unsafe { OwnedFd::from_raw_fd(check(libc::socket(family, libc::SOCK_STREAM, 0))?) };
        // SAFETY: no pointers.
        unsafe {
            check(libc::fcntl(fd.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC))?;
            check(libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK))?;
        }
        Ok(Socket { fd })
    }

    pub(crate) fn connect(address: &Address) -> io::Result<(Socket, Connecting)> {
        let family = match address {
            Address::Tcp(SocketAddr::V4(_)) => libc::AF_INET,
            Address::Tcp(SocketAddr::V6(_)) => libc::AF_INET6,
            Address::Unix(_) => libc::AF_UNIX,
        };
        let socket = Socket::new(family)?;
        if matches!(address, Address::Tcp(_)) {
            socket.set_option(libc::IPPROTO_TCP, libc::TCP_NODELAY, 1)?;
        }
        let state = socket.start_connect(address)?;
        Ok((socket, state))
    }

    pub(crate) fn start_connect(&self, address: &Address) -> io::Result<Connecting> {
        let result = match address {
            Address::Tcp(SocketAddr::V4(v4)) => {
                // SAFETY: all-zero is a valid sockaddr_in.
                let mut raw: libc::sockaddr_in = unsafe { std::mem::zeroed() };
                raw.sin_family = libc::AF_INET as libc::sa_family_t;
                raw.sin_port = v4.port().to_be();
                raw.sin_addr.s_addr = u32::from_ne_bytes(v4.ip().octets());
                self.connect_raw(&raw)
            }
            Address::Tcp(SocketAddr::V6(v6)) => {
                // SAFETY: all-zero is a valid sockaddr_in6.
                let mut raw: libc::sockaddr_in6 = unsafe { std::mem::zeroed() };
                raw.sin6_family = libc::AF_INET6 as libc::sa_family_t;
                raw.sin6_port = v6.port().to_be();
                raw.sin6_addr.s6_addr = v6.ip().octets();
                raw.sin6_scope_id = v6.scope_id();
                self.connect_raw(&raw)
            }
            Address::Unix(path) => self.connect_raw(&unix_address(path)?),
        };
        match result {
            Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => Ok(Connecting::InProgress),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Connecting::Retry),
            Err(error) => Err(error),
            Ok(()) => Ok(Connecting::InProgress),
        }
    }

    fn connect_raw<T>(&self, raw: &T) -> io::Result<()> {
        // SAFETY: `raw` is a socket address of the length passed with it.
        let result =
            unsafe { libc::connect(self.as_raw_fd(), (&raw const *raw).cast(), size_of::<T>() as libc::socklen_t) };
        check(result).map(drop)
    }

    /// Whether the socket is connected; an error if connecting failed.
    pub(crate) fn is_connected(&self) -> io::Result<bool> {
        let mut code: libc::c_int = 0;
        let mut length = size_of_val(&code) as libc::socklen_t;
        // SAFETY: value and length live through the call.
        check(unsafe {
            let value = (&raw mut code).cast();
            libc::getsockopt(self.as_raw_fd(), libc::SOL_SOCKET, libc::SO_ERROR, value, &raw mut length)
        })?;
        if code != 0 {
            return Err(io::Error::from_raw_os_error(code));
        }
        // SAFETY: all-zero is a valid sockaddr_storage.
        let mut peer: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
        let mut length = size_of_val(&peer) as libc::socklen_t;
        // SAFETY: address and length live through the call.
        match check(unsafe { libc::getpeername(self.as_raw_fd(), (&raw mut peer).cast(), &raw mut length) }) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Asks the kernel to timestamp arrivals; returns whether it will. It does not for Unix sockets.
    pub(crate) fn timestamp_arrivals(&self, address: &Address) -> bool {
        #[cfg(target_os = "linux")]
        {
            let flags = libc::SOF_TIMESTAMPING_RX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE;
            matches!(address, Address::Tcp(_))
                && self.set_option(libc::SOL_SOCKET, libc::SO_TIMESTAMPING, flags as libc::c_int).is_ok()
        }
        #[cfg(not(target_os = "linux"))]
        {
            let _ = address;
            false
        }
    }

    fn set_option(&self, level: libc::c_int, name: libc::c_int, value: libc::c_int) -> io::Result<()> {
        // SAFETY: the option's value is an int of the length passed with it.
        check(unsafe {
            let length = size_of_val(&value) as libc::socklen_t;
            libc::setsockopt(self.as_raw_fd(), level, name, (&raw const value).cast(), length)
        })
        .map(drop)
    }

    pub(crate) fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        // SAFETY: the bytes live through the call and their length is passed with them.
        let count = unsafe { libc::send(self.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), SEND_FLAGS) };
        if count < 0 { Err(io::Error::last_os_error()) } else { Ok(count as usize) }
    }

    /// Sends what the system accepts of two parts, as if they were one.
    pub(crate) fn send_both(&self, first: &[u8], second: &[u8]) -> io::Result<usize> {
        let mut parts =
            [first, second].map(|part| libc::iovec { iov_base: part.as_ptr().cast_mut().cast(), iov_len: part.len() });
        // SAFETY: all-zero is a valid msghdr.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = parts.as_mut_ptr();
        message.msg_iovlen = parts.len() as _;
        // SAFETY: the parts live through the call, which only reads them.
        let count = unsafe { libc::sendmsg(self.as_raw_fd(), &raw const message, SEND_FLAGS) };
        if count < 0 { Err(io::Error::last_os_error()) } else { Ok(count as usize) }
    }

    pub(crate) fn peek(&self, buffer: &mut [u8]) -> io::Result<usize> {
        // SAFETY: the buffer lives through the call and its length is passed with it.
        let count = unsafe { libc::recv(self.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), libc::MSG_PEEK) };
        if count < 0 { Err(io::Error::last_os_error()) } else { Ok(count as usize) }
    }

    /// Reads available bytes, with the kernel timestamp of the last of them: nanoseconds of wall-clock time.
    #[cfg(target_os = "linux")]
    pub(crate) fn receive(&self, buffer: &mut [u8]) -> io::Result<(usize, Option<u64>)> {
        /// Three timestamps after a header, with room to spare; aligned like a header.
        #[repr(C, align(8))]
        struct Control([u8; 128]);
        let mut control = Control([0; 128]);
        let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
        // SAFETY: all-zero is a valid msghdr.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = (&raw mut control).cast();
        message.msg_controllen = size_of::<Control>() as _;
        // SAFETY: the message's parts all live through the call.
        let count = unsafe { libc::recvmsg(self.as_raw_fd(), &raw mut message, 0) };
        if count < 0 {
            return Err(io::Error::last_os_error());
        }
        let mut timestamp = None;
        // SAFETY: the kernel has filled the control buffer, and these macros stay inside it.
        unsafe {
            let mut header = libc::CMSG_FIRSTHDR(&raw const message);
            while !header.is_null() {
                if (*header).cmsg_level == libc::SOL_SOCKET && (*header).cmsg_type == libc::SCM_TIMESTAMPING {
                    let time: libc::timespec = std::ptr::read_unaligned(libc::CMSG_DATA(header).cast());
                    timestamp = Some(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64);
                }
                header = libc::CMSG_NXTHDR(&raw const message, header);
            }
        }
        Ok((count as usize, timestamp.filter(|&nanos| nanos > 0)))
    }

    /// Reads available bytes, without timestamps on this system.
    #[cfg(not(target_os = "linux"))]
    pub(crate) fn receive(&self, buffer: &mut [u8]) -> io::Result<(usize, Option<u64>)> {
        // SAFETY: the buffer lives through the call and its length is passed with it.
        let count = unsafe { libc::recv(self.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), 0) };
        if count < 0 { Err(io::Error::last_os_error()) } else { Ok((count as usize, None)) }
    }
}

impl AsRawFd for Socket {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

impl Read for &Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.receive(buffer).map(|(count, _)| count)
    }
}

impl Write for &Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.send(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The kernel timestamp of a packet sent to ourselves: nanoseconds of wall-clock time, if available.
#[cfg(target_os = "linux")]
pub(crate) fn timestamp_of_a_packet() -> io::Result<Option<u64>> {
    let udp = std::net::UdpSocket::bind("127.0.0.1:0")?;
    udp.set_read_timeout(Some(std::time::Duration::from_millis(50)))?;
    let address = udp.local_addr()?;
    let socket = Socket { fd: udp.into() };
    if !socket.timestamp_arrivals(&Address::Tcp(address)) {
        return Ok(None);
    }
    socket.start_connect(&Address::Tcp(address))?;
    socket.send(b"?")?;
    socket.receive(&mut [0; 8]).map(|(_, timestamp)| timestamp)
}

/// Kernel timestamps are not available on this system.
#[cfg(not(target_os = "linux"))]
pub(crate) fn timestamp_of_a_packet() -> io::Result<Option<u64>> {
    Ok(None)
}

fn unix_address(path: &Path) -> io::Result<libc::sockaddr_un> {
    // SAFETY: all-zero is a valid sockaddr_un.
    let mut raw: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    raw.sun_family = libc::AF_UNIX as libc::sa_family_t;
    let bytes = path.as_os_str().as_bytes();
    // The last byte stays zero and terminates the path.
    if bytes.len() >= raw.sun_path.len() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the socket's path is too long for the system"));
    }
    for (place, &byte) in raw.sun_path.iter_mut().zip(bytes) {
        *place = byte as libc::c_char;
    }
    Ok(raw)
}
