//! Rank 0's state of the other ranks, and its responses to them.

use std::sync::Condvar;
use std::time::{Duration, Instant};
use tacho_core::bounded::RankCount;

use tacho_core::{Clock, Mutex, Observation, SystemClock, Timestamp, json::Value};
use tacho_rowlog::unpack;

use super::{HEARTBEAT_TIMEOUT, Progress, RankReport};
use crate::Membership;
use crate::clock::{ClockFit, WallClock};
use crate::message::{self, Directive, Hello, Ready, Reply};

/// Maximum number of reported refusals; more come from a program that is not a rank.
const MAX_NOTICES: usize = 8;

/// State of a run shared by rank 0 and the threads of its connections.
#[derive(Debug)]
pub(crate) struct Shared {
    /// The index of the run in a sweep.
    pub(crate) run: u64,
    /// Whether every rank has presented a token. Otherwise any process on the machine may claim to be a rank.
    pub(super) authenticates: bool,
    ranks: usize,
    hash: String,
    version: String,
    log: Option<String>,
    pub(super) clock: SystemClock,
    pub(super) state: Mutex<State>,
    pub(super) changed: Condvar,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) peers: Vec<Peer>,
    /// The start, by rank 0's clock and by its wall clock.
    pub(super) start: Option<(Timestamp, i64)>,
    pub(super) stop: Stop,
    /// Why rank 0 takes no more messages.
    given_up: Option<String>,
    /// Messages for the user while ranks join.
    pub(super) notices: Vec<String>,
    noticed: usize,
}

/// Whether the run must end, and why.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Stop {
    pub(super) ended: bool,
    /// A signal at rank 0.
    pub(super) coordinator: bool,
    /// A signal at another rank.
    pub(super) worker: bool,
}

#[derive(Debug, Default)]
pub(super) struct Peer {
    machine: String,
    pub(super) joined: bool,
    pub(super) ready: bool,
    /// Whether it knows that rank 0 has given the run up.
    told: bool,
    log: Option<String>,
    last_heard: Option<Instant>,
    /// Rows that have not been collected, on rank 0's clock.
    pub(super) rows: Vec<Observation>,
    received: usize,
    pub(super) progress: Progress,
    clock: PeerClock,
    done: Option<Done>,
    pub(super) lost: Option<String>,
    /// Whether it is lost only because of its silence: a message revives it.
    silent: bool,
    /// Why a process that claimed to be this rank was refused, and when.
    refusal: Option<(String, Instant)>,
}

/// The clock of another rank, as known while rows arrive.
#[derive(Debug, Default)]
struct PeerClock {
    /// Before the run; both sides agree on the start with it.
    first: Option<ClockFit>,
    latest: Option<ClockFit>,
    /// The estimates used to convert rows, and since when.
    used: Vec<(Timestamp, ClockFit)>,
}

#[derive(Debug)]
struct Done {
    fit: ClockFit,
    wall_offset: Option<(i64, u64)>,
    closing: Value,
}

impl PeerClock {
    fn update(&mut self, fit: ClockFit) {
        self.first.get_or_insert(fit);
        self.latest = Some(fit);
    }

    /// Converts rows to rank 0's clock with the latest estimate; without one they are dropped.
    fn place(&mut self, rows: &mut Vec<Observation>) {
        let (Some(first), Some(latest)) = (self.first, self.latest) else {
            rows.clear();
            return;
        };
        if let Some(row) = rows.last()
            && self.used.last().is_none_or(|(_, used)| *used != latest)
        {
            self.used.push((row.done, latest));
        }
        rows.iter_mut().for_each(|row| latest.place_on_grid(first.offset(), row));
    }

    /// The final estimate; its bound covers every conversion with an earlier one.
    fn settled(&self, last: Option<ClockFit>) -> Option<ClockFit> {
        let last = last.or(self.latest)?;
        let off = self.used.iter().map(|(at, used)| last.distance_to(used, *at)).max();
        Some(last.widened(off.unwrap_or(0)))
    }
}

