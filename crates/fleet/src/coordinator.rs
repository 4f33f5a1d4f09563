//! Rank 0's side of a run: admits the workers, sets the start, and collects their rows.

mod state;

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use tacho_core::{Clock, Observation, SystemClock, Timestamp, json::Value};

use crate::{Error, Membership, OnLost, Rendezvous, clock::ClockFit};
pub(crate) use state::Shared;
use state::{Peer, State};

/// Time without a message after which a rank is lost; ranks send several messages a second.
const HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(10);
/// Time from the decision to start to the start: several round trips of any network.
const START_LEAD: Duration = Duration::from_millis(300);
/// How long a rank that was refused may try again. Without a token any process may claim to be that rank.
const REFUSAL_GRACE: Duration = Duration::from_secs(2);
/// How long rank 0 waits until the others know that it has given the run up.
const LAST_WORD_TIMEOUT: Duration = Duration::from_secs(1);
/// Time between two checks of a wait.
const POLL: Duration = Duration::from_millis(25);

/// Rank 0's side of a run.
#[derive(Debug)]
pub struct Coordinator {
    shared: Arc<Shared>,
    rendezvous: Arc<Rendezvous>,
    timeout: Duration,
    on_lost: OnLost,
}

#[derive(Debug)]
pub struct RankReport {
    pub rank: usize,
    pub machine: String,
    pub rows: usize,
    /// Requests that it had sent when it last reported its progress, finished or not.
    pub started: u64,
    pub log: Option<String>,
    /// Its clock, with an error bound that covers every conversion; `None` if it never reported it.
    pub clock: Option<ClockFit>,
    /// The offset of its wall clock from rank 0's, and the error bound, in nanoseconds.
    pub wall_offset: Option<(i64, u64)>,
    pub closing: Value,
    pub lost: Option<String>,
}

/// Progress of other ranks: requests finished, failed, tokens, requests in flight.
pub type Progress = [u64; 4];

impl Coordinator {
    /// Opens a run for other ranks, on the listener of the membership or on a new one. `log` is the name of rank 0's
    /// log.
    pub fn open(
        member: &Membership,
        clock: SystemClock,
        hash: &str,
        version: &str,
        log: Option<&str>,
    ) -> Result<Coordinator, Error> {
        let rendezvous = match &member.rendezvous {
            Some(rendezvous) => rendezvous.clone(),
            None => Arc::new(Rendezvous::open(member)?),
        };
        let shared = Arc::new(Shared::new(member, clock, hash, version, log));
        rendezvous.set_run(shared.clone());
        Ok(Coordinator { shared, rendezvous, timeout: member.policy.timeout, on_lost: member.policy.on_lost })
    }

    /// Waits until all ranks have joined. A rank that does not join in time is lost, which may be an error. Messages
    /// for the user go to `notice`.
    pub fn wait_for_all(&self, stopped: &dyn Fn() -> bool, notice: &dyn Fn(String)) -> Result<(), Error> {
        let joined = self.all_joined(stopped, notice);
        joined.inspect_err(|error| self.shared.give_up(&format!("it has given the run up: {error}")))
    }

    fn all_joined(&self, stopped: &dyn Fn() -> bool, notice: &dyn Fn(String)) -> Result<(), Error> {
        let grace = if self.shared.authenticates { Duration::ZERO } else { REFUSAL_GRACE };
        let settled = |peer: &Peer| peer.joined || peer.is_over() || peer.refused_since(grace);
        let joined = self.wait(stopped, notice, |state| state.others().all(settled))?;
        let seconds = self.timeout.as_secs();
        let mut state = self.shared.state.lock();
        if let Some((who, reason)) = state.mismatch() {
            return Err(Error::Mismatch { who, reason });
        }
        if joined {
            return Ok(());
        }
        let of = state.peers.len();
        let missing: Vec<String> = state.missing(|peer| !peer.joined).map(|(rank, _)| format!("rank {rank}")).collect();
        let rejected = self.rendezvous.rejected().map_or_else(String::new, |rejected| format!("; {rejected}"));
        if self.on_lost == OnLost::Stop || missing.len() + 1 == of {
            let names = missing.join(", ") + &rejected;
            return Err(Error::MissingRanks { count: missing.len(), of, seconds, missing: names });
        }
        state
            .missing(|peer| !peer.joined)
            .for_each(|(_, peer)| peer.lost = Some(format!("it did not join within {seconds} s{rejected}")));
        Ok(())
    }

