//! The calls that rank 0 answers: one connection a rank, one thread a connection.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tacho_core::json::{Dict, Value, dumps, parse};
use tacho_core::{Clock, Stamp};
use tacho_rowlog::unpack;

use super::{Guest, LOOK, Shared};
use crate::clock::ClockFit;
use crate::http::{Request, read_request, write_response};
use crate::token;

/// Takes connections until the run is over.
pub(super) fn start(listener: TcpListener, shared: Arc<Shared>) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let accept = move || {
        while !shared.over.load(Ordering::Acquire) {
            match listener.accept() {
                Ok((stream, _)) => {
                    let shared = shared.clone();
                    let _ = std::thread::Builder::new().spawn(move || converse(stream, &shared));
                }
                Err(_) => std::thread::sleep(Duration::from_millis(5)),
            }
        }
    };
    std::thread::Builder::new().name("tacho-ranks".into()).spawn(accept).map(drop)
}

/// Answers one rank until it leaves; one that leaves without a word is lost.
fn converse(mut stream: TcpStream, shared: &Shared) {
    let mut rank = None;
    let ended = answer_all(&mut stream, shared, &mut rank);
    let Some(rank) = rank else { return };
    let reason = ended.err().map_or_else(|| "it ended".to_owned(), |error| format!("its connection broke: {error}"));
    let mut state = shared.state();
    if let Some(guest) = state.guests.get_mut(rank).filter(|guest| !guest.is_over()) {
        guest.lost = Some(reason);
    }
    drop(state);
    shared.changed.notify_all();
}

fn answer_all(stream: &mut TcpStream, shared: &Shared, rank: &mut Option<usize>) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    let mut buffer = Vec::new();
    while let Some(request) = read_request(stream, &mut buffer)? {
        if !token::same(&shared.token, &request.token) {
            return write_response(stream, 403, b"the token is not that of rank 0");
        }
        match shared.answer(&request, rank) {
            Ok(answer) => write_response(stream, 200, dumps(&Value::Dict(answer)).as_bytes())?,
            Err(reason) => return write_response(stream, 409, reason.as_bytes()),
        }
    }
    Ok(())
}

impl Shared {
    fn answer(&self, request: &Request, rank: &mut Option<usize>) -> Result<Dict, String> {
        if request.path == "/v1/join" {
            *rank = Some(self.join(&message(&request.body)?)?);
            return Ok(self.now());
        }
        let rank = rank.ok_or("it has not joined")?;
        match request.path.as_str() {
            "/v1/clock" => Ok(self.now()),
            "/v1/ready" => self.ready(rank, &message(&request.body)?),
            "/v1/rows" => self.rows(rank, &request.body, false),
            "/v1/stopping" => self.rows(rank, &request.body, true),
            "/v1/done" => self.done(rank, message(&request.body)?),
            path => Err(format!("there is no {path}")),
        }
    }

    fn now(&self) -> Dict {
        let mut answer = Dict::new();
        answer.set("now", self.clock.now().0);
        answer
    }

    /// Lets a rank in that has the same plan.
    fn join(&self, said: &Value) -> Result<usize, String> {
        let number =
            |name: &str| said.get(name).and_then(Value::as_i64).and_then(|number| usize::try_from(number).ok());
        let text = |name: &str| said.get(name).and_then(Value::as_str).unwrap_or("");
        let (rank, ranks) = (number("rank").ok_or("it names no rank")?, number("ranks").unwrap_or(0));
        let who = format!("rank {rank} on {}", printable(text("machine")));
        let differs =
            |what: &str, theirs: &str, ours: &str| format!("{what} {} where rank 0 has {ours}", printable(theirs));
        let reason = if ranks != self.ranks {
            Some(differs("it counts", &ranks.to_string(), &format!("{} ranks", self.ranks)))
        } else if rank == 0 || rank >= ranks {
            Some("there is no place for it".to_owned())
        } else if text("version") != self.version {
            Some(differs("it is tacho", text("version"), &self.version))
        } else if text("hash") != self.hash {
            Some(
                "its requests or their times are others than rank 0's: do all ranks see the same files and flags?"
                    .into(),
            )
        } else if self.state().guests[rank].joined {
            Some("another process has its rank already".to_owned())
        } else {
            None
        };
        let mut state = self.state();
        if let Some(reason) = reason {
            state.refused = Some((who, reason.clone()));
            self.changed.notify_all();
            return Err(reason);
        }
        state.guests[rank] = Guest {
            machine: printable(text("machine")),
            joined: true,
            heard: Some(Instant::now()),
            ..Guest::default()
        };
        self.changed.notify_all();
        Ok(rank)
    }

    /// Answers when the start is known.
    fn ready(&self, rank: usize, said: &Value) -> Result<Dict, String> {
        let mut state = self.state();
        state.guests[rank].ready = true;
        state.guests[rank].fit = said.get("clock").and_then(ClockFit::from_json);
        self.changed.notify_all();
        loop {
            if let Some(Stamp(start)) = state.start {
                state.guests[rank].heard = Some(Instant::now());
                let mut answer = Dict::new();
                answer.set("start", start);
                return Ok(answer);
            }
            if self.over.load(Ordering::Acquire) {
                return Err("rank 0 has given the run up".to_owned());
            }
            state = self.changed.wait_timeout(state, LOOK).unwrap_or_else(std::sync::PoisonError::into_inner).0;
        }
    }

    /// Takes rows, or none as a sign of life.
    fn rows(&self, rank: usize, body: &[u8], stopping: bool) -> Result<Dict, String> {
        let mut rows = if body.is_empty() { Vec::new() } else { unpack(body).map_err(|error| error.to_string())? };
        let mut answer = self.now();
        let mut state = self.state();
        state.stop.guest |= stopping;
        answer.set("stop", state.stop.host || state.stop.guest);
        let Some(guest) = state.guests.get_mut(rank) else { return Err("the run is over".to_owned()) };
        guest.heard = Some(Instant::now());
        guest.rows.append(&mut rows);
        Ok(answer)
    }

    fn done(&self, rank: usize, said: Value) -> Result<Dict, String> {
        let fit = said.get("clock").and_then(ClockFit::from_json).ok_or("it does not say how its clock ran")?;
        if let Some(guest) = self.state().guests.get_mut(rank) {
            guest.rows.iter_mut().for_each(|row| row.shift(|stamp| fit.to_host(stamp)));
            guest.done = Some((fit, said));
        }
        self.changed.notify_all();
        Ok(Dict::new())
    }
}

fn message(body: &[u8]) -> Result<Value, String> {
    let text = std::str::from_utf8(body).map_err(|error| error.to_string())?;
    parse(text).map_err(|error| error.to_string())
}

/// A name from another machine, fit for a terminal.
fn printable(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).take(100).collect()
}
