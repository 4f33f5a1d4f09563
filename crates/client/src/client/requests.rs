//! The encoded requests of a run. The first ones are encoded before the run. Spilled requests, possibly millions and
//! still growing, are encoded shortly before they are needed.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::{collections::BTreeMap, io, ops::Range, sync::Arc};

use tacho_core::{Mutex, Request, SpillList};

use super::Prepared;

/// Bytes of requests that are encoded ahead of time.
const AHEAD: usize = 8 << 20;
/// Used chunks that stay in memory because a slower worker may need them.
const BEHIND: usize = 4;

#[derive(Debug)]
pub(crate) struct Requests {
    /// The requests that are always in memory.
    first: Vec<Prepared>,
    spilled: Option<Arc<SpillList<Request>>>,
    /// The encoded chunks of the spilled requests.
    ahead: Mutex<BTreeMap<usize, Arc<Batch>>>,
    /// The latest chunk that a worker requested.
    latest: AtomicUsize,
}

#[derive(Debug, Default)]
pub(crate) struct Batch {
    start: usize,
    requests: Vec<Prepared>,
}

impl Batch {
    pub(crate) fn get(&self, index: usize) -> Option<&Prepared> {
        self.requests.get(index.checked_sub(self.start)?)
    }
}

/// Encodes requests, numbered from an index on.
pub(crate) type Write<'w> = &'w dyn Fn(usize, &[Request]) -> io::Result<Vec<Prepared>>;

impl Requests {
    pub(crate) fn new(first: Vec<Prepared>) -> Self {
        Requests { first, spilled: None, ahead: Mutex::default(), latest: AtomicUsize::new(0) }
    }

    /// Adds `spilled` after the first requests.
    pub(crate) fn follow(&mut self, spilled: Arc<SpillList<Request>>) {
        self.spilled = Some(spilled);
    }

    /// The request with this index, if it is among the first.
    pub(crate) fn get(&self, index: usize) -> Option<&Prepared> {
        self.first.get(index)
    }

    pub(crate) fn len(&self) -> usize {
        self.first.len()
    }

    /// The chunk that contains a spilled request; encodes it if necessary.
    #[cold]
    pub(crate) fn batch(&self, index: usize, write: Write<'_>) -> io::Result<Arc<Batch>> {
        let spilled = self.spilled.as_deref().ok_or(io::ErrorKind::NotFound)?;
        let chunk = spilled.find(index - self.first.len()).ok_or(io::ErrorKind::NotFound)?;
        self.latest.fetch_max(chunk, Ordering::Relaxed);
        let there = self.ahead.lock().get(&chunk).cloned();
        there.map_or_else(|| self.load(spilled, chunk, write), Ok)
    }

    fn load(&self, spilled: &SpillList<Request>, chunk: usize, write: Write<'_>) -> io::Result<Arc<Batch>> {
        let (start, _) = spilled.chunk(chunk).ok_or(io::ErrorKind::NotFound)?;
        let start = self.first.len() + start;
        let batch = Arc::new(Batch { start, requests: write(start, &spilled.read(chunk)?)? });
        self.ahead.lock().insert(chunk, batch.clone());
        Ok(batch)
    }

    /// Encodes the next chunks and drops used ones.
    pub(crate) fn encode_ahead(&self, write: Write<'_>) -> io::Result<()> {
        let Some(spilled) = self.spilled.as_deref() else { return Ok(()) };
        let window = self.window(spilled);
        let missing: Vec<usize> = {
            let mut ahead = self.ahead.lock();
            ahead.retain(|&chunk, _| chunk + BEHIND >= window.start);
            window.filter(|chunk| !ahead.contains_key(chunk)).collect()
        };
        missing.into_iter().try_for_each(|chunk| self.load(spilled, chunk, write).map(drop))
    }

    /// The chunks that should be encoded.
    fn window(&self, spilled: &SpillList<Request>) -> Range<usize> {
        let start = self.latest.load(Ordering::Relaxed);
        let (mut end, mut bytes) = (start, 0);
        while let Some((_, more)) = spilled.chunk(end).filter(|_| bytes < AHEAD) {
            bytes += more;
            end += 1;
        }
        start..end
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{backends::Expected, replicas::Assignment};

    /// Four spilled chunks take `AHEAD` bytes.
    fn spilled(chunks: usize) -> Arc<SpillList<Request>> {
        let list = SpillList::default();
        let text = "x".repeat(AHEAD / 4);
        (0..chunks).for_each(|at| list.extend([Request::text(text.as_str(), at as u64, 1)]));
        Arc::new(list)
    }

    fn written(bytes: impl IntoIterator<Item = u8>) -> Vec<Prepared> {
        bytes
            .into_iter()
            .map(|byte| Prepared {
                bytes: [byte].into(),
                expected: Expected::default(),
                assignment: Assignment::default(),
            })
            .collect()
    }

    fn write(_: usize, requests: &[Request]) -> io::Result<Vec<Prepared>> {
        Ok(written(requests.iter().map(|request| request.prompt_len as u8)))
    }

    #[test]
    fn requests_are_found_wherever_they_are() {
        let mut requests = Requests::new(written(100..103));
        assert!(requests.get(3).is_none() && requests.batch(3, &write).is_err());
        requests.follow(spilled(9));
        assert_eq!(requests.get(2).unwrap().bytes[0], 102);
        for assignment in [0, 8, 3] {
            let batch = requests.batch(3 + assignment, &write).unwrap();
            assert_eq!(batch.get(3 + assignment).unwrap().bytes[0] as usize, assignment);
        }
        assert!(requests.batch(3 + 9, &write).is_err());
    }

    #[test]
    fn only_what_comes_next_is_written_out() {
        let mut requests = Requests::new(Vec::new());
        requests.follow(spilled(20));
        let chunks = |requests: &Requests| requests.ahead.lock().keys().copied().collect::<Vec<_>>();
        requests.encode_ahead(&write).unwrap();
        assert_eq!(chunks(&requests), [0, 1, 2, 3]);
        requests.batch(9, &write).unwrap();
        requests.encode_ahead(&write).unwrap();
        assert_eq!(chunks(&requests), [9, 10, 11, 12]);
        requests.batch(19, &write).unwrap();
        requests.encode_ahead(&write).unwrap();
        assert_eq!(chunks(&requests), [19]);
    }
}
