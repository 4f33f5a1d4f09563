//! The stream of finished rows: workers hand them over in batches, a few times a second, and those who wants them takes
//! them from one thread. A result is computed from the same rows that a log or a live view saw.

use crate::{Observation, Timestamp};

/// Where the finished rows of a run go. All calls come from one thread, which is none of the workers'.
pub trait RowSink {
    /// The origin of scheduled times is known; no row comes before this.
    fn began(&mut self, _origin: Timestamp) {}

    /// Rows that are over, in the order in which one worker finished them.
    fn rows(&mut self, rows: Vec<Observation>);

    /// Nothing came for a while.
    fn idle(&mut self) {}
}

/// Keeps all rows in memory.
#[derive(Debug, Default)]
pub struct Kept {
    rows: Vec<Observation>,
}

impl Kept {
    /// The rows in the order of their requests.
    pub fn into_rows(mut self) -> Vec<Observation> {
        self.rows.sort_unstable_by_key(|row| row.index);
        self.rows
    }
}

impl RowSink for Kept {
    fn rows(&mut self, mut rows: Vec<Observation>) {
        match self.rows.is_empty() {
            true => self.rows = rows,
            false => self.rows.append(&mut rows),
        }
    }
}

/// Receives rows during a run. It must return quickly, and cannot delay the workers.
pub trait Watcher {
    /// As of [`RowSink::began`].
    fn began(&mut self, _origin: Timestamp) {}

    /// As of [`RowSink::rows`].
    fn rows(&mut self, rows: &[Observation]);

    /// As of [`RowSink::idle`].
    fn idle(&mut self) {}
}

/// Shows the rows to each watcher in turn, then hands them on.
pub struct Fan<'a> {
    watchers: Vec<&'a mut dyn Watcher>,
    last: &'a mut dyn RowSink,
}

impl<'a> Fan<'a> {
    /// A fan to `watchers`, and then to `last`.
    pub fn new(watchers: Vec<&'a mut dyn Watcher>, last: &'a mut dyn RowSink) -> Self {
        Fan { watchers, last }
    }

    /// Shows rows to those who watch that are kept elsewhere.
    pub fn show(&mut self, rows: &[Observation]) {
        self.watchers.iter_mut().for_each(|watcher| watcher.rows(rows));
    }
}

impl RowSink for Fan<'_> {
    fn began(&mut self, origin: Timestamp) {
        self.watchers.iter_mut().for_each(|watcher| watcher.began(origin));
        self.last.began(origin);
    }

    fn rows(&mut self, rows: Vec<Observation>) {
        self.watchers.iter_mut().for_each(|watcher| watcher.rows(&rows));
        self.last.rows(rows);
    }

    fn idle(&mut self) {
        self.watchers.iter_mut().for_each(|watcher| watcher.idle());
        self.last.idle();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Seen {
        origin: Timestamp,
        indices: Vec<usize>,
        idle: usize,
    }

    impl Watcher for Seen {
        fn began(&mut self, origin: Timestamp) {
            self.origin = origin;
        }

        fn rows(&mut self, rows: &[Observation]) {
            self.indices.extend(rows.iter().map(|row| row.index));
        }

        fn idle(&mut self) {
            self.idle += 1;
        }
    }

    fn row(index: usize) -> Observation {
        Observation::dispatched(index, Timestamp::ZERO, Timestamp::ZERO)
    }

    #[test]
    fn all_watchers_see_what_is_kept() {
        let (mut one, mut two, mut kept) = (Seen::default(), Seen::default(), Kept::default());
        let mut fan = Fan::new(vec![&mut one, &mut two], &mut kept);
        fan.began(Timestamp(7));
        fan.rows(vec![row(2), row(0)]);
        fan.idle();
        fan.rows(vec![row(1)]);
        for seen in [&one, &two] {
            assert_eq!((seen.origin, seen.idle), (Timestamp(7), 1));
            assert_eq!(seen.indices, [2, 0, 1]);
        }
        let indices: Vec<usize> = kept.into_rows().iter().map(|row| row.index).collect();
        assert_eq!(indices, [0, 1, 2]);
    }
}
