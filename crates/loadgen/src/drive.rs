//! What a drive is given.

use std::time::Duration;

use tacho_core::{Clock, Counters, Stamp};

use crate::{StopReason, StopSignal, Supply, Timeline};

/// Everything the loop needs besides the target.
pub struct Drive<'a> {
    /// When requests are due.
    pub timeline: &'a Timeline,
    /// At most this many requests under way.
    pub max_concurrency: Option<usize>,
    /// At most this many that wait for their first token.
    pub max_prefills: Option<usize>,
    /// Threads to use; fewer are used when there is less to do.
    pub workers: usize,
    /// Requests that come after the timeline's, if there are any.
    pub more: Option<&'a Supply>,
    /// How long after the beginning requests are sent at most.
    pub until: Option<Duration>,
    /// How long requests under way may go on after somebody asked the run to end.
    pub grace: Duration,
    /// How long they may go on after the run's own end, by time or by a rule.
    pub drain: Duration,
    /// The same where the server did not keep up: what is under way waits behind more than it answers.
    pub hopeless: Duration,
    /// Asked for the moment of the start once all workers are ready; otherwise it is then.
    pub start: Option<&'a (dyn Fn() -> Stamp + Sync)>,
    /// The run's clock.
    pub clock: &'a dyn Clock,
    /// Told when to stop.
    pub stop: &'a StopSignal,
    /// Progress, for whoever watches.
    pub counters: &'a Counters,
}

impl<'a> Drive<'a> {
    /// All requests of a timeline on one worker, without a limit; a stop ends it at once.
    pub fn of(timeline: &'a Timeline, clock: &'a dyn Clock, stop: &'a StopSignal, counters: &'a Counters) -> Self {
        let (grace, drain, hopeless) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
        Drive {
            timeline,
            max_concurrency: None,
            max_prefills: None,
            workers: 1,
            more: None,
            until: None,
            grace,
            drain,
            hopeless,
            start: None,
            clock,
            stop,
            counters,
        }
    }

    /// How long requests under way may go on from here.
    pub(crate) fn patience(&self) -> Duration {
        match self.stop.reason() {
            Some(StopReason::Asked) => self.grace,
            Some(StopReason::Overload) => self.hopeless,
            _ => self.drain,
        }
    }

    /// Why the run ended before its requests did, if it was not asked to.
    pub(crate) fn ended(&self) -> Option<StopReason> {
        self.stop.reason().or(self.until.map(|_| StopReason::Duration))
    }
}

/// The part of a limit that worker `id` of `of` has.
pub(crate) fn share(limit: usize, id: usize, of: usize) -> usize {
    limit / of + usize::from(id < limit % of)
}