impl Peer {
    pub(super) fn is_over(&self) -> bool {
        self.done.is_some() || self.lost.is_some()
    }

    /// Whether a process that claimed to be this rank was refused at least this long ago.
    pub(super) fn refused_since(&self, since: Duration) -> bool {
        self.refusal.as_ref().is_some_and(|(_, at)| at.elapsed() >= since)
    }

    fn mark_alive(&mut self) {
        self.last_heard = Some(Instant::now());
        if std::mem::take(&mut self.silent) {
            self.lost = None;
        }
    }

    pub(super) fn report(self, rank: usize) -> RankReport {
        let lost = self.lost.or_else(|| self.done.is_none().then(|| "it was not done in time".to_owned()));
        let clock = self.clock.settled(self.done.as_ref().map(|done| done.fit));
        let (wall_offset, closing) = self.done.map_or((None, Value::Null), |done| (done.wall_offset, done.closing));
        let machine = if self.machine.is_empty() { "an unknown host".to_owned() } else { self.machine };
        let (rows, log, [finished, .., in_flight]) = (self.received, self.log, self.progress);
        let started = finished.saturating_add(in_flight);
        RankReport { rank, machine, rows, started, log, clock, wall_offset, closing, lost }
    }
}

impl State {
    pub(super) fn others(&self) -> impl Iterator<Item = &Peer> {
        self.peers.iter().skip(1)
    }

    /// The ranks that satisfy a condition and are not done.
    pub(super) fn missing(&mut self, wanted: impl Fn(&Peer) -> bool) -> impl Iterator<Item = (usize, &mut Peer)> {
        self.peers.iter_mut().enumerate().skip(1).filter(move |(_, peer)| wanted(peer) && !peer.is_over())
    }

    /// Detects ranks whose machine disappeared, by their missing heartbeat.
    pub(super) fn check_heartbeats(&mut self) {
        for peer in self.peers.iter_mut().filter(|peer| peer.ready && !peer.is_over()) {
            if peer.last_heard.is_some_and(|heard| heard.elapsed() > HEARTBEAT_TIMEOUT) {
                peer.lost = Some(format!("it was silent for {} s", HEARTBEAT_TIMEOUT.as_secs()));
                peer.silent = true;
            }
        }
    }

    /// A rank that was refused because it differs, and has not joined since.
    pub(super) fn mismatch(&self) -> Option<(String, String)> {
        let refused = |(rank, peer): (usize, &Peer)| {
            let (reason, _) = peer.refusal.clone().filter(|_| !peer.joined)?;
            Some((format!("rank {rank}{}", on(&peer.machine)), reason))
        };
        self.peers.iter().enumerate().find_map(refused)
    }

    fn refuse(&mut self, rank: usize, machine: &str, reason: &str) {
        if let Some(peer) = self.peers.get_mut(rank).filter(|peer| rank > 0 && !peer.joined) {
            (peer.machine, peer.refusal) = (machine.to_owned(), Some((reason.to_owned(), Instant::now())));
        }
        self.noticed += 1;
        if self.noticed <= MAX_NOTICES {
            let who = format!("rank {rank}{}", on(machine));
            self.notices.push(format!("a process that calls itself {who} was refused: {reason}"));
        }
    }
}

/// The host of a rank, if known.
fn on(machine: &str) -> String {
    if machine.is_empty() { String::new() } else { format!(" on {machine}") }
}

impl Shared {
    pub(crate) fn new(member: &Membership, clock: SystemClock, hash: &str, version: &str, log: Option<&str>) -> Shared {
        let peers = (0..member.ranks).map(|_| Peer::default()).collect();
        Shared {
            run: member.run,
            authenticates: !member.token.is_empty(),
            ranks: member.ranks,
            hash: hash.to_owned(),
            version: version.to_owned(),
            log: log.map(str::to_owned),
            clock,
            state: Mutex::new(State { peers, ..State::default() }),
            changed: Condvar::new(),
        }
    }

