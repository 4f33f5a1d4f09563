//! The requests of a run, in order: the first ones in memory, the others in a spill file. A run of a million requests
//! takes no more memory than one of ten thousand.

pub(crate) mod carrier;
pub(crate) mod file;
pub(crate) mod prefix_sharing;
pub(crate) mod stats;

use std::path::{Path, PathBuf};
use std::{borrow::Cow, sync::Arc};

use tacho_core::{Content, Request, SpillFile, SpillList, json::Value};

use crate::Error;

#[derive(Debug, Default)]
pub struct Requests {
    kept: Vec<Request>,
    /// Approximate memory of the requests in memory.
    bytes: usize,
    beyond: Option<Beyond>,
    spill: Arc<SpillList<Request>>,
}

/// The spill file for requests that do not fit in memory.
#[derive(Debug, Clone)]
struct Beyond {
    available: usize,
    directory: PathBuf,
}

impl Requests {
    /// Default number of bytes of requests that stay in memory.
    pub const MEMORY: usize = 16 << 20;

    /// An empty list. Beyond `available` bytes, requests are spilled to a file in `directory`.
    pub fn with_directory(directory: &Path, available: usize) -> Self {
        Requests { beyond: Some(Beyond { available, directory: directory.to_owned() }), ..Requests::default() }
    }

    pub fn add(&mut self, requests: Vec<Request>) {
        let mut requests = requests.into_iter().peekable();
        while self.has_room()
            && let Some(request) = requests.next()
        {
            self.bytes += memory(&request);
            self.kept.push(request);
        }
        if requests.peek().is_none() {
            return;
        }
        if let Some(Beyond { directory, .. }) = self.beyond.as_ref().filter(|_| self.spill.is_empty()) {
            self.spill = Arc::new(SpillList::new(SpillFile::in_directory(directory)));
        }
        self.spill.extend(requests);
    }

    /// Whether further requests stay in memory. The first one always does: it is also the test request.
    fn has_room(&self) -> bool {
        let fits = |beyond: &Beyond| self.kept.is_empty() || self.bytes < beyond.available;
        self.spill.is_empty() && self.beyond.as_ref().is_none_or(fits)
    }

    pub fn len(&self) -> usize {
        self.kept.len() + self.spill.len()
    }

    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// The first requests, which are in memory; all of them if they are few.
    pub fn kept(&self) -> &[Request] {
        &self.kept
    }

    /// The requests after those in memory.
    pub fn spill(&self) -> &Arc<SpillList<Request>> {
        &self.spill
    }

    pub fn get(&self, index: usize) -> Result<Option<Request>, Error> {
        match self.kept.get(index) {
            Some(request) => Ok(Some(request.clone())),
            None => Ok(self.spill.get(index - self.kept.len()).map_err(Error::reading_back)?),
        }
    }

    /// Passes each request to `take`, in order.
    pub fn each<E: From<Error>>(&self, mut take: impl FnMut(usize, &Request) -> Result<(), E>) -> Result<(), E> {
        let mut index = 0;
        let mut show = |requests: &[Request]| {
            requests.iter().try_for_each(|request| {
                index += 1;
                take(index - 1, request)
            })
        };
        show(&self.kept)?;
        (0..self.spill.chunks()).try_for_each(|chunk| show(&self.spill.read(chunk).map_err(Error::reading_back)?))
    }

    pub fn all(&self) -> Result<Cow<'_, [Request]>, Error> {
        if self.spill.is_empty() {
            return Ok(Cow::Borrowed(&self.kept));
        }
        let mut all = Vec::with_capacity(self.len());
        self.each(|_, request| {
            all.push(request.clone());
            Ok::<_, Error>(())
        })?;
        Ok(Cow::Owned(all))
    }

    /// Lets `change` edit all requests in chunks; it gets the index of the first request of each chunk.
    pub fn alter(&mut self, mut change: impl FnMut(usize, &mut Vec<Request>)) -> Result<(), Error> {
        let empty = Requests { beyond: self.beyond.clone(), ..Requests::default() };
        let Requests { mut kept, spill, .. } = std::mem::replace(self, empty);
        let mut index = kept.len();
        change(0, &mut kept);
        self.add(kept);
        for chunk in 0..spill.chunks() {
            let mut part = spill.read(chunk).map_err(Error::reading_back)?;
            let start = index;
            index += part.len();
            change(start, &mut part);
            self.add(part);
        }
        Ok(())
    }
}

