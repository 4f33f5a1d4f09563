//! Selects rows of a file: shuffled, limited in number, repeated if there are too few.

use std::collections::HashSet;

use tacho_core::Request;
use tacho_pyrand::Globals;

use crate::{Error, parallel, sampling::context::SampleContext, sampling::timing};

/// The row selection of all datasets that read a file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Selection {
    /// Seed of Python's global generator for shuffling and repeating.
    pub seed: i64,
    pub num_prompts: i64,
    /// Whether rows are shuffled before they are read.
    pub shuffle: bool,
    /// Whether requests are repeated if the file has too few.
    pub oversample: bool,
    pub request_id_prefix: String,
}

impl Selection {
    /// Seeds Python's global generator in any case, and shuffles `rows` if set.
    pub(crate) fn arrange<T>(&self, rows: &mut [T], globals: &mut Globals) {
        globals.py.seed(self.seed.unsigned_abs());
        if self.shuffle {
            globals.py.shuffle(rows);
        }
    }

    pub(crate) fn id(&self, index: usize) -> Option<String> {
        Some(format!("{}{index}", self.request_id_prefix))
    }

    /// Number of requests; zero if it is negative.
    pub(crate) fn wanted(&self) -> usize {
        usize::try_from(self.num_prompts).unwrap_or(0)
    }

    /// Number of requests out of `rows`; all of them if it is not positive.
    pub(crate) fn wanted_or_all(&self, rows: usize) -> usize {
        if self.num_prompts <= 0 { rows } else { self.wanted() }
    }

    /// The first rows as requests, made in parallel and numbered. With a time scale they are sent at their own times;
    /// otherwise they are repeated if there are too few.
    pub(crate) fn requests<R: Send>(
        &self,
        rows: impl ExactSizeIterator<Item = R>,
        time_scale: Option<f64>,
        context: &mut SampleContext<'_>,
        make: impl Fn(R) -> Result<Request, Error> + Sync,
    ) -> Result<Vec<Request>, Error> {
        let wanted = self.wanted_or_all(rows.len());
        let counters = context.counters;
        let request = |(index, row): (usize, R)| {
            let request = make(row)?;
            counters.finish_one();
            Ok(Request { id: self.id(index), ..request })
        };
        let made = parallel::map_owned(rows.take(wanted).collect(), request);
        let mut requests = made.into_iter().collect::<Result<Vec<_>, Error>>()?;
        match time_scale {
            Some(scale) => timing::from_the_first(&mut requests, scale)?,
            None => self.oversample(&mut requests, wanted, context.globals)?,
        }
        Ok(requests)
    }

    /// Repeats requests until there are `wanted`. Seeds the generator again, and draws from the original requests only.
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

/// Checks for duplicate IDs, which occur if IDs count skipped rows.
fn distinct_ids(requests: &[Request]) -> Result<(), Error> {
    let mut seen = HashSet::with_capacity(requests.len());
    for id in requests.iter().filter_map(|request| request.id.as_deref()) {
        if !seen.insert(id) {
            return Err(data!("duplicate request_id {id:?}: pass --no-oversample, or ask for fewer requests"));
        }
    }
    Ok(())
}
