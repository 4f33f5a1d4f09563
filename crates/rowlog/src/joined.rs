//! All rows of a log on one clock, without the time between segments: each starts where the previous one ended, so that
//! durations add up and requests of different segments never overlap.

use std::collections::BTreeMap;

use tacho_core::{Observation, Timestamp};

use crate::{Error, Origin, Row, Stored, Tail};

/// A segment's part of the joined clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    pub origin: Origin,
    /// That origin on the joined clock.
    pub start: Timestamp,
    /// When its last request ended, on the joined clock.
    pub end: Timestamp,
    /// Rows in it, including those that a later segment replaces.
    pub rows: usize,
    /// Wall-clock time since the end of the previous segment; 0 for the first.
    pub gap_ns: i64,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Joined {
    /// One row per request, in the order of the workload; the last of several.
    pub rows: Vec<Row>,
    pub segments: Vec<Span>,
    /// Rows that a later segment replaced: requests that failed or were in flight when a run was stopped.
    pub replaced: usize,
    /// Bytes lost at truncated ends.
    pub lost: u64,
}

impl Stored {
    pub fn joined(&self) -> Result<Joined, Error> {
        let mut rows: BTreeMap<usize, Row> = BTreeMap::new();
        let joined = self.each(|row| {
            rows.insert(row.observation.index, row);
        })?;
        Ok(Joined { rows: rows.into_values().collect(), ..joined })
    }

    /// Passes each row to `take` in the order of writing, one batch in memory at a time, including rows that a later
    /// one replaces. The result has no rows.
    pub fn each(&self, mut take: impl FnMut(Row)) -> Result<Joined, Error> {
        let mut joined = Joined::default();
        let mut seen = Indices::default();
        for segment in self.segments() {
            let mut span = joined.place(segment.origin());
            let mut batches = segment.batches()?;
            for batch in batches.by_ref() {
                for mut row in batch? {
                    span.take(&mut row.observation);
                    joined.replaced += usize::from(!seen.insert(row.observation.index));
                    take(row);
                }
            }
            joined.segments.push(span);
            if let Some(Tail::Torn { lost, .. }) = batches.tail() {
                joined.lost += lost;
            }
        }
        Ok(joined)
    }
}

/// A bit set of seen indices: neighbors share a word.
#[derive(Default)]
struct Indices {
    words: BTreeMap<usize, u64>,
}

impl Indices {
    /// Inserts an index; returns whether it is new.
    fn insert(&mut self, index: usize) -> bool {
        let (word, bit) = (self.words.entry(index / 64).or_default(), 1 << (index % 64));
        let new = *word & bit == 0;
        *word |= bit;
        new
    }
}

impl Joined {
    /// The span of the next segment.
    fn place(&self, origin: Origin) -> Span {
        match self.segments.last() {
            None => Span { origin, start: origin.timestamp, end: origin.timestamp, rows: 0, gap_ns: 0 },
            Some(before) => {
                let length = before.end.0.saturating_sub(before.start.0) as i64;
                let ended = before.origin.unix_ns.saturating_add(length);
                let gap_ns = origin.unix_ns.saturating_sub(ended);
                Span { origin, start: before.end, end: before.end, rows: 0, gap_ns }
            }
        }
    }
}

impl Span {
    /// Counts a row and moves it to the joined clock.
    fn take(&mut self, row: &mut Observation) {
        self.rows += 1;
        let shift = self.start.0.wrapping_sub(self.origin.timestamp.0);
        if shift != 0 {
            row.shift(|timestamp| Timestamp(timestamp.0.wrapping_add(shift)));
        }
        self.end = self.end.max(row.done);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_is_new_once() {
        let mut seen = Indices::default();
        let order: Vec<usize> = (0..200).rev().chain([1 << 40]).collect();
        assert!(order.iter().all(|index| seen.insert(*index)) && !order.iter().any(|index| seen.insert(*index)));
    }

    #[test]
    fn each_segment_starts_where_the_one_before_ended() {
        let mut joined = Joined::default();
        let mut segment = |timestamp, unix_ns, done: &[u64]| {
            let mut span = joined.place(Origin { timestamp: Timestamp(timestamp), unix_ns });
            let take = |done: &u64| {
                let mut row = Observation {
                    done: Timestamp(*done),
                    ..Observation::dispatched(0, span.origin.timestamp, span.origin.timestamp)
                };
                span.take(&mut row);
                (row.scheduled.0, row.done.0)
            };
            let moved: Vec<_> = done.iter().map(take).collect();
            joined.segments.push(span);
            (moved, span.start.0, span.end.0, span.rows, span.gap_ns)
        };
        assert_eq!(segment(100, 1000, &[150, 130]), (vec![(100, 150), (100, 130)], 100, 150, 2, 0));
        // The first lasted 50 and ended at 1050.
        assert_eq!(segment(7000, 1200, &[7010]), (vec![(150, 160)], 150, 160, 1, 150));
        // The second lasted 10 and ended at 1210.
        assert_eq!(segment(5, 1300, &[]), (vec![], 160, 160, 0, 90));
    }
}
