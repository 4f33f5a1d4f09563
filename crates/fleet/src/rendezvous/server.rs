//! The connections to rank 0: one thread each.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{collections::HashSet, io, sync::Arc};

use rustls::ServerConfig;
use tacho_core::json::{Json, dumps};
use tacho_core::{Mutex, Secret};

use super::visitors::Visitors;
use crate::connection::{Connection, accepted};
use crate::http::{read_request, write_response};
use crate::message::{self, Hello, Reply};
use crate::{Membership, coordinator::Shared};

/// Timeout of a read or write before a connection belongs to a rank.
const VISITOR_TIMEOUT: Duration = Duration::from_secs(10);
/// How long rank 0 waits until the others know that they may exit.
const DISMISS_TIMEOUT: Duration = Duration::from_secs(3);

/// Maximum number of reported rejections; more come from a program that is not a rank.
const MAX_NOTICES: u64 = 8;
const OTHER_TOKEN: &str = "its TACHO_RENDEZVOUS_TOKEN differs from rank 0's";

#[derive(Debug)]
pub(crate) struct Server {
    token: Secret,
    ranks: usize,
    tls: Option<Arc<ServerConfig>>,
    pub(super) run: Mutex<Option<Arc<Shared>>>,
    commands: Mutex<Commands>,
    visitors: Visitors,
    pub(super) rejected: Mutex<Rejected>,
    over: AtomicBool,
}

/// Connections that failed before they belonged to a rank.
#[derive(Debug, Default)]
pub(super) struct Rejected {
    pub(super) count: u64,
    pub(super) last: String,
    /// Messages that the user has not seen.
    pub(super) fresh: Vec<String>,
}

#[derive(Debug, Default)]
struct Commands {
    /// The index of the latest command; 0 before the first.
    number: u64,
    args: Vec<String>,
    closed: bool,
    /// Ranks that wait for a command or for the end, and those that know of the end.
    waiting: HashSet<usize>,
    dismissed: HashSet<usize>,
}

/// A response, or a status with the reason.
type Response = Result<Reply, (u16, String)>;

/// The run that a connection belongs to, and its rank there.
type Joined = Option<(Arc<Shared>, usize)>;

pub(super) fn start(listener: TcpListener, server: Arc<Server>) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let accept = move || {
        while !server.over.load(Ordering::Acquire) {
            match listener.accept() {
                Ok((stream, _)) => {
                    let server = server.clone();
                    let _ = std::thread::Builder::new().name("tacho-rank".into()).spawn(move || server.serve(stream));
                }
                Err(_) => {
                    server.visitors.expire();
                    std::thread::sleep(Duration::from_millis(5));
                }
            }
        }
    };
    std::thread::Builder::new().name("tacho-ranks".into()).spawn(accept).map(drop)
}

impl Server {
    pub(super) fn new(member: &Membership, tls: Option<Arc<ServerConfig>>) -> Server {
        Server {
            token: member.token.clone(),
            ranks: member.ranks,
            tls,
            run: Mutex::default(),
            commands: Mutex::default(),
            visitors: Visitors::new(member.ranks),
            rejected: Mutex::default(),
            over: AtomicBool::new(false),
        }
    }

    fn reject(&self, from: Option<SocketAddr>, reason: &str) {
        let mut rejected = self.rejected.lock();
        rejected.count += 1;
        reason.clone_into(&mut rejected.last);
        if rejected.count <= MAX_NOTICES {
            let from = from.map_or_else(String::new, |from| format!(" from {}", from.ip()));
            rejected.fresh.push(format!("a connection{from} was rejected: {reason}"));
        }
    }

    pub(super) fn assign(&self, args: &[String]) -> u64 {
        let mut commands = self.commands.lock();
        commands.number += 1;
        commands.args = args.to_vec();
        commands.number
    }

