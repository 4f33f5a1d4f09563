//! Rank 0: listens, lets the others in, sets the start, and takes their rows.

mod serve;

use std::net::{TcpListener, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tacho_core::json::Value;
use tacho_core::{Clock, Observation, Secret, Stamp, SystemClock};

use crate::clock::ClockFit;
use crate::{Error, Place};

/// How long ranks may take to come, once the first is there: models are looked up and datasets read before.
const PATIENCE: Duration = Duration::from_secs(300);
/// How long they may take to be ready after that, while connections are opened and the server is tried.
const READINESS: Duration = Duration::from_secs(600);
/// A rank that says nothing for so long is lost; it says something several times a second.
const SILENCE: Duration = Duration::from_secs(10);
/// From the decision to start to the start: several round trips of any network.
const LEAD: Duration = Duration::from_millis(300);
/// How often a wait looks around.
const LOOK: Duration = Duration::from_millis(50);

/// Rank 0's side of the meeting.
pub struct Host {
    shared: Arc<Shared>,
}

/// What rank 0 knows of the others.
struct Shared {
    ranks: usize,
    hash: String,
    version: String,
    token: Secret,
    clock: SystemClock,
    state: Mutex<State>,
    changed: Condvar,
    over: AtomicBool,
}

#[derive(Default)]
struct State {
    guests: Vec<Guest>,
    start: Option<Stamp>,
    stop: Stop,
    /// Why the meeting cannot take place.
    refused: Option<(String, String)>,
}

/// Whether the run is to end, and whether everybody knows.
#[derive(Debug, Default, Clone, Copy)]
struct Stop {
    host: bool,
    guest: bool,
}

/// Another rank.
#[derive(Default)]
struct Guest {
    machine: String,
    joined: bool,
    ready: bool,
    heard: Option<Instant>,
    rows: Vec<Observation>,
    /// How its clock ran when it was last heard of.
    fit: Option<ClockFit>,
    done: Option<(ClockFit, Value)>,
    lost: Option<String>,
}

impl Guest {
    fn is_over(&self) -> bool {
        self.done.is_some() || self.lost.is_some()
    }
}

/// What came of one other rank.
#[derive(Debug)]
pub struct Share {
    /// Which.
    pub rank: usize,
    /// Its machine.
    pub machine: String,
    /// Its rows, on rank 0's clock as far as that is known.
    pub rows: Vec<Observation>,
    /// How its clock ran; none when it was lost before it could say.
    pub clock: Option<ClockFit>,
    /// What it said at its end.
    pub said: Value,
    /// Why it was lost, if it was.
    pub lost: Option<String>,
}

/// What came of all other ranks.
pub type Gathered = Vec<Share>;

impl Host {
    /// Listens where the ranks are to meet.
    pub fn listen(place: &Place, clock: SystemClock, hash: &str, version: &str) -> Result<Host, Error> {
        let address = format!("{}:{}", place.host, place.port);
        let failed = |source| Error::Listen { address: address.clone(), source };
        let resolved: Vec<_> = (place.host.as_str(), place.port).to_socket_addrs().map_err(failed)?.collect();
        // The name may be one of a service in front of this machine: then all its addresses are listened on.
        let listener = TcpListener::bind(&resolved[..])
            .or_else(|error| match place.token.is_empty() {
                true => Err(error),
                false => TcpListener::bind(("0.0.0.0", place.port)),
            })
            .map_err(failed)?;
        let guests = (0..place.ranks).map(|_| Guest::default()).collect();
        let shared = Arc::new(Shared {
            ranks: place.ranks,
            hash: hash.to_owned(),
            version: version.to_owned(),
            token: place.token.clone(),
            clock,
            state: Mutex::new(State { guests, ..State::default() }),
            changed: Condvar::new(),
            over: AtomicBool::new(false),
        });
        serve::start(listener, shared.clone()).map_err(failed)?;
        Ok(Host { shared })
    }

    /// Waits until all have come.
    pub fn wait_for_all(&self, stopped: &dyn Fn() -> bool) -> Result<(), Error> {
        let joined = |state: &State| state.guests[1..].iter().all(|guest| guest.joined);
        if self.wait(PATIENCE, stopped, joined)? {
            return Ok(());
        }
        let missing = self.missing(|guest| !guest.joined);
        Err(Error::Missing {
            count: missing.len(),
            of: self.shared.ranks,
            seconds: PATIENCE.as_secs(),
            missing: missing.join(", "),
        })
    }

    /// Waits until all are ready, or lost, and sets the moment of the start.
    pub fn start(&self, stopped: &dyn Fn() -> bool) -> Stamp {
        let ready = |state: &State| state.guests[1..].iter().all(|guest| guest.ready || guest.is_over());
        let all = self.wait(READINESS, stopped, ready).unwrap_or(false);
        let start = self.shared.clock.now() + LEAD;
        let mut state = self.shared.state();
        if !all {
            let late = state.guests[1..].iter_mut().filter(|guest| !guest.ready && !guest.is_over());
            late.for_each(|guest| guest.lost = Some("it was not ready in time".to_owned()));
        }
        state.start = Some(start);
        drop(state);
        self.shared.changed.notify_all();
        start
    }

    /// Tells the others to end their runs; tells whether one of them was asked to.
    pub fn exchange_stop(&self, ours: bool) -> bool {
        let mut state = self.shared.state();
        state.stop.host |= ours;
        state.stop.guest
    }

    /// Waits for the last rows of all that are not lost, and hands over what there is. Their requests have time limits
    /// of their own, and silence is noticed: this ends. `stop` tells whether runs are to end, and whether at once.
    pub fn gather(&self, stop: &dyn Fn() -> (bool, bool)) -> Gathered {
        let mut state = self.shared.state();
        loop {
            let (asked, at_once) = stop();
            state.stop.host |= asked;
            notice_silence(&mut state);
            if at_once || state.guests[1..].iter().all(Guest::is_over) {
                break;
            }
            state = self.shared.changed.wait_timeout(state, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
        self.shared.over.store(true, Ordering::Release);
        let guests = std::mem::take(&mut state.guests);
        guests.into_iter().enumerate().skip(1).map(|(rank, guest)| share(rank, guest)).collect()
    }

    /// Waits for something; false when it took too long.
    fn wait(
        &self,
        limit: Duration,
        stopped: &dyn Fn() -> bool,
        reached: impl Fn(&State) -> bool,
    ) -> Result<bool, Error> {
        let began = Instant::now();
        let mut state = self.shared.state();
        loop {
            if let Some((who, reason)) = state.refused.take() {
                return Err(Error::Mismatch { who, reason });
            }
            notice_silence(&mut state);
            if reached(&state) {
                return Ok(true);
            }
            if stopped() {
                return Err(Error::Stopped);
            }
            if began.elapsed() >= limit {
                return Ok(false);
            }
            state = self.shared.changed.wait_timeout(state, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn missing(&self, wanted: impl Fn(&Guest) -> bool) -> Vec<String> {
        let state = self.shared.state();
        (1..self.shared.ranks).filter(|&rank| wanted(&state.guests[rank])).map(|rank| format!("rank {rank}")).collect()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Release);
        self.shared.changed.notify_all();
    }
}

/// A rank on a machine that went away without a word is noticed by its silence.
fn notice_silence(state: &mut State) {
    let started = state.start.is_some();
    for guest in state.guests.iter_mut().filter(|guest| started && guest.joined && !guest.is_over()) {
        if guest.heard.is_some_and(|heard| heard.elapsed() > SILENCE) {
            guest.lost = Some(format!("nothing was heard of it for {} s", SILENCE.as_secs()));
        }
    }
}

fn share(rank: usize, guest: Guest) -> Share {
    let Guest { machine, mut rows, fit, done, lost, .. } = guest;
    let lost = lost.or_else(|| done.is_none().then(|| "it was not waited for".to_owned()));
    if let Some(fit) = fit.filter(|_| done.is_none()) {
        rows.iter_mut().for_each(|row| row.shift(|stamp| fit.to_host(stamp)));
    }
    let (clock, said) = done.map_or((fit, Value::Null), |(clock, said)| (Some(clock), said));
    Share { rank, machine, rows, clock, said, lost }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
