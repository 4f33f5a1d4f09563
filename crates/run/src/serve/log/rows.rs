//! The rows of a finished run: in memory, in its log only, or in the log of the run that it resumed.

use std::path::{Path, PathBuf};

use tacho_core::{Observation, SpillFile, Timestamp};
use tacho_metrics::{Gather, Samples};
use tacho_rowlog::{Stored, Written};

use crate::Error;

#[derive(Default)]
pub(crate) struct Rows {
    pub(crate) kept: Vec<Observation>,
    /// Rows in the log: the first ones, with their number.
    pub(crate) logged: Option<(Written, usize)>,
    /// End of the last request whose row is only in the log.
    pub(crate) last: Timestamp,
    /// Rows of an earlier run in the log, this run's origin, and the time to which that origin is moved.
    pub(crate) earlier: Option<(Stored, Timestamp, Timestamp)>,
    /// The log directory, if it may hold many rows, and the bytes of derived values that stay in memory.
    pub(crate) spill: Option<(PathBuf, usize)>,
}

impl Rows {
    pub(crate) fn gather(&self) -> Gather {
        let spilled =
            |(directory, memory): &(PathBuf, usize)| Gather::beyond(*memory, SpillFile::in_directory(directory));
        self.spill.as_ref().map_or_else(Gather::default, spilled)
    }

    pub(crate) fn end(&self) -> Timestamp {
        self.kept.iter().map(|row| row.done).fold(self.last, Timestamp::max)
    }

    /// Passes each row to `take`; rows of the log are read in batches.
    pub(crate) fn each(self, mut take: impl FnMut(Observation)) -> Result<(), Error> {
        let mut moved = None;
        if let Some((stored, from, to)) = self.earlier {
            moved = Some((from, to));
            stored.each(|row| {
                // Aborted requests were sent again.
                if !row.observation.is_aborted() {
                    take(row.observation);
                }
            })?;
        }
        let mut own = |mut row: Observation| {
            if let Some((from, to)) = moved {
                row.move_clock(from, to);
            }
            take(row);
        };
        if let Some((written, count)) = self.logged {
            written.rows(count, |row| own(row.observation))?;
        }
        self.kept.into_iter().for_each(own);
        Ok(())
    }
}

impl From<Vec<Observation>> for Rows {
    fn from(kept: Vec<Observation>) -> Self {
        Rows { kept, ..Rows::default() }
    }
}

/// Checks that all spilled samples could be read back; `directory` is their log. Fails when some could not: the result
/// would be wrong.
pub(crate) fn check_read_back(directory: Option<&Path>, samples: &Samples) -> Result<(), Error> {
    let Some(reason) = samples.fault() else { return Ok(()) };
    Err(Error::Spill { directory: directory.unwrap_or(Path::new("")).to_owned(), reason: reason.to_owned() })
}

pub(crate) fn size(row: &Observation) -> usize {
    let lists = 8 * (row.chunks.capacity() + row.token_counts.capacity()) + 4 * row.text_ends.capacity();
    size_of::<Observation>() + lists + row.text.capacity()
}
