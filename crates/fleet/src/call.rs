//! Calls to rank 0 over one connection.

use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::ClientConfig;
use tacho_core::json::{Value, parse};

use crate::http::{read_response, write_request};
use crate::line::{self, Line};
use crate::{Error, Place};

/// Between two tries.
const PAUSE: Duration = Duration::from_millis(100);
/// How long a call may take; rank 0 answers at once.
const CALL: Duration = Duration::from_secs(10);
/// How long a connection may take to open.
const CONNECT: Duration = Duration::from_secs(2);

/// A connection to rank 0.
#[derive(Debug)]
pub(crate) struct Caller {
    place: Place,
    line: Line,
    buffer: Vec<u8>,
}

impl Caller {
    /// Connects to rank 0, which may be started later, and whose name may appear later still.
    pub(crate) fn find(place: &Place, stopped: &dyn Fn() -> bool) -> Result<Caller, Error> {
        let tls = place.certificate.as_ref().map(line::client).transpose()?;
        let began = Instant::now();
        loop {
            let error = match connect(place, tls.as_ref()) {
                Ok(line) => return Ok(Caller { place: place.clone(), line, buffer: Vec::new() }),
                Err(error) => error,
            };
            if stopped() {
                return Err(Error::Stopped);
            }
            if began.elapsed() >= place.terms.patience {
                let address = format!("{}:{}", place.host, place.port);
                let (rank, seconds) = (place.rank, place.terms.patience.as_secs());
                return Err(Error::NoHost { rank, address, seconds, reason: error.to_string() });
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Calls; a refusal is an error.
    pub(crate) fn call(&mut self, path: &str, body: &[u8]) -> Result<Value, Error> {
        match self.try_call(path, body)? {
            Ok(answer) => Ok(answer),
            Err((_, reason)) => Err(Error::Refused { rank: self.place.rank, reason }),
        }
    }

    /// The same, again and again while rank 0 is not ready for it.
    pub(crate) fn call_until(&mut self, path: &str, body: &[u8], stopped: &dyn Fn() -> bool) -> Result<Value, Error> {
        let began = Instant::now();
        loop {
            match self.try_call(path, body)? {
                Ok(answer) => return Ok(answer),
                Err((503, _)) if stopped() => return Err(Error::Stopped),
                Err((503, _)) if began.elapsed() < self.place.terms.patience => std::thread::sleep(PAUSE),
                Err((_, reason)) => return Err(Error::Refused { rank: self.place.rank, reason }),
            }
        }
    }

    fn try_call(&mut self, path: &str, body: &[u8]) -> Result<Result<Value, (u16, String)>, Error> {
        let (status, answer) = self.exchange(path, body).map_err(|error| self.lost(&error.to_string()))?;
        let text = String::from_utf8_lossy(&answer).into_owned();
        match status {
            200 => parse(&text).map(Ok).map_err(|error| self.lost(&error.to_string())),
            status => Ok(Err((status, text))),
        }
    }

    fn exchange(&mut self, path: &str, body: &[u8]) -> io::Result<(u16, Vec<u8>)> {
        write_request(&mut self.line, &self.place.host, path, &self.place.token, body)?;
        read_response(&mut self.line, &mut self.buffer)
    }

    /// Rank 0 is gone.
    pub(crate) fn lost(&self, reason: &str) -> Error {
        Error::HostLost { rank: self.place.rank, reason: reason.to_owned() }
    }
}

fn connect(place: &Place, tls: Option<&Arc<ClientConfig>>) -> io::Result<Line> {
    let mut last = io::Error::other("the name has no address");
    for address in (place.host.as_str(), place.port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECT) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                let line = line::connected(stream, tls)?;
                line.limit(Some(CALL))?;
                return Ok(line);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}
