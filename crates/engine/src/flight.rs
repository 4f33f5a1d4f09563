//! Steps in flight: one, or two with asynchronous scheduling.

use std::{collections::VecDeque, time::Duration};

use tacho_core::Timestamp;

use crate::BatchShape;

/// A scheduled step whose tokens are not out yet.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) batch: BatchShape,
    /// Marks the sequences that get a token from this step.
    pub(super) mark: u8,
    /// When its computation ends.
    done: Timestamp,
}

/// Durations of a step: host-side scheduling, computation, and the minimum from scheduled to done.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Takes {
    pub(super) schedule: Duration,
    pub(super) compute: Duration,
    pub(super) drain: Duration,
}

/// One iteration of the scheduler loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Turn {
    pub(super) ends: Timestamp,
    /// Whether the tokens of the oldest step are out at its end.
    pub(super) lands: bool,
}

#[derive(Debug)]
pub(super) struct Flights {
    asynchronous: bool,
    steps: VecDeque<Flight>,
    mark: u8,
}

impl Flights {
    pub(super) fn new(asynchronous: bool) -> Self {
        Flights { asynchronous, steps: VecDeque::with_capacity(2), mark: 1 }
    }

    /// The mark of the next step. Two alternate: no more than two steps are in flight.
    pub(super) fn mark(&self) -> u8 {
        self.mark
    }

    /// Starts a step at `now`. With asynchronous scheduling the tokens of a step are read after the next one is scheduled,
    /// and an idle engine schedules two steps before it reads any.
    pub(super) fn launch(&mut self, batch: BatchShape, takes: Takes, now: Timestamp) -> Turn {
        let scheduled = now + takes.schedule;
        let before = self.steps.back().map(|flight| flight.done);
        let free = before.unwrap_or(now).max(now);
        let done = (free + takes.compute).max(scheduled + takes.drain);
        self.steps.push_back(Flight { batch, mark: self.mark, done });
        self.mark ^= 0b11;
        match before {
            _ if !self.asynchronous => Turn { ends: done, lands: true },
            None => Turn { ends: scheduled, lands: false },
            Some(before) => Turn { ends: before.max(scheduled), lands: true },
        }
    }

    pub(super) fn last(&self) -> Option<&BatchShape> {
        self.steps.back().map(|flight| &flight.batch)
    }

    /// An iteration with nothing to schedule: it lasts until the oldest step is done.
    pub(super) fn wait(&self) -> Option<Turn> {
        self.steps.front().map(|flight| Turn { ends: flight.done, lands: true })
    }

    pub(super) fn land(&mut self) -> Option<Flight> {
        self.steps.pop_front()
    }
}