    /// Allows the other ranks to exit, and waits until those that ask have received it.
    pub(super) fn dismiss(&self) {
        self.commands.lock().closed = true;
        let began = Instant::now();
        let unaware = || {
            let commands = self.commands.lock();
            commands.waiting.len() > commands.dismissed.len()
        };
        while unaware() && began.elapsed() < DISMISS_TIMEOUT {
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Accepts no more connections; ranks that still ask may exit.
    pub(super) fn shut(&self) {
        self.commands.lock().closed = true;
        self.over.store(true, Ordering::Release);
    }

    /// Serves one connection until it closes. A rank that leaves its run before it is done is lost.
    fn serve(&self, stream: TcpStream) {
        let Ok(number) = self.visitors.enter(&stream) else { return };
        let from = stream.peer_addr().ok();
        let mut joined = None;
        let ended = self.respond_to_all(stream, number, &mut joined);
        if let Err(error) = &ended
            && joined.is_none()
            && let Some(reason) = self.rejection(error)
        {
            self.reject(from, &reason);
        }
        self.visitors.leave(number);
        if let Some((run, rank)) = joined {
            let broke = |error: io::Error| format!("its connection broke: {error}");
            run.left(rank, ended.err().map_or_else(|| "it exited".to_owned(), broke));
        }
    }

    /// Why a connection could not be used; `None` if it was only closed.
    fn rejection(&self, error: &io::Error) -> Option<String> {
        match (error.kind(), &self.tls) {
            (io::ErrorKind::PermissionDenied, _) => Some(OTHER_TOKEN.to_owned()),
            (io::ErrorKind::InvalidData, Some(_)) => {
                Some(format!("no TLS with the certificate of rank 0, pass the same --rendezvous-cert ({error})"))
            }
            (io::ErrorKind::Other, None) => Some(format!("not a message of a rank, or an encrypted one ({error})")),
            _ => None,
        }
    }

    fn respond_to_all(&self, stream: TcpStream, number: u64, joined: &mut Joined) -> io::Result<()> {
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        let mut connection = accepted(stream, self.tls.as_ref())?;
        connection.limit(Some(VISITOR_TIMEOUT))?;
        let mut buffer = Vec::new();
        let mut identified = false;
        while let Some(head) = read_request(&mut connection, &mut buffer)? {
            if !self.token.is(&head.token) {
                write_response(&mut connection, 403, OTHER_TOKEN.as_bytes())?;
                return Err(io::ErrorKind::PermissionDenied.into());
            }
            let body = head.read_body(&mut connection, &mut buffer)?;
            let response = self.respond(&head.path, &body, joined);
            // A rank that waits for its run to start is identified too.
            if !identified && response.as_ref().map_or_else(|(status, _)| *status == 503, |_| true) {
                identified = true;
                self.visitors.leave(number);
                connection.limit(None)?;
            }
            write(&mut connection, response)?;
        }
        Ok(())
    }

    fn respond(&self, path: &str, body: &[u8], joined: &mut Joined) -> Response {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        match (path, &joined) {
            ("/v1/next", _) => self.next(query),
            ("/v1/end", Some((run, rank))) => Ok(self.end(run, *rank)),
            ("/v1/join", None) => {
                let hello: Hello = message::read(body).map_err(|problem| (409, problem))?;
                let run = self.run.lock().clone().filter(|run| run.run == hello.run);
                let run = run.ok_or_else(|| self.no_run(hello.run))?;
                let rank = run.join(&hello).map_err(|reason| (409, reason))?;
                let response = run.welcome();
                *joined = Some((run, rank));
                Ok(response)
            }
            ("/v1/join", Some(_)) => Err((409, "it has joined already".to_owned())),
            (path, Some((run, rank))) => run.respond(path, query, body, *rank).map_err(|reason| (409, reason)),
            (_, None) => Err((409, "it has not joined".to_owned())),
        }
    }

    /// Why there is no run to join: not yet, or no longer.
    fn no_run(&self, number: u64) -> (u16, String) {
        let commands = self.commands.lock();
        match commands.closed || commands.number > number {
            true => (410, "rank 0 has given this run up".to_owned()),
            false => (503, "the run has not begun".to_owned()),
        }
    }

    /// The next action of a rank in a sweep: wait, a command, or exit.
    fn next(&self, query: &str) -> Response {
        let numbers: Vec<u64> = query.split(',').filter_map(|number| number.parse().ok()).collect();
        let unknown = || (409, "the query does not name a rank and a command".to_owned());
        let [rank, after] = numbers[..] else { return Err(unknown()) };
        let rank = usize::try_from(rank).ok().filter(|rank| (1..self.ranks).contains(rank)).ok_or_else(unknown)?;
        let mut commands = self.commands.lock();
        let over = commands.is_dismissed(rank);
        let next = (!over && commands.number > after).then(|| (commands.number, commands.args.clone()));
        Ok(Reply { over, next, ..Reply::default() })
    }

    /// Whether a rank that is done with a run may continue: rank 0 has saved the result.
    fn end(&self, run: &Shared, rank: usize) -> Reply {
        let mut commands = self.commands.lock();
        let over = commands.number > run.run || commands.is_dismissed(rank);
        Reply { over, running: run.is_running(), ..Reply::default() }
    }
}

impl Commands {
    /// Whether the sweep is over; records that this rank knows.
    fn is_dismissed(&mut self, rank: usize) -> bool {
        self.waiting.insert(rank);
        if self.closed {
            self.dismissed.insert(rank);
        }
        self.closed
    }
}

fn write(connection: &mut Connection, response: Response) -> io::Result<()> {
    match response {
        Ok(reply) => write_response(connection, 200, dumps(&reply.to_json()).as_bytes()),
        Err((status, reason)) => write_response(connection, status, reason.as_bytes()),
    }
}
