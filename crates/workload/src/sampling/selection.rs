//! Which rows of a file become requests: shuffled, cut to a number, repeated when there are too few.

use std::collections::HashSet;

use tacho_core::Request;
use tacho_pyrand::Globals;

use crate::Error;

/// How rows are chosen; what all datasets that read a file share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// Seed of Python's global generator for shuffling and repeating.
    pub seed: i64,
    /// How many requests.
    pub num_prompts: i64,
    /// Whether rows are mixed before they are read.
    pub shuffle: bool,
    /// Whether requests are repeated when the file has too few.
    pub oversample: bool,
    /// What request ids begin with.
    pub request_id_prefix: String,
}

impl Selection {
    /// Seeds Python's global generator, and mixes `rows` if asked to. The seeding happens either way.
    pub(crate) fn arrange<T>(&self, rows: &mut [T], globals: &mut Globals) {
        globals.py.seed(self.seed.unsigned_abs());
        if self.shuffle {
            globals.py.shuffle(rows);
        }
    }

    /// The id of the request at `index`.
    pub(crate) fn id(&self, index: usize) -> Option<String> {
        Some(format!("{}{index}", self.request_id_prefix))
    }

    /// Requests wanted; none for a negative number.
    pub(crate) fn wanted(&self) -> usize {
        usize::try_from(self.num_prompts).unwrap_or(0)
    }

    /// Requests wanted out of `rows`, where any number that is not positive means all of them.
    pub(crate) fn wanted_or_all(&self, rows: usize) -> usize {
        if self.num_prompts <= 0 { rows } else { self.wanted() }
    }

    /// Repeats requests until there are `wanted`. The generator is seeded again, and only the original requests are
    /// drawn from.
    pub(crate) fn oversample(
        &self,
        requests: &mut Vec<Request>,
        wanted: usize,
        globals: &mut Globals,
    ) -> Result<(), Error> {
        if !self.oversample {
            return Ok(());
        }
        let found = requests.len();
        if found < wanted {
            globals.py.seed(self.seed.unsigned_abs());
        }
        for index in found..wanted {
            let drawn = globals.py.choice_index(found).ok_or(Error::NothingToRepeat { wanted })?;
            let copy = Request { id: self.id(index), ..requests[drawn].clone() };
            requests.push(copy);
        }
        distinct_ids(requests)
    }
}

/// Ids can collide where they count rows that were skipped.
fn distinct_ids(requests: &[Request]) -> Result<(), Error> {
    let mut seen = HashSet::with_capacity(requests.len());
    for id in requests.iter().filter_map(|request| request.id.as_deref()) {
        if !seen.insert(id) {
            return Err(Error::DuplicateId { id: id.to_owned() });
        }
    }
    Ok(())
}
