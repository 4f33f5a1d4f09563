//! Another rank: finds rank 0, agrees with it, and hands it rows.

use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use tacho_core::json::{Dict, Value, dumps, parse};
use tacho_core::{Clock, Observation, Stamp, SystemClock};
use tacho_rowlog::pack;

use crate::clock::{ClockFit, Look};
use crate::http::{read_response, write_request};
use crate::{Error, Place};

/// How long rank 0 is looked for: it may be started later, and its name appear later still.
const PATIENCE: Duration = Duration::from_secs(300);
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(100);
/// How long a call may take; rank 0 answers at once.
const CALL: Duration = Duration::from_secs(10);
/// How long the call may take that waits for the start.
const START: Duration = Duration::from_secs(900);
/// Looks at rank 0's clock before and after the run.
const LOOKS: usize = 64;

/// Another rank's side of the meeting.
#[derive(Debug)]
pub struct Guest {
    place: Place,
    clock: SystemClock,
    stream: TcpStream,
    buffer: Vec<u8>,
    before: Vec<Look>,
}

impl Guest {
    /// Joins rank 0, once it is there.
    pub fn join(
        place: &Place,
        clock: SystemClock,
        hash: &str,
        version: &str,
        stopped: &dyn Fn() -> bool,
    ) -> Result<Guest, Error> {
        let stream = find(place, stopped)?;
        let mut guest = Guest { place: place.clone(), clock, stream, buffer: Vec::new(), before: Vec::new() };
        let mut hello = Dict::new();
        hello.set("rank", place.rank);
        hello.set("ranks", place.ranks);
        hello.set("hash", hash);
        hello.set("version", version);
        hello.set("machine", machine());
        guest.call("/v1/join", dumps(&hello.into()).as_bytes(), CALL)?;
        guest.before = guest.look()?;
        Ok(guest)
    }

    /// Says that this rank is ready, and waits for the moment of the start, by this rank's clock.
    pub fn ready(&mut self) -> Result<Stamp, Error> {
        let fit = ClockFit::new(&self.before, &[]).ok_or_else(|| self.lost("its clock could not be seen"))?;
        let mut said = Dict::new();
        said.set("clock", fit.to_json());
        let answer = self.call("/v1/ready", dumps(&said.into()).as_bytes(), START)?;
        let start = answer.get("start").and_then(Value::as_i64).and_then(|nanos| u64::try_from(nanos).ok());
        Ok(fit.to_own(Stamp(start.ok_or_else(|| self.lost("it named no start"))?)))
    }

    /// Hands rows over, or none as a sign of life; tells whether the run is to end.
    pub fn send(&mut self, rows: &[Observation], stopping: bool) -> Result<bool, Error> {
        let body = if rows.is_empty() { Ok(Vec::new()) } else { pack(rows) };
        let body = body.map_err(|error| self.lost(&error.to_string()))?;
        let answer = self.call(if stopping { "/v1/stopping" } else { "/v1/rows" }, &body, CALL)?;
        Ok(answer.get("stop") == Some(&Value::Bool(true)))
    }

    /// Says that all rows have been handed over, how the clock ran, and whatever else is to be said.
    pub fn done(mut self, mut said: Dict) -> Result<(), Error> {
        let after = self.look()?;
        let fit = ClockFit::new(&self.before, &after).ok_or_else(|| self.lost("its clock could not be seen"))?;
        said.set("clock", fit.to_json());
        self.call("/v1/done", dumps(&said.into()).as_bytes(), CALL).map(drop)
    }

    fn look(&mut self) -> Result<Vec<Look>, Error> {
        (0..LOOKS)
            .map(|_| {
                let asked = self.clock.now();
                let answer = self.call("/v1/clock", b"", CALL)?;
                let answered = self.clock.now();
                let now = answer.get("now").and_then(Value::as_i64).and_then(|nanos| u64::try_from(nanos).ok());
                Ok(Look::new(asked, now.ok_or_else(|| self.lost("it has no clock"))?, answered))
            })
            .collect()
    }

    fn call(&mut self, path: &str, body: &[u8], limit: Duration) -> Result<Value, Error> {
        let answered = self.exchange(path, body, limit).map_err(|error| self.lost(&error.to_string()))?;
        let text = String::from_utf8_lossy(&answered.1).into_owned();
        match answered.0 {
            200 => parse(&text).map_err(|error| self.lost(&error.to_string())),
            _ => Err(Error::Refused { rank: self.place.rank, reason: text }),
        }
    }

    fn exchange(&mut self, path: &str, body: &[u8], limit: Duration) -> io::Result<(u16, Vec<u8>)> {
        self.stream.set_read_timeout(Some(limit))?;
        self.stream.set_write_timeout(Some(limit))?;
        write_request(&mut self.stream, &self.place.host, path, &self.place.token, body)?;
        read_response(&mut self.stream, &mut self.buffer)
    }

    fn lost(&self, reason: &str) -> Error {
        Error::HostLost { rank: self.place.rank, reason: reason.to_owned() }
    }
}

/// Connects to rank 0, which may not be there yet.
fn find(place: &Place, stopped: &dyn Fn() -> bool) -> Result<TcpStream, Error> {
    let began = Instant::now();
    loop {
        let error = match connect(place) {
            Ok(stream) => return Ok(stream),
            Err(error) => error,
        };
        if stopped() {
            return Err(Error::Stopped);
        }
        if began.elapsed() >= PATIENCE {
            let address = format!("{}:{}", place.host, place.port);
            let (rank, seconds) = (place.rank, PATIENCE.as_secs());
            return Err(Error::NoHost { rank, address, seconds, reason: error.to_string() });
        }
        std::thread::sleep(PAUSE);
    }
}

fn connect(place: &Place) -> io::Result<TcpStream> {
    let mut last = io::Error::other("the name has no address");
    for address in (place.host.as_str(), place.port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, Duration::from_secs(2)) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn machine() -> String {
    tacho_rowlog::Host::here().name
}