    /// Ends the run. Ranks that are not done get the first reason with their next message.
    pub(super) fn give_up(&self, reason: &str) {
        self.state.lock().given_up.get_or_insert_with(|| reason.to_owned());
        self.changed.notify_all();
    }

    /// Whether rank 0 still receives rows.
    pub(crate) fn is_running(&self) -> bool {
        self.state.lock().given_up.is_none()
    }

    /// Whether a rank that calls again does not know yet that the run was given up.
    pub(super) fn is_unaware(&self) -> bool {
        let state = self.state.lock();
        state.others().any(|peer| peer.joined && !peer.told && !peer.is_over())
    }

    pub(crate) fn left(&self, rank: usize, reason: String) {
        if let Some(peer) = self.state.lock().peers.get_mut(rank).filter(|peer| peer.done.is_none()) {
            (peer.lost, peer.silent) = (Some(reason), false);
        }
        self.changed.notify_all();
    }

    /// The response to a rank that has joined.
    pub(crate) fn welcome(&self) -> Reply {
        Reply { log: self.log.clone(), ..self.now() }
    }

    pub(crate) fn respond(&self, path: &str, query: &str, body: &[u8], rank: usize) -> Result<Reply, String> {
        if let Some(last) = self.last_word(rank) {
            return last;
        }
        match path {
            "/v1/clock" => Ok(self.clock(rank, body)),
            "/v1/ready" => self.ready(rank, message::read(body)?),
            "/v1/rows" => self.rows(rank, query, body),
            "/v1/done" => self.done(rank, message::read(body)?),
            path => Err(format!("unknown path {path}")),
        }
    }

    /// The response to a rank after the run has ended: a stop if a signal came before the start, else the reason.
    fn last_word(&self, rank: usize) -> Option<Result<Reply, String>> {
        let mut state = self.state.lock();
        let reason = state.given_up.clone()?;
        if let Some(peer) = state.peers.get_mut(rank) {
            peer.told = true;
        }
        let interrupted = state.stop.is_interrupted() && state.start.is_none();
        Some(if interrupted { Ok(Reply { stop: state.stop.directive(), ..self.now() }) } else { Err(reason) })
    }

    fn now(&self) -> Reply {
        Reply { now: Some(self.clock.now().0), ..Reply::default() }
    }

    /// The time; the body may contain the rank's latest clock estimate.
    fn clock(&self, rank: usize, body: &[u8]) -> Reply {
        let reply = self.now();
        if let Ok(fit) = message::read::<ClockFit>(body)
            && let Some(peer) = self.state.lock().peers.get_mut(rank)
        {
            peer.clock.update(fit);
        }
        reply
    }

    /// Admits a rank that has the same plan.
    pub(crate) fn join(&self, hello: &Hello) -> Result<usize, String> {
        let rank =
            RankCount::new("rank", hello.rank as u64).map_err(|_| "the message does not name a rank")?.as_usize();
        let machine = printable(&hello.machine);
        let mut state = self.state.lock();
        if let Err(reason) = self.admits(&state, rank, hello) {
            state.refuse(rank, &machine, &reason);
            self.changed.notify_all();
            return Err(reason);
        }
        state.peers[rank] = Peer { machine, joined: true, ..Peer::default() };
        state.peers[rank].mark_alive();
        self.changed.notify_all();
        Ok(rank)
    }

    /// Why a rank cannot join.
    fn admits(&self, state: &State, rank: usize, hello: &Hello) -> Result<(), String> {
        if self.ranks != hello.ranks {
            return Err(format!("it counts {} ranks where rank 0 has {}", hello.ranks, self.ranks));
        }
        if rank == 0 || rank >= state.peers.len() {
            return Err("no such rank".to_owned());
        }
        if hello.version != self.version {
            return Err(format!("it is tacho {} where rank 0 has {}", printable(&hello.version), self.version));
        }
        if hello.hash != self.hash {
            return Err("its requests or their times differ from rank 0's: do all ranks see the same files and flags?"
                .to_owned());
        }
        if state.start.is_some() {
            return Err("it is too late: the run has begun".to_owned());
        }
        match state.peers[rank].joined {
            true => Err("another process has its rank already".to_owned()),
            false => Ok(()),
        }
    }