    /// Waits until all ranks are ready or lost, and sets the start; `unix_ns` converts it to the wall clock.
    pub fn start(&self, stopped: &dyn Fn() -> bool, unix_ns: &dyn Fn(Timestamp) -> i64) -> Timestamp {
        let ready = |state: &State| state.others().all(|peer| peer.ready || peer.is_over());
        let all = self.wait(stopped, &|_| {}, ready).unwrap_or(false);
        let start = self.shared.clock.now() + START_LEAD;
        let mut state = self.shared.state.lock();
        if !all {
            let late = state.missing(|peer| !peer.ready);
            late.for_each(|(_, peer)| peer.lost = Some("it was not ready in time".to_owned()));
        }
        state.start = Some((start, unix_ns(start)));
        drop(state);
        self.shared.changed.notify_all();
        start
    }

    /// Forwards the end of the run to the others; returns whether one of them was interrupted.
    pub fn exchange_stop(&self, ended: bool, interrupted: bool) -> bool {
        let mut state = self.shared.state.lock();
        state.stop.ended |= ended;
        state.stop.coordinator |= interrupted;
        state.stop.worker
    }

    pub fn is_given_up(&self) -> bool {
        let mut state = self.shared.state.lock();
        state.check_heartbeats();
        self.on_lost == OnLost::Stop && state.others().any(|peer| peer.lost.is_some())
    }

    /// The rows that have arrived since the last call, by rank, on rank 0's clock.
    pub fn fresh(&self) -> Vec<(usize, Vec<Observation>)> {
        let mut state = self.shared.state.lock();
        let taken = state.peers.iter_mut().enumerate().filter(|(_, peer)| !peer.rows.is_empty());
        taken.map(|(rank, peer)| (rank, std::mem::take(&mut peer.rows))).collect()
    }

    /// The progress of all other ranks together.
    pub fn progress(&self) -> Progress {
        let state = self.shared.state.lock();
        let mut sum = Progress::default();
        for peer in state.others() {
            sum.iter_mut().zip(peer.progress).for_each(|(sum, part)| *sum = sum.saturating_add(part));
            if peer.is_over() {
                // A rank that has left has nothing in flight.
                sum[3] = sum[3].saturating_sub(peer.progress[3]);
            }
        }
        sum
    }

    /// Whether all other ranks are done or lost. This eventually becomes true: requests have timeouts, and silent ranks
    /// are detected.
    pub fn is_over(&self) -> bool {
        let mut state = self.shared.state.lock();
        state.check_heartbeats();
        state.others().all(Peer::is_over)
    }

    /// The results of all other ranks; those that are not done are lost. Call [`Coordinator::fresh`] first.
    pub fn finish(self) -> Vec<RankReport> {
        self.shared.give_up("the run is over, and this rank was not done");
        let mut state = self.shared.state.lock();
        let peers = std::mem::take(&mut state.peers);
        peers.into_iter().enumerate().skip(1).map(|(rank, peer)| peer.report(rank)).collect()
    }

    /// Waits for a condition; returns `false` on a timeout.
    fn wait(
        &self,
        stopped: &dyn Fn() -> bool,
        notice: &dyn Fn(String),
        reached: impl Fn(&State) -> bool,
    ) -> Result<bool, Error> {
        let began = Instant::now();
        let mut state = self.shared.state.lock();
        loop {
            state.notices.drain(..).chain(self.rendezvous.rejections()).for_each(notice);
            state.check_heartbeats();
            if reached(&state) {
                return Ok(true);
            }
            if stopped() || state.stop.worker {
                state.stop.coordinator = true;
                return Err(Error::Stopped);
            }
            if began.elapsed() >= self.timeout {
                return Ok(false);
            }
            state = self.shared.changed.wait_timeout(state, POLL).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Drop for Coordinator {
    fn drop(&mut self) {
        self.shared.give_up("it has given the run up");
        self.rendezvous.clear_run();
        let began = Instant::now();
        while self.shared.is_unaware() && began.elapsed() < LAST_WORD_TIMEOUT {
            std::thread::sleep(POLL);
        }
    }
}
