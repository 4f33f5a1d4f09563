//! Calls to rank 0 over one connection.

use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};
use std::{io, sync::Arc};

use rustls::ClientConfig;

use crate::connection::{self, Connection};
use crate::http::{read_response, write_request};
use crate::message::{self, Reply};
use crate::{Error, Membership};

const RETRY_PAUSE: Duration = Duration::from_millis(100);
/// Timeout of a call; rank 0 responds at once.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// A connection to rank 0.
#[derive(Debug)]
pub(crate) struct Client {
    member: Membership,
    connection: Connection,
    buffer: Vec<u8>,
}

impl Client {
    /// Connects to rank 0, which may start later, and whose name may resolve later still.
    pub(crate) fn connect(member: &Membership, stopped: &dyn Fn() -> bool) -> Result<Client, Error> {
        let tls = member.certificate.as_ref().map(connection::client).transpose()?;
        let began = Instant::now();
        loop {
            let error = match connect(member, tls.as_ref()) {
                Ok(connection) => return Ok(Client { member: member.clone(), connection, buffer: Vec::new() }),
                Err(error) => error,
            };
            if stopped() {
                return Err(Error::Stopped);
            }
            if began.elapsed() >= member.policy.timeout {
                let address = format!("{}:{}", member.host, member.port);
                let (rank, seconds) = (member.rank, member.policy.timeout.as_secs());
                return Err(Error::Unreachable { rank, address, seconds, reason: error.to_string() });
            }
            std::thread::sleep(RETRY_PAUSE);
        }
    }

    /// Makes a call; a refusal is an error.
    pub(crate) fn call(&mut self, path: &str, body: &[u8]) -> Result<Reply, Error> {
        match self.try_call(path, body)? {
            Ok(response) => Ok(response),
            Err((_, reason)) => Err(Error::Refused { rank: self.member.rank, reason }),
        }
    }

    /// Repeats a call until rank 0 is ready for it.
    pub(crate) fn call_until(&mut self, path: &str, body: &[u8], stopped: &dyn Fn() -> bool) -> Result<Reply, Error> {
        let began = Instant::now();
        loop {
            match self.try_call(path, body)? {
                Ok(response) => return Ok(response),
                Err((503, _)) if stopped() => return Err(Error::Stopped),
                Err((503, _)) if began.elapsed() < self.member.policy.timeout => std::thread::sleep(RETRY_PAUSE),
                Err((_, reason)) => return Err(Error::Refused { rank: self.member.rank, reason }),
            }
        }
    }

    fn try_call(&mut self, path: &str, body: &[u8]) -> Result<Result<Reply, (u16, String)>, Error> {
        let (status, response) = self.exchange(path, body).map_err(|error| self.lost(&reason(&error)))?;
        match status {
            200 => message::read(&response).map(Ok).map_err(|problem| self.lost(&problem)),
            status => Ok(Err((status, String::from_utf8_lossy(&response).into_owned()))),
        }
    }

    fn exchange(&mut self, path: &str, body: &[u8]) -> io::Result<(u16, Vec<u8>)> {
        write_request(&mut self.connection, &self.member.host, path, &self.member.token, body)?;
        read_response(&mut self.connection, &mut self.buffer)
    }

    /// How long this rank waits for others.
    pub(crate) fn timeout(&self) -> Duration {
        self.member.policy.timeout
    }

    pub(crate) fn lost(&self, reason: &str) -> Error {
        Error::CoordinatorLost { rank: self.member.rank, reason: reason.to_owned() }
    }
}

/// The reason of a failed call, with our own wording for a timeout.
fn reason(error: &io::Error) -> String {
    if let Some(rustls::Error::InvalidCertificate(_)) = error.get_ref().and_then(|error| error.downcast_ref()) {
        return "its certificate is not the one of --rendezvous-cert here".to_owned();
    }
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            format!("it did not respond within {} s", CALL_TIMEOUT.as_secs())
        }
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
            "it closed the connection".to_owned()
        }
        _ => error.to_string(),
    }
}

fn connect(member: &Membership, tls: Option<&Arc<ClientConfig>>) -> io::Result<Connection> {
    let mut last = io::Error::other("the name does not resolve");
    for address in (member.host.as_str(), member.port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                let connection = connection::connected(stream, tls)?;
                connection.limit(Some(CALL_TIMEOUT))?;
                return Ok(connection);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_is_described_without_system_error_numbers() {
        let silent = reason(&io::Error::from_raw_os_error(11));
        assert!(silent.contains("did not respond within 10 s") && !silent.contains("os error"), "{silent}");
        assert!(reason(&io::ErrorKind::UnexpectedEof.into()).contains("closed"));
    }
}
