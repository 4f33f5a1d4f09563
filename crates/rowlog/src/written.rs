//! Reads back rows that this process has logged, through a separate file handle: the log may be moved or deleted
//! meanwhile.

use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::path::{Path, PathBuf};

use crate::{Error, Row, stored::Batches, stream::Stream};

/// The rows of a segment that is, or was, being written.
#[derive(Debug)]
pub struct Written {
    path: PathBuf,
    file: File,
}

impl Written {
    pub(crate) fn of(path: &Path) -> Result<Self, Error> {
        Ok(Written { path: path.to_owned(), file: File::open(path).map_err(Error::read(path))? })
    }

    /// Passes the first `count` rows to `take` in the order of writing, one batch in memory at a time.
    pub fn rows(mut self, count: usize, mut take: impl FnMut(Row)) -> Result<(), Error> {
        self.file.seek(SeekFrom::Start(0)).map_err(Error::read(&self.path))?;
        let stream = Stream::of(&self.path, self.file)?;
        let batches = Batches::of(&self.path, stream)?;
        let mut left = count;
        for batch in batches.into_iter().flatten() {
            let batch = batch?;
            let wanted = left.min(batch.len());
            left -= wanted;
            batch.into_iter().take(wanted).for_each(&mut take);
            if left == 0 {
                return Ok(());
            }
        }
        match left {
            0 => Ok(()),
            _ => Err(Error::malformed(&self.path, format!("{left} of {count} rows that were written are not there"))),
        }
    }
}
