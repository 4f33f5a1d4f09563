//! When each of many sources has its next event, with the earliest at hand.

use std::collections::BTreeSet;

use tacho_core::Timestamp;

/// The next event of each source, by time.
#[derive(Debug)]
pub(super) struct Agenda {
    due: Vec<Option<Timestamp>>,
    order: BTreeSet<(Timestamp, usize)>,
}

impl Agenda {
    pub(super) fn new(sources: usize) -> Self {
        Agenda { due: vec![None; sources], order: BTreeSet::new() }
    }

    /// Sets or removes the next event of a source.
    pub(super) fn set(&mut self, source: usize, at: Option<Timestamp>) {
        let before = std::mem::replace(&mut self.due[source], at);
        if before != at {
            before.inspect(|before| _ = self.order.remove(&(*before, source)));
            at.inspect(|at| _ = self.order.insert((*at, source)));
        }
    }

    pub(super) fn next(&self) -> Option<Timestamp> {
        self.order.first().map(|(at, _)| *at)
    }

    /// Removes the events up to `now` and returns their sources in ascending order.
    pub(super) fn take_until(&mut self, now: Timestamp) -> Vec<usize> {
        let mut sources = Vec::new();
        while let Some((at, source)) = self.order.first().copied().filter(|(at, _)| *at <= now) {
            self.order.remove(&(at, source));
            self.due[source] = None;
            sources.push(source);
        }
        sources.sort_unstable();
        sources
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_event_comes_first_and_a_source_has_one() {
        let mut agenda = Agenda::new(3);
        assert_eq!(agenda.next(), None);
        for (source, at) in [(2, 30), (0, 20), (1, 20), (2, 10), (0, 40)] {
            agenda.set(source, Some(Timestamp(at)));
        }
        assert_eq!(agenda.next(), Some(Timestamp(10)));
        assert_eq!(agenda.take_until(Timestamp(20)), [1, 2]);
        assert_eq!(agenda.next(), Some(Timestamp(40)));
        agenda.set(0, None);
        assert_eq!((agenda.next(), agenda.take_until(Timestamp::NEVER)), (None, vec![]));
    }
}
