//! The rows of a run that is over: those still in memory, and those that only its log has.

use tacho_core::Observation;
use tacho_rowlog::Written;

use crate::Error;

/// All rows, in no order.
#[derive(Default)]
pub(super) struct Rows {
    /// In memory.
    pub(super) kept: Vec<Observation>,
    /// In the log: the first so many of it.
    pub(super) logged: Option<(Written, usize)>,
}

impl Rows {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.kept.len() + self.logged.as_ref().map_or(0, |(_, count)| *count)
    }

    /// Hands each to `take`; of those in the log a batch is in memory at a time.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub(super) fn each(self, mut take: impl FnMut(Observation)) -> Result<(), Error> {
        if let Some((written, count)) = self.logged {
            written.rows(count, |row| take(row.observation))?;
        }
        self.kept.into_iter().for_each(take);
        Ok(())
    }
}

impl From<Vec<Observation>> for Rows {
    fn from(kept: Vec<Observation>) -> Self {
        Rows { kept, logged: None }
    }
}

/// About the memory that a row takes.
pub(super) fn size(row: &Observation) -> usize {
    let lists = 8 * (row.chunks.capacity() + row.token_marks.capacity()) + 4 * row.text_ends.capacity();
    size_of::<Observation>() + lists + row.text.capacity()
}
