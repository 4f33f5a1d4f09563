//! The settings of one run of the event loop.

use std::time::Duration;

use tacho_core::{Clock, Counters, Timestamp};

use crate::{StopReason, StopSignal, Supply, Timeline};

/// Everything the event loop needs except the target.
pub struct Drive<'a> {
    /// When requests are scheduled.
    pub timeline: &'a Timeline,
    /// The limit on requests in flight.
    pub max_concurrency: Option<usize>,
    /// Changes of the concurrency limit, which never exceeds `max_concurrency`: seconds after the start, and the limit
    /// from then on.
    pub limits: &'a [(f64, usize)],
    /// The limit on requests that wait for their first token.
    pub max_prefills: Option<usize>,
    /// Number of worker threads; fewer are used if there is less to do.
    pub workers: usize,
    /// Requests that follow those of the timeline.
    pub supply: Option<&'a Supply>,
    /// Requests are sent for at most this long.
    pub duration: Option<Duration>,
    /// How long requests in flight may continue after an interrupt.
    pub grace: Duration,
    /// How long requests in flight may continue after the end of the run, by time or by a stop rule.
    pub drain_timeout: Duration,
    /// The drain timeout after a stop because of overload: requests in flight then wait behind a growing queue.
    pub overload_drain_timeout: Duration,
    /// Called for the start time once all workers are ready; without it the run starts at once.
    pub start: Option<&'a (dyn Fn() -> Timestamp + Sync)>,
    /// The run's clock.
    pub clock: &'a dyn Clock,
    /// Stop requests from outside.
    pub stop: &'a StopSignal,
    /// The progress counters.
    pub counters: &'a Counters,
}

impl<'a> Drive<'a> {
    /// A run of all requests of a timeline on one worker, without limits; a stop request ends it at once.
    pub fn of(timeline: &'a Timeline, clock: &'a dyn Clock, stop: &'a StopSignal, counters: &'a Counters) -> Self {
        Drive {
            timeline,
            max_concurrency: None,
            limits: &[],
            max_prefills: None,
            workers: 1,
            supply: None,
            duration: None,
            grace: Duration::ZERO,
            drain_timeout: Duration::ZERO,
            overload_drain_timeout: Duration::ZERO,
            start: None,
            clock,
            stop,
            counters,
        }
    }

    pub(crate) fn current_drain_timeout(&self) -> Duration {
        match self.stop.reason() {
            Some(StopReason::Interrupted) => self.grace,
            Some(StopReason::Overload) => self.overload_drain_timeout,
            _ => self.drain_timeout,
        }
    }
}

/// The part of a limit that worker `id` of `of` gets.
pub(crate) fn share(limit: usize, id: usize, of: usize) -> usize {
    limit / of + usize::from(id < limit % of)
}
