//! The rows of a run that is over: those still in memory, those that only its log has, and those of an earlier run that it
//! went on with.

use std::path::{Path, PathBuf};

use tacho_core::{Observation, SpillFile, Timestamp};
use tacho_metrics::{Gather, Samples};
use tacho_rowlog::{Stored, Written};

use crate::Error;

/// All rows, in no order.
#[derive(Default)]
pub(crate) struct Rows {
    /// In memory.
    pub(crate) kept: Vec<Observation>,
    /// In the log: this many of its first rows.
    pub(crate) logged: Option<(Written, usize)>,
    /// When the last of those in the log was over.
    pub(crate) last: Timestamp,
    /// What an earlier run left in the log, and from where to where the clock of this one is moved behind it.
    pub(crate) earlier: Option<(Stored, Timestamp, Timestamp)>,
    /// The log, where many rows may be in it, and how many bytes made of them stay in memory.
    pub(crate) spill: Option<(PathBuf, usize)>,
}

impl Rows {
    /// Collects the samples that are computed from them.
    pub(crate) fn gather(&self) -> Gather {
        let spilled = |(directory, room): &(PathBuf, usize)| Gather::beyond(*room, SpillFile::in_directory(directory));
        self.spill.as_ref().map_or_else(Gather::default, spilled)
    }

    /// When the last of this run's was over.
    pub(crate) fn end(&self) -> Timestamp {
        self.kept.iter().map(|row| row.done).fold(self.last, Timestamp::max)
    }

    /// Hands each to `take`; of those in the log a batch is in memory at a time.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub(crate) fn each(self, mut take: impl FnMut(Observation)) -> Result<(), Error> {
        let mut moved = None;
        if let Some((stored, from, to)) = self.earlier {
            moved = Some((from, to));
            stored.each(|row| {
                // What its end cut off was sent again.
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

/// Checks that all spilled samples could be read back; `directory` is their log.
///
/// # Errors
/// When some could not: the result would be wrong.
pub(crate) fn check_read_back(directory: Option<&Path>, samples: &Samples) -> Result<(), Error> {
    let Some(reason) = samples.fault() else { return Ok(()) };
    Err(Error::Spill { directory: directory.unwrap_or(Path::new("")).to_owned(), reason: reason.to_owned() })
}

/// About the memory that a row takes.
pub(crate) fn size(row: &Observation) -> usize {
    let lists = 8 * (row.chunks.capacity() + row.token_counts.capacity()) + 4 * row.text_ends.capacity();
    size_of::<Observation>() + lists + row.text.capacity()
}
