//! The requests of a run as they go over the wire. More may be added while it is under way; those that are there never
//! move, so that workers read them without a lock.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::Prepared;

/// More additions than a run makes.
const MOST: usize = 4096;

/// All requests so far.
#[derive(Debug)]
pub(super) struct Requests {
    batches: Box<[OnceLock<Batch>]>,
    /// Batches that are there.
    count: AtomicUsize,
}

#[derive(Debug)]
struct Batch {
    /// The index of its first request.
    start: usize,
    requests: Vec<Prepared>,
}

impl Requests {
    /// The first ones.
    pub(super) fn new(requests: Vec<Prepared>) -> Self {
        let all = Requests { batches: (0..MOST).map(|_| OnceLock::new()).collect(), count: AtomicUsize::new(0) };
        all.add(requests);
        all
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        let last = self.count.load(Ordering::Acquire).checked_sub(1).and_then(|at| self.batches[at].get());
        last.map_or(0, |batch| batch.start + batch.requests.len())
    }

    /// Adds requests behind those that are there; false when there is no room left. One thread adds.
    pub(super) fn add(&self, requests: Vec<Prepared>) -> bool {
        let (at, start) = (self.count.load(Ordering::Acquire), self.len());
        let Some(place) = self.batches.get(at) else { return false };
        let added = place.set(Batch { start, requests }).is_ok();
        self.count.store(at + 1, Ordering::Release);
        added
    }

    /// The request of an index that is there.
    pub(super) fn get(&self, index: usize) -> &Prepared {
        let first = self.batches[0].get().map_or(&[][..], |batch| &batch.requests);
        first.get(index).unwrap_or_else(|| self.find(index))
    }

    #[cold]
    fn find(&self, index: usize) -> &Prepared {
        let there = &self.batches[..self.count.load(Ordering::Acquire)];
        let behind = |batch: &OnceLock<Batch>| batch.get().is_some_and(|batch| batch.start <= index);
        let batch = there[there.partition_point(behind) - 1].get().expect("counted batches are there");
        &batch.requests[index - batch.start]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backends::Expected;

    fn some(range: std::ops::Range<u8>) -> Vec<Prepared> {
        range.map(|byte| Prepared { bytes: [byte].into(), expected: Expected::default() }).collect()
    }

    #[test]
    fn requests_are_found_whenever_they_came() {
        let requests = Requests::new(some(0..3));
        assert!(requests.add(some(3..4)) && requests.add(some(4..9)));
        assert_eq!(requests.len(), 9);
        for index in 0..9 {
            assert_eq!(requests.get(index).bytes[0] as usize, index);
        }
    }
}