    /// The start, once it is known.
    fn ready(&self, rank: usize, message: Ready) -> Result<Reply, String> {
        let mut state = self.state.lock();
        let (start, stop) = (state.start, state.stop);
        let peer = state.peers.get_mut(rank).ok_or("the run is over")?;
        peer.ready = true;
        peer.log = message.log;
        if let Some(fit) = message.clock {
            peer.clock.update(fit);
        }
        peer.mark_alive();
        state.stop.worker |= message.stopping;
        self.changed.notify_all();
        let start = start.map(|(Timestamp(start), unix_ns)| (start, unix_ns));
        Ok(Reply { start, stop: stop.directive(), ..self.now() })
    }

    /// Handles rows, or none as a heartbeat. The query contains the rank's progress and whether it was interrupted.
    fn rows(&self, rank: usize, query: &str, body: &[u8]) -> Result<Reply, String> {
        let mut rows =
            if body.is_empty() { Vec::new() } else { unpack(body.to_vec()).map_err(|error| error.to_string())? };
        let numbers: Vec<u64> = query.split(',').filter_map(|number| number.parse().ok()).collect();
        let [stopping, progress @ ..] = &numbers[..] else { return Err("the progress is missing".to_owned()) };
        let mut state = self.state.lock();
        state.stop.worker |= *stopping != 0;
        let reply = Reply { stop: state.stop.directive(), ..self.now() };
        let peer = state.peers.get_mut(rank).ok_or("the run is over")?;
        peer.mark_alive();
        peer.progress = Progress::try_from(progress).map_err(|_| "the progress is incomplete")?;
        peer.clock.place(&mut rows);
        peer.received += rows.len();
        peer.rows.append(&mut rows);
        Ok(reply)
    }

    fn done(
        &self,
        rank: usize,
        message::Done { clock: fit, wall_clock, closing }: message::Done,
    ) -> Result<Reply, String> {
        let wall_offset = wall_clock.map(|theirs| WallClock::now(self.clock).offset_of(&theirs, &fit));
        if let Some(peer) = self.state.lock().peers.get_mut(rank) {
            peer.mark_alive();
            peer.done = Some(Done { fit, wall_offset, closing });
        }
        self.changed.notify_all();
        Ok(Reply::default())
    }
}

impl Stop {
    fn is_interrupted(self) -> bool {
        self.coordinator || self.worker
    }

    fn directive(self) -> Directive {
        match self {
            stop if stop.is_interrupted() => Directive::Interrupted,
            Stop { ended: true, .. } => Directive::Ended,
            _ => Directive::Continue,
        }
    }
}

/// A text from another machine, safe for a terminal.
fn printable(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).take(100).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RankOptions;

    #[test]
    fn a_rank_is_a_whole_number() {
        let rendezvous = Some("127.0.0.1:9".to_owned());
        let options = RankOptions { rank: Some(0), ranks: Some(3), rendezvous, ..RankOptions::default() };
        let member = Membership::find(&options, &|_| None, 1).unwrap().unwrap();
        let shared = Shared::new(&member, SystemClock::start(), "h", "v", None);
        let join = |rank: &str| {
            let hello = format!(r#"{{"rank": {rank}, "ranks": 3, "hash": "h", "version": "v"}}"#);
            shared.join(&message::read(hello.as_bytes())?)
        };
        for rank in ["1.5", "1.0", "\"1\"", "-1", "0", "3", "99999999999"] {
            assert!(join(rank).is_err(), "{rank}");
        }
        assert_eq!(join("1"), Ok(1));
    }
}
