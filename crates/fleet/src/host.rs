//! Rank 0's side of a run: lets the others in, sets the start, and takes their rows.

mod shared;

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use tacho_core::json::Value;
use tacho_core::{Clock, Observation, Stamp, SystemClock};

use crate::clock::ClockFit;
use crate::{Error, Meeting, OnLost, Place};
pub(crate) use shared::Shared;
use shared::{Guest, State};

/// A rank that says nothing for so long is lost; it says something several times a second.
const SILENCE: Duration = Duration::from_secs(10);
/// From the decision to start to the start: several round trips of any network.
const LEAD: Duration = Duration::from_millis(300);
/// How often a wait looks around.
const LOOK: Duration = Duration::from_millis(25);

/// Rank 0's side of a run.
#[derive(Debug)]
pub struct Host {
    shared: Arc<Shared>,
    meeting: Arc<Meeting>,
    patience: Duration,
    on_lost: OnLost,
}

/// What came of one other rank.
#[derive(Debug)]
pub struct Share {
    /// Which.
    pub rank: usize,
    /// Its machine.
    pub machine: String,
    /// The rows that have not been taken before, on rank 0's clock by what was known before the run.
    pub rows: Vec<Observation>,
    /// How its clock ran by what was known before the run.
    pub before: Option<ClockFit>,
    /// How it ran; none when it was lost before it could say.
    pub after: Option<ClockFit>,
    /// By how much its calendar is ahead of rank 0's, and how well that is known, in nanoseconds.
    pub ahead: Option<(i64, u64)>,
    /// What it said at its end.
    pub said: Value,
    /// Why it was lost, if it was.
    pub lost: Option<String>,
}

/// How far the other ranks are: requests finished, failed, tokens, requests under way.
pub type Progress = [u64; 4];

impl Host {
    /// Lets ranks join a run, where they have been told to meet or, if nobody told them yet, where the place says.
    /// `log` is what rank 0's own log is called.
    pub fn open(
        place: &Place,
        clock: SystemClock,
        hash: &str,
        version: &str,
        log: Option<&str>,
    ) -> Result<Host, Error> {
        let meeting = match &place.meeting {
            Some(meeting) => meeting.clone(),
            None => Arc::new(Meeting::open(place)?),
        };
        let shared = Arc::new(Shared::new(place, clock, hash, version, log));
        meeting.host(shared.clone());
        Ok(Host { shared, meeting, patience: place.terms.patience, on_lost: place.terms.on_lost })
    }

    /// Waits until all have come. Who does not in time is lost, and where that ends a run it is an error.
    pub fn wait_for_all(&self, stopped: &dyn Fn() -> bool) -> Result<(), Error> {
        let there = |state: &State| state.others().all(|guest| guest.joined || guest.is_over());
        if self.wait(stopped, there)? {
            return Ok(());
        }
        let seconds = self.patience.as_secs();
        let mut state = self.shared.state();
        let of = state.guests.len();
        let missing: Vec<String> =
            state.missing(|guest| !guest.joined).map(|(rank, _)| format!("rank {rank}")).collect();
        if self.on_lost == OnLost::Stop || missing.len() + 1 == of {
            return Err(Error::Missing { count: missing.len(), of, seconds, missing: missing.join(", ") });
        }
        state
            .missing(|guest| !guest.joined)
            .for_each(|(_, guest)| guest.lost = Some(format!("it did not come within {seconds} s")));
        Ok(())
    }

    /// Waits until all are ready, or lost, and sets the moment of the start, which `unix_ns` tells by the calendar.
    pub fn start(&self, stopped: &dyn Fn() -> bool, unix_ns: &dyn Fn(Stamp) -> i64) -> Stamp {
        let ready = |state: &State| state.others().all(|guest| guest.ready || guest.is_over());
        let all = self.wait(stopped, ready).unwrap_or(false);
        let start = self.shared.clock.now() + LEAD;
        let mut state = self.shared.state();
        if !all {
            let late = state.missing(|guest| !guest.ready);
            late.for_each(|(_, guest)| guest.lost = Some("it was not ready in time".to_owned()));
        }
        state.start = Some((start, unix_ns(start)));
        drop(state);
        self.shared.changed.notify_all();
        start
    }

    /// Tells the others to end their runs, because somebody asked for it or not; tells whether one of them was asked to.
    pub fn exchange_stop(&self, ended: bool, asked: bool) -> bool {
        let mut state = self.shared.state();
        state.stop.ended |= ended;
        state.stop.host |= asked;
        state.stop.guest
    }

    /// Whether the run is to end because a rank is lost.
    pub fn is_given_up(&self) -> bool {
        let mut state = self.shared.state();
        state.notice_silence();
        self.on_lost == OnLost::Stop && state.others().any(|guest| guest.lost.is_some())
    }

    /// The rows that have come since this was last asked, by rank, on rank 0's clock as it was known before the run.
    pub fn fresh(&self) -> Vec<(usize, Vec<Observation>)> {
        let mut state = self.shared.state();
        let taken = state.guests.iter_mut().enumerate().filter(|(_, guest)| !guest.rows.is_empty());
        taken.map(|(rank, guest)| (rank, guest.take_rows())).collect()
    }

    /// How far the others are, together.
    pub fn progress(&self) -> Progress {
        let state = self.shared.state();
        let mut sum = Progress::default();
        for guest in state.others() {
            sum.iter_mut().zip(guest.progress).for_each(|(sum, part)| *sum += part);
            if guest.is_over() {
                // Nothing is under way at a rank that is not there.
                sum[3] -= guest.progress[3];
            }
        }
        sum
    }

    /// Whether all others have said their last word or are lost. Their requests have time limits of their own, and
    /// silence is noticed: this comes true.
    pub fn is_over(&self) -> bool {
        let mut state = self.shared.state();
        state.notice_silence();
        state.others().all(Guest::is_over)
    }

    /// What came of all others; those that have not said their last word are not waited for.
    pub fn finish(self) -> Vec<Share> {
        let mut state = self.shared.state();
        let guests = std::mem::take(&mut state.guests);
        guests.into_iter().enumerate().skip(1).map(|(rank, guest)| share(rank, guest)).collect()
    }

    /// Waits for something; false when it took too long.
    fn wait(&self, stopped: &dyn Fn() -> bool, reached: impl Fn(&State) -> bool) -> Result<bool, Error> {
        let began = Instant::now();
        let mut state = self.shared.state();
        loop {
            if let Some((who, reason)) = state.refused.take() {
                return Err(Error::Mismatch { who, reason });
            }
            state.notice_silence();
            if reached(&state) {
                return Ok(true);
            }
            if stopped() || state.stop.guest {
                return Err(Error::Stopped);
            }
            if began.elapsed() >= self.patience {
                return Ok(false);
            }
            state = self.shared.changed.wait_timeout(state, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.shared.end();
        self.meeting.clear();
    }
}

fn share(rank: usize, mut guest: Guest) -> Share {
    let rows = guest.take_rows();
    let Guest { machine, before, done, lost, .. } = guest;
    let lost = lost.or_else(|| done.is_none().then(|| "it was not waited for".to_owned()));
    let (after, ahead, said) = done.map_or((None, None, Value::Null), |done| (Some(done.fit), done.ahead, done.said));
    Share { rank, machine, rows, before, after, ahead, said, lost }
}
