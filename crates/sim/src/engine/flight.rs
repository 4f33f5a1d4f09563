//! Steps under way: one; or two, where the engine prepares the next while one runs.

use std::collections::VecDeque;
use std::time::Duration;

use tacho_core::Stamp;

use super::BatchShape;

/// A step that was composed and whose tokens are not out.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) batch: BatchShape,
    /// Which sequences get a token of it: those that bear this mark.
    pub(super) mark: u8,
    /// When it has been computed.
    done: Stamp,
}

/// What a step takes: to prepare it, to compute it, and at least from prepared to done.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Takes {
    pub(super) prepare: Duration,
    pub(super) compute: Duration,
    pub(super) drain: Duration,
}

/// From one look of the engine at its queue to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Turn {
    pub(super) ends: Stamp,
    /// Whether the tokens of the oldest step are out then.
    pub(super) lands: bool,
}

/// The steps under way, the oldest first.
#[derive(Debug)]
pub(super) struct Flights {
    /// Whether one is prepared while another runs.
    ahead: bool,
    air: VecDeque<Flight>,
    mark: u8,
}

impl Flights {
    pub(super) fn new(ahead: bool) -> Self {
        Flights { ahead, air: VecDeque::with_capacity(2), mark: 1 }
    }

    /// The mark of the step that comes next. Two are enough: no more are under way at once.
    pub(super) fn mark(&self) -> u8 {
        self.mark
    }

    /// Begins a step at `now`. Who prepares ahead looks at the tokens of one step when the next is prepared, and from rest
    /// prepares two before it looks at any.
    pub(super) fn launch(&mut self, batch: BatchShape, takes: Takes, now: Stamp) -> Turn {
        let prepared = now + takes.prepare;
        let before = self.air.back().map(|flight| flight.done);
        let free = before.unwrap_or(now).max(now);
        let done = (free + takes.compute).max(prepared + takes.drain);
        self.air.push_back(Flight { batch, mark: self.mark, done });
        self.mark ^= 0b11;
        match before {
            _ if !self.ahead => Turn { ends: done, lands: true },
            None => Turn { ends: prepared, lands: false },
            Some(before) => Turn { ends: before.max(prepared), lands: true },
        }
    }

    /// What is in the newest of them.
    pub(super) fn last(&self) -> Option<&BatchShape> {
        self.air.back().map(|flight| &flight.batch)
    }

    /// The turn in which nothing could be composed: it lasts until the step under way is done, if one is.
    pub(super) fn wait(&self) -> Option<Turn> {
        self.air.front().map(|flight| Turn { ends: flight.done, lands: true })
    }

    /// The oldest step, whose tokens are out.
    pub(super) fn land(&mut self) -> Option<Flight> {
        self.air.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn takes(prepare: u64, compute: u64, drain: u64) -> Takes {
        let [prepare, compute, drain] = [prepare, compute, drain].map(Duration::from_millis);
        Takes { prepare, compute, drain }
    }

    fn ms(at: u64) -> Stamp {
        Stamp(at * 1_000_000)
    }

    #[test]
    fn two_are_prepared_from_rest_and_then_one_for_each_that_is_out() {
        let mut flights = Flights::new(true);
        let mut launch = |takes, now| flights.launch(BatchShape::default(), takes, ms(now));
        // Done at 32: prepared at 30, and two to drain.
        assert_eq!(launch(takes(30, 12, 2), 0), Turn { ends: ms(30), lands: false });
        // Prepared at once and done at 44, when the first is through.
        assert_eq!(launch(takes(0, 12, 2), 30), Turn { ends: ms(32), lands: true });
        flights.land().unwrap();
        assert_eq!(flights.wait(), Some(Turn { ends: ms(44), lands: true }));
        // The second is done at 44 but looked at when the third is prepared.
        let third = flights.launch(BatchShape::default(), takes(30, 12, 2), ms(32));
        assert_eq!(third, Turn { ends: ms(62), lands: true });
        let marks = [flights.land().unwrap().mark, flights.land().unwrap().mark, flights.mark()];
        assert_eq!((marks, flights.wait()), ([2, 1, 2], None));
    }

    #[test]
    fn one_at_a_time_ends_when_it_is_done() {
        let mut flights = Flights::new(false);
        let turn = flights.launch(BatchShape::default(), takes(0, 12, 0), ms(5));
        assert_eq!(turn, Turn { ends: ms(17), lands: true });
    }
}