/// Bytes of an encoded request in addition to the content: the head, and other fields of the body.
const AROUND: usize = 512;

/// Approximate memory of a request, which is stored twice: as it is, and encoded.
fn memory(request: &Request) -> usize {
    let content = match &request.content {
        Content::Text(text) => text.len(),
        Content::Texts(texts) => texts.iter().map(|text| text.len() + size_of::<String>()).sum(),
        Content::Ids(ids) => size_of_val(ids.as_slice()),
        Content::Json(value) => weight(value),
    };
    let values = [&request.media, &request.chat_messages, &request.overrides].into_iter().flatten();
    let within = content + values.map(weight).sum::<usize>() + request.id.as_ref().map_or(0, String::len);
    size_of::<Request>() + AROUND + 2 * within
}

fn weight(value: &Value) -> usize {
    let within = match value {
        Value::Str(text) | Value::BigInt(text) => text.len(),
        Value::List(items) => items.iter().map(weight).sum(),
        Value::Dict(dict) => dict.iter().map(|(key, value)| key.len() + size_of::<String>() + weight(value)).sum(),
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) => 0,
    };
    size_of::<Value>() + within
}

impl From<Vec<Request>> for Requests {
    fn from(kept: Vec<Request>) -> Self {
        Requests { kept, ..Requests::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn many(count: usize) -> Vec<Request> {
        let id = |at| Some(format!("r{at}"));
        (0..count).map(|at| Request { id: id(at), ..Request::text("p".repeat(at % 700), at as u64, 4) }).collect()
    }

    fn stored(directory: &Path, pieces: usize) -> Requests {
        let mut requests = Requests::with_directory(directory, 100_000);
        many(5_000).chunks(5_000 / pieces).for_each(|piece| requests.add(piece.to_vec()));
        requests
    }

    #[test]
    fn spilled_requests_come_back_in_their_order() {
        let directory = tempfile::tempdir().unwrap();
        for pieces in [1, 3, 50] {
            let requests = stored(directory.path(), pieces);
            assert!(requests.kept().len() < 1_000 && requests.spill().chunks() > 3);
            assert_eq!((requests.len(), requests.all().unwrap().into_owned() == many(5_000)), (5_000, true));
            for index in [0, 999, 1_000, 4_999] {
                assert_eq!(requests.get(index).unwrap().unwrap(), many(5_000)[index]);
            }
            assert_eq!(requests.get(5_000).unwrap(), None);
        }
        // The file has no name.
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn changes_reach_all_and_some_may_go() {
        let directory = tempfile::tempdir().unwrap();
        let mut requests = stored(directory.path(), 2);
        let mut indices = Vec::new();
        requests
            .alter(|start, part| {
                indices.extend(start..start + part.len());
                part.retain(|request| request.prompt_len % 2 == 0);
            })
            .unwrap();
        assert_eq!(indices, (0..5_000).collect::<Vec<_>>());
        let left: Vec<u64> = requests.all().unwrap().iter().map(|request| request.prompt_len).collect();
        assert_eq!(left, (0..5_000).step_by(2).collect::<Vec<_>>());
    }

    #[test]
    fn without_a_directory_that_can_be_written_they_stay_in_memory() {
        let requests = stored(Path::new("/nowhere/at/all"), 2);
        assert_eq!((requests.len(), requests.all().unwrap().into_owned() == many(5_000)), (5_000, true));
        assert!(Requests::from(many(3)).spill().is_empty());
    }
}
