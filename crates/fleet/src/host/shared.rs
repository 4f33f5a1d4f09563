//! What rank 0 knows of the others, and what it answers them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tacho_core::json::{Dict, Value, parse};
use tacho_core::{Clock, Observation, Stamp, SystemClock};
use tacho_rowlog::unpack;

use super::{Progress, SILENCE};
use crate::Place;
use crate::clock::{Calendar, ClockFit};

/// What rank 0 and the threads of its connections share of a run.
#[derive(Debug)]
pub(crate) struct Shared {
    /// Which of several runs of a meeting.
    pub(crate) order: u64,
    ranks: usize,
    hash: String,
    version: String,
    log: Option<String>,
    pub(super) clock: SystemClock,
    state: Mutex<State>,
    pub(super) changed: Condvar,
    over: AtomicBool,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) guests: Vec<Guest>,
    /// The moment of the start, by rank 0's clock and by its calendar.
    pub(super) start: Option<(Stamp, i64)>,
    pub(super) stop: Stop,
    /// Why the meeting cannot take place.
    pub(super) refused: Option<(String, String)>,
}

/// Whether the run is to end, and who asked for it.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Stop {
    /// A rule of the run.
    pub(super) ended: bool,
    /// Somebody, at rank 0.
    pub(super) host: bool,
    /// Somebody, at another.
    pub(super) guest: bool,
}

/// Another rank.
#[derive(Debug, Default)]
pub(super) struct Guest {
    pub(super) machine: String,
    pub(super) joined: bool,
    pub(super) ready: bool,
    heard: Option<Instant>,
    /// On its own clock.
    pub(super) rows: Vec<Observation>,
    pub(super) progress: Progress,
    /// How its clock ran before the run.
    pub(super) before: Option<ClockFit>,
    pub(super) done: Option<Done>,
    pub(super) lost: Option<String>,
    /// Whether it is lost by its silence alone, so that a word brings it back.
    silent: bool,
}

/// What a rank says at its end.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) fit: ClockFit,
    pub(super) ahead: Option<(i64, u64)>,
    pub(super) said: Value,
}

impl Guest {
    pub(super) fn is_over(&self) -> bool {
        self.done.is_some() || self.lost.is_some()
    }

    /// Its rows, on rank 0's clock by what was known before the run. Without that they mean nothing there.
    pub(super) fn take_rows(&mut self) -> Vec<Observation> {
        let Some(fit) = self.before else { return Vec::new() };
        let mut rows = std::mem::take(&mut self.rows);
        rows.iter_mut().for_each(|row| fit.place(row));
        rows
    }

    fn hear(&mut self) {
        self.heard = Some(Instant::now());
        if std::mem::take(&mut self.silent) {
            self.lost = None;
        }
    }
}

impl State {
    pub(super) fn others(&self) -> impl Iterator<Item = &Guest> {
        self.guests.iter().skip(1)
    }

    /// Those of which something is true and that are not over.
    pub(super) fn missing(&mut self, wanted: impl Fn(&Guest) -> bool) -> impl Iterator<Item = (usize, &mut Guest)> {
        self.guests.iter_mut().enumerate().skip(1).filter(move |(_, guest)| wanted(guest) && !guest.is_over())
    }

    /// A rank on a machine that went away without a word is noticed by its silence.
    pub(super) fn notice_silence(&mut self) {
        for guest in self.guests.iter_mut().filter(|guest| guest.ready && !guest.is_over()) {
            if guest.heard.is_some_and(|heard| heard.elapsed() > SILENCE) {
                guest.lost = Some(format!("nothing was heard of it for {} s", SILENCE.as_secs()));
                guest.silent = true;
            }
        }
    }
}

