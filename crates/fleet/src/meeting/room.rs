//! The connections to rank 0: one thread each, which answers what is asked.

use std::collections::HashSet;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustls::ServerConfig;
use tacho_core::Secret;
use tacho_core::json::{Dict, Value, dumps, parse};

use crate::host::Shared;
use crate::http::{read_request, write_response};
use crate::line::{Line, accepted};
use crate::{Place, token};

/// Who says nothing for so long before it has joined is a stranger.
const STRANGER: Duration = Duration::from_secs(10);
/// How long those that follow may take to hear of the end.
const FAREWELL: Duration = Duration::from_secs(3);

/// What the threads share.
#[derive(Debug)]
pub(crate) struct Room {
    token: Secret,
    tls: Option<Arc<ServerConfig>>,
    run: Mutex<Option<Arc<Shared>>>,
    pub(super) orders: Mutex<Orders>,
    pub(super) over: AtomicBool,
}

/// What those that follow are to do.
#[derive(Debug, Default)]
pub(super) struct Orders {
    pub(super) number: u64,
    pub(super) words: Vec<String>,
    closed: bool,
    /// Those that follow, and those that know that it is over.
    following: HashSet<usize>,
    dismissed: HashSet<usize>,
}

/// How a request is answered: what, or a status with the reason.
type Answer = Result<Dict, (u16, String)>;

/// The run that a connection belongs to, and as which rank.
type Joined = Option<(Arc<Shared>, usize)>;

/// Takes connections until the meeting is over.
pub(super) fn start(listener: TcpListener, room: Arc<Room>) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let accept = move || {
        while !room.over.load(Ordering::Acquire) {
            match listener.accept() {
                Ok((stream, _)) => {
                    let room = room.clone();
                    let _ = std::thread::Builder::new().name("tacho-rank".into()).spawn(move || room.converse(stream));
                }
                Err(_) => std::thread::sleep(Duration::from_millis(5)),
            }
        }
    };
    std::thread::Builder::new().name("tacho-ranks".into()).spawn(accept).map(drop)
}

impl Room {
    pub(super) fn new(place: &Place, tls: Option<Arc<ServerConfig>>) -> Room {
        Room {
            token: place.token.clone(),
            tls,
            run: Mutex::default(),
            orders: Mutex::default(),
            over: AtomicBool::new(false),
        }
    }

    pub(super) fn run(&self) -> MutexGuard<'_, Option<Arc<Shared>>> {
        self.run.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn orders(&self) -> MutexGuard<'_, Orders> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says that there is nothing more to do, and waits until it was heard.
    pub(super) fn dismiss(&self) {
        self.orders().closed = true;
        let began = Instant::now();
        let unaware = || {
            let orders = self.orders();
            orders.following.len() > orders.dismissed.len()
        };
        while unaware() && began.elapsed() < FAREWELL {
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Answers one rank until it leaves; one that leaves its run without a word is lost.
    fn converse(&self, stream: TcpStream) {
        let mut joined = None;
        let ended = self.answer_all(stream, &mut joined);
        if let Some((run, rank)) = joined {
            let broke = |error: io::Error| format!("its connection broke: {error}");
            run.left(rank, ended.err().map_or_else(|| "it ended".to_owned(), broke));
        }
    }

    fn answer_all(&self, stream: TcpStream, joined: &mut Joined) -> io::Result<()> {
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        let mut line = accepted(stream, self.tls.as_ref())?;
        line.limit(Some(STRANGER))?;
        let mut buffer = Vec::new();
        while let Some(head) = read_request(&mut line, &mut buffer)? {
            if !token::same(&self.token, &head.token) {
                return write_response(&mut line, 403, b"the token is not that of rank 0");
            }
            line.limit(None)?;
            let body = head.read_body(&mut line, &mut buffer)?;
            self.answer_one(&mut line, self.answer(&head.path, &body, joined))?;
        }
        Ok(())
    }

    fn answer_one(&self, line: &mut Line, answer: Answer) -> io::Result<()> {
        match answer {
            Ok(answer) => write_response(line, 200, dumps(&Value::Dict(answer)).as_bytes()),
            Err((status, reason)) => write_response(line, status, reason.as_bytes()),
        }
    }

    fn answer(&self, path: &str, body: &[u8], joined: &mut Joined) -> Answer {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        match (path, &joined) {
            ("/v1/next", _) => self.next(query),
            ("/v1/join", _) => {
                let said = message(body)?;
                let order = said.get("order").and_then(Value::as_i64).unwrap_or(0);
                let run = self.run().clone().filter(|run| i64::try_from(run.order) == Ok(order));
                let run = run.ok_or_else(|| self.no_run(order))?;
                let rank = run.join(&said).map_err(|reason| (409, reason))?;
                let answer = run.welcome();
                *joined = Some((run, rank));
                Ok(answer)
            }
            (path, Some((run, rank))) => run.answer(path, query, body, *rank).map_err(|reason| (409, reason)),
            (_, None) => Err((409, "it has not joined".to_owned())),
        }
    }

    /// Why there is no run to join: not yet, or not any more.
    fn no_run(&self, order: i64) -> (u16, String) {
        let orders = self.orders();
        match orders.closed || i64::try_from(orders.number).is_ok_and(|number| number > order) {
            true => (410, "rank 0 has given this run up".to_owned()),
            false => (503, "there is no run yet".to_owned()),
        }
    }

    /// What one that follows is to do next: nothing yet, a command, or nothing any more.
    fn next(&self, query: &str) -> Answer {
        let numbers: Vec<u64> = query.split(',').filter_map(|number| number.parse().ok()).collect();
        let [rank, after] = numbers[..] else { return Err((409, "it names no rank and no command".to_owned())) };
        let mut orders = self.orders();
        orders.following.insert(rank as usize);
        let mut answer = Dict::new();
        if orders.closed {
            orders.dismissed.insert(rank as usize);
            answer.set("over", true);
        } else if orders.number > after {
            answer.set("number", orders.number);
            answer.set("words", orders.words.iter().map(|word| Value::from(word.as_str())).collect::<Vec<_>>());
        }
        Ok(answer)
    }
}

fn message(body: &[u8]) -> Result<Value, (u16, String)> {
    let bad = |reason: String| (409, reason);
    let text = std::str::from_utf8(body).map_err(|error| bad(error.to_string()))?;
    parse(text).map_err(|error| bad(error.to_string()))
}
