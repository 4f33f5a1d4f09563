//! The requests of a run as they go over the wire. The first ones are written out before it; of those behind them, which
//! may be millions and come while it is in flight, only some are, a little ahead of their turn.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tacho_core::Request;

use super::Prepared;

/// Bytes of requests that are written out ahead of their turn.
const AHEAD: usize = 8 << 20;
/// Parts that stay although all their requests have had their turn: a slower worker may be at them.
const BEHIND: usize = 4;

/// Requests that are kept elsewhere, in parts. More may come at the end.
pub trait Source: Send + Sync + fmt::Debug {
    /// The part that a place is in.
    fn find(&self, place: usize) -> Option<usize>;

    /// Where a part begins, and about how many bytes it has; none where there is no such part.
    fn part(&self, part: usize) -> Option<(usize, usize)>;

    /// Reads a part.
    ///
    /// # Errors
    /// When that is not possible.
    fn read(&self, part: usize) -> io::Result<Vec<Request>>;
}

/// All requests of a run.
#[derive(Debug)]
pub(crate) struct Requests {
    /// Those that are there all the time.
    first: Vec<Prepared>,
    /// Where those behind them are.
    source: Option<Arc<dyn Source>>,
    /// Parts of them that are written out.
    ahead: Mutex<BTreeMap<usize, Arc<Batch>>>,
    /// The latest part that a worker asked for.
    latest: AtomicUsize,
}

/// Some requests that follow each other.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// The index of the first.
    start: usize,
    requests: Vec<Prepared>,
}

impl Batch {
    pub(crate) fn get(&self, index: usize) -> Option<&Prepared> {
        self.requests.get(index.checked_sub(self.start)?)
    }
}

/// Writes out the requests from an index on.
pub(crate) type Write<'w> = &'w dyn Fn(usize, &[Request]) -> io::Result<Vec<Prepared>>;

impl Requests {
    /// The first ones.
    pub(crate) fn new(first: Vec<Prepared>) -> Self {
        Requests { first, source: None, ahead: Mutex::default(), latest: AtomicUsize::new(0) }
    }

    /// Puts those in `source` behind them.
    pub(crate) fn follow(&mut self, source: Arc<dyn Source>) {
        self.source = Some(source);
    }

    /// The request of an index, if it is among the first.
    pub(crate) fn get(&self, index: usize) -> Option<&Prepared> {
        self.first.get(index)
    }

    /// How many are there all the time.
    pub(crate) fn len(&self) -> usize {
        self.first.len()
    }

    /// The part with the request of an index, which is not among the first; written out now, if it is not yet.
    #[cold]
    pub(crate) fn batch(&self, index: usize, write: Write<'_>) -> io::Result<Arc<Batch>> {
        let source = self.source.as_deref().ok_or(io::ErrorKind::NotFound)?;
        let part = source.find(index - self.first.len()).ok_or(io::ErrorKind::NotFound)?;
        self.latest.fetch_max(part, Ordering::Relaxed);
        let there = self.lock().get(&part).cloned();
        there.map_or_else(|| self.load(source, part, write), Ok)
    }

    fn load(&self, source: &dyn Source, part: usize, write: Write<'_>) -> io::Result<Arc<Batch>> {
        let (start, _) = source.part(part).ok_or(io::ErrorKind::NotFound)?;
        let start = self.first.len() + start;
        let batch = Arc::new(Batch { start, requests: write(start, &source.read(part)?)? });
        self.lock().insert(part, batch.clone());
        Ok(batch)
    }

    /// Writes out the parts that come next, and forgets those that have had their turn.
    pub(crate) fn look_ahead(&self, write: Write<'_>) -> io::Result<()> {
        let Some(source) = self.source.as_deref() else { return Ok(()) };
        let window = self.window(source);
        let missing: Vec<usize> = {
            let mut ahead = self.lock();
            ahead.retain(|&part, _| part + BEHIND >= window.start);
            window.filter(|part| !ahead.contains_key(part)).collect()
        };
        missing.into_iter().try_for_each(|part| self.load(source, part, write).map(drop))
    }

    /// The parts that are to be there.
    fn window(&self, source: &dyn Source) -> Range<usize> {
        let start = self.latest.load(Ordering::Relaxed);
        let (mut end, mut bytes) = (start, 0);
        while let Some((_, more)) = source.part(end).filter(|_| bytes < AHEAD) {
            bytes += more;
            end += 1;
        }
        start..end
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<usize, Arc<Batch>>> {
        self.ahead.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backends::Expected;

    /// Parts of ten requests, each its place.
    #[derive(Debug)]
    struct Tens(usize);

    impl Source for Tens {
        fn find(&self, place: usize) -> Option<usize> {
            (place < self.0).then_some(place / 10)
        }

        fn part(&self, part: usize) -> Option<(usize, usize)> {
            (part * 10 < self.0).then_some((part * 10, AHEAD / 4))
        }

        fn read(&self, part: usize) -> io::Result<Vec<Request>> {
            Ok((part * 10..self.0.min(part * 10 + 10)).map(|place| Request::text("", place as u64, 1)).collect())
        }
    }

    fn written(bytes: impl IntoIterator<Item = u8>) -> Vec<Prepared> {
        bytes.into_iter().map(|byte| Prepared { bytes: [byte].into(), expected: Expected::default() }).collect()
    }

    fn write(_: usize, requests: &[Request]) -> io::Result<Vec<Prepared>> {
        Ok(written(requests.iter().map(|request| request.prompt_len as u8)))
    }

    #[test]
    fn requests_are_found_wherever_they_are() {
        let mut requests = Requests::new(written(100..103));
        assert!(requests.get(3).is_none() && requests.batch(3, &write).is_err());
        requests.follow(Arc::new(Tens(95)));
        assert_eq!(requests.get(2).unwrap().bytes[0], 102);
        for place in [0, 9, 10, 94, 3] {
            let batch = requests.batch(3 + place, &write).unwrap();
            assert_eq!(batch.get(3 + place).unwrap().bytes[0] as usize, place);
        }
        assert!(requests.batch(3 + 95, &write).is_err());
    }

    #[test]
    fn only_what_comes_next_is_written_out() {
        let mut requests = Requests::new(Vec::new());
        requests.follow(Arc::new(Tens(200)));
        let parts = |requests: &Requests| requests.lock().keys().copied().collect::<Vec<_>>();
        requests.look_ahead(&write).unwrap();
        assert_eq!(parts(&requests), [0, 1, 2, 3]);
        requests.batch(95, &write).unwrap();
        requests.look_ahead(&write).unwrap();
        assert_eq!(parts(&requests), [9, 10, 11, 12]);
        requests.batch(199, &write).unwrap();
        requests.look_ahead(&write).unwrap();
        assert_eq!(parts(&requests), [19]);
    }
}