impl Shared {
    pub(crate) fn new(place: &Place, clock: SystemClock, hash: &str, version: &str, log: Option<&str>) -> Shared {
        let guests = (0..place.ranks).map(|_| Guest::default()).collect();
        Shared {
            order: place.order,
            ranks: place.ranks,
            hash: hash.to_owned(),
            version: version.to_owned(),
            log: log.map(str::to_owned),
            clock,
            state: Mutex::new(State { guests, ..State::default() }),
            changed: Condvar::new(),
            over: AtomicBool::new(false),
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The run is over.
    pub(super) fn end(&self) {
        self.over.store(true, Ordering::Release);
        self.changed.notify_all();
    }

    /// A rank's connection is gone.
    pub(crate) fn left(&self, rank: usize, reason: String) {
        if let Some(guest) = self.state().guests.get_mut(rank).filter(|guest| guest.done.is_none()) {
            (guest.lost, guest.silent) = (Some(reason), false);
        }
        self.changed.notify_all();
    }

    /// What a rank is told that has joined.
    pub(crate) fn welcome(&self) -> Dict {
        let mut answer = self.now();
        answer.set("log", self.log.as_deref());
        answer
    }

    pub(crate) fn answer(&self, path: &str, query: &str, body: &[u8], rank: usize) -> Result<Dict, String> {
        match path {
            "/v1/clock" => Ok(self.now()),
            "/v1/ready" => self.ready(rank, &message(body)?),
            "/v1/rows" => self.rows(rank, query, body),
            "/v1/done" => self.done(rank, message(body)?),
            path => Err(format!("there is no {path}")),
        }
    }

    fn now(&self) -> Dict {
        let mut answer = Dict::new();
        answer.set("now", self.clock.now().0);
        answer
    }

    /// Lets a rank in that has the same plan.
    pub(crate) fn join(&self, said: &Value) -> Result<usize, String> {
        let rank = said.get("rank").and_then(Value::as_i64).and_then(|rank| usize::try_from(rank).ok());
        let rank = rank.ok_or("it names no rank")?;
        let machine = printable(said.get("machine").and_then(Value::as_str).unwrap_or(""));
        let mut state = self.state();
        if let Err((reason, grave)) = self.fits(&state, rank, said) {
            if grave {
                state.refused = Some((format!("rank {rank} on {machine}"), reason.clone()));
            }
            self.changed.notify_all();
            return Err(reason);
        }
        state.guests[rank] = Guest { machine, joined: true, ..Guest::default() };
        state.guests[rank].hear();
        self.changed.notify_all();
        Ok(rank)
    }

    /// Why a rank cannot be let in, and whether it shows that the ranks do not agree.
    fn fits(&self, state: &State, rank: usize, said: &Value) -> Result<(), (String, bool)> {
        let text = |name: &str| printable(said.get(name).and_then(Value::as_str).unwrap_or(""));
        let ranks = said.get("ranks").and_then(Value::as_i64).unwrap_or(0);
        if i64::try_from(self.ranks) != Ok(ranks) {
            return Err((format!("it counts {ranks} ranks where rank 0 has {}", self.ranks), true));
        }
        if rank == 0 || rank >= state.guests.len() {
            return Err(("there is no place for it".to_owned(), true));
        }
        if text("version") != self.version {
            return Err((format!("it is tacho {} where rank 0 has {}", text("version"), self.version), true));
        }
        if text("hash") != self.hash {
            let reason =
                "its requests or their times are others than rank 0's: do all ranks see the same files and flags?";
            return Err((reason.to_owned(), true));
        }
        if state.start.is_some() {
            return Err(("it is too late: the run has begun".to_owned(), false));
        }
        match state.guests[rank].joined {
            true => Err(("another process has its rank already".to_owned(), true)),
            false => Ok(()),
        }
    }

    /// Tells the start, once it is known.
    fn ready(&self, rank: usize, said: &Value) -> Result<Dict, String> {
        let mut state = self.state();
        let (start, stop) = (state.start, state.stop);
        let guest = state.guests.get_mut(rank).ok_or("the run is over")?;
        guest.ready = true;
        guest.before = said.get("clock").and_then(ClockFit::from_json);
        guest.hear();
        state.stop.guest |= said.get("stopping") == Some(&Value::Bool(true));
        self.changed.notify_all();
        if self.over.load(Ordering::Acquire) {
            return Err("rank 0 has given the run up".to_owned());
        }
        let mut answer = self.now();
        answer.set("start", start.map(|(Stamp(start), _)| start));
        answer.set("unix_ns", start.map(|(_, unix_ns)| unix_ns));
        answer.set("stop", stop.told());
        Ok(answer)
    }

    /// Takes rows, or none as a sign of life. The query says whether the rank was asked to stop, and how far it is.
    fn rows(&self, rank: usize, query: &str, body: &[u8]) -> Result<Dict, String> {
        let mut rows =
            if body.is_empty() { Vec::new() } else { unpack(body.to_vec()).map_err(|error| error.to_string())? };
        let numbers: Vec<u64> = query.split(',').filter_map(|number| number.parse().ok()).collect();
        let [stopping, progress @ ..] = &numbers[..] else { return Err("it does not say how far it is".to_owned()) };
        let mut answer = self.now();
        let mut state = self.state();
        state.stop.guest |= *stopping != 0;
        answer.set("stop", state.stop.told());
        let guest = state.guests.get_mut(rank).ok_or("the run is over")?;
        guest.hear();
        guest.progress = Progress::try_from(progress).map_err(|_| "it does not say how far it is")?;
        guest.rows.append(&mut rows);
        Ok(answer)
    }

    fn done(&self, rank: usize, said: Value) -> Result<Dict, String> {
        let fit = said.get("clock").and_then(ClockFit::from_json).ok_or("it does not say how its clock ran")?;
        let theirs = said.get("calendar").and_then(Calendar::from_json);
        let ahead = theirs.map(|theirs| Calendar::now(self.clock).ahead(&theirs, &fit));
        if let Some(guest) = self.state().guests.get_mut(rank) {
            guest.hear();
            guest.done = Some(Done { fit, ahead, said });
        }
        self.changed.notify_all();
        Ok(Dict::new())
    }
}

impl Stop {
    /// What others are told.
    fn told(self) -> Option<&'static str> {
        match self {
            Stop { host: true, .. } | Stop { guest: true, .. } => Some("asked"),
            Stop { ended: true, .. } => Some("ended"),
            _ => None,
        }
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
