//! Writes a log. Each batch is one append: after a crash all earlier batches are complete, and a truncated last batch
//! is recognized by its length.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_ipc::writer::StreamWriter;
use arrow_schema::{Schema, SchemaRef};
use tacho_core::json::{Value, dumps};
use tacho_core::{Observation, RequestInfo};

use crate::files::{sync_directory, write_atomically};
use crate::manifest::{self, Manifest};
use crate::stored::{SUMMARY, Stored};
use crate::{Error, Origin, batch::batch, compact::compact, segment, stream::Tail, sync::Syncer, written::Written};

/// Maximum number of values in a batch; more rows are split into several.
pub(crate) const BATCH_VALUES: usize = 1 << 20;

pub struct Log {
    directory: PathBuf,
    _lock: File,
    next: usize,
    writer: Option<Writer>,
}

impl Log {
    /// Starts the log of a new run in `directory`, which is created if necessary.
    pub fn create(directory: &Path, manifest: &Manifest) -> Result<Self, Error> {
        fs::create_dir_all(directory).map_err(Error::write(directory))?;
        if directory.join(manifest::NAME).exists() {
            return Err(Error::Exists { path: directory.to_owned() });
        }
        manifest.save(directory)?;
        Ok(Log { directory: directory.to_owned(), _lock: lock(directory)?, next: 0, writer: None })
    }

    /// Opens the log of a run that ended early, and returns its content. Nothing changes before [`Log::begin`].
    pub fn resume(directory: &Path) -> Result<(Self, Stored), Error> {
        Stored::open(directory)?;
        let lock = lock(directory)?;
        let stored = Stored::open(directory)?;
        Ok((Log { directory: directory.to_owned(), _lock: lock, next: stored.next_number(), writer: None }, stored))
    }

    /// Removes truncated batches from the ends of earlier segments, so that other programs can read them.
    pub fn cut_tails(&self, stored: &Stored) -> Result<(), Error> {
        stored.segments().iter().try_for_each(|segment| cut(segment.path(), segment.tail()?))
    }

    /// Starts a segment whose timestamps count from `origin`. Deletes the summary of an earlier segment.
    pub fn begin(&mut self, origin: Origin) -> Result<(), Error> {
        self.close()?;
        remove(&self.directory.join(SUMMARY))?;
        self.writer = Some(Writer::create(&self.directory, self.next, origin)?);
        self.next += 1;
        Ok(())
    }

    /// Appends rows, as one batch unless they are very many. After an error the log is unchanged, and nothing more
    /// should be appended.
    pub fn append<'a>(
        &mut self,
        rows: impl IntoIterator<Item = (&'a RequestInfo, &'a Observation)>,
    ) -> Result<(), Error> {
        let Some(writer) = &mut self.writer else {
            return Err(Error::malformed(&self.directory, "rows were added before a segment was begun"));
        };
        let rows: Vec<_> = rows.into_iter().collect();
        let mut rest = rows.as_slice();
        while !rest.is_empty() {
            let (now, later) = rest.split_at(fitting(rest));
            writer.append(now)?;
            rest = later;
        }
        Ok(())
    }

    /// The rows of the current segment, for reading; `None` before one was started.
    pub fn written(&self) -> Result<Option<Written>, Error> {
        self.writer.as_ref().map(|writer| Written::of(&writer.path)).transpose()
    }

    /// Finishes the log with a summary and merges small batches.
    pub fn finish(mut self, closing: &Value) -> Result<(), Error> {
        self.close()?;
        write_atomically(&self.directory.join(SUMMARY), dumps(closing).as_bytes())
    }

    fn close(&mut self) -> Result<(), Error> {
        self.writer.take().map_or(Ok(()), Writer::finish)
    }
}

/// Number of rows that fit in one batch: at least one.
fn fitting(rows: &[(&RequestInfo, &Observation)]) -> usize {
    let mut values = 0;
    let fits = |(_, row): &&(&RequestInfo, &Observation)| {
        values += 32 + row.chunks.len() + row.token_counts.len() + row.text.len() / 8;
        values <= BATCH_VALUES
    };
    rows.iter().take_while(fits).count().max(1)
}

fn lock(directory: &Path) -> Result<File, Error> {
    let path = directory.join(manifest::NAME);
    let file = File::open(&path).map_err(Error::read(&path))?;
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => Err(Error::Busy { path: directory.to_owned() }),
        // File systems without locks are accepted.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(file),
    }
}

fn remove(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::write(path)(error)),
        _ => Ok(()),
    }
}

fn cut(path: &Path, tail: Tail) -> Result<(), Error> {
    let Tail::Torn { whole, .. } = tail else { return Ok(()) };
    let file = OpenOptions::new().write(true).open(path).map_err(Error::write(path))?;
    file.set_len(whole).and_then(|()| file.sync_all()).map_err(Error::write(path))
}

/// The segment that is being written.
struct Writer {
    path: PathBuf,
    file: Arc<File>,
    stream: StreamWriter<Vec<u8>>,
    schema: SchemaRef,
    origin: Origin,
    /// End of the complete batches, in bytes.
    at: u64,
    batches: usize,
    syncer: Syncer,
}

impl Writer {
    fn create(directory: &Path, number: usize, origin: Origin) -> Result<Self, Error> {
        let path = segment::file(directory, number);
        let schema: Schema = segment::schema(number, origin);
        let stream = StreamWriter::try_new_with_options(Vec::new(), &schema, segment::packing()?)?;
        let file = OpenOptions::new().write(true).create_new(true).open(&path).map_err(Error::write(&path))?;
        let file = Arc::new(file);
        let syncer = Syncer::start(file.clone()).map_err(Error::write(&path))?;
        let schema = Arc::new(schema);
        let mut writer = Writer { path, file, stream, schema, origin, at: 0, batches: 0, syncer };
        writer.flush()?;
        sync_directory(&writer.path);
        Ok(writer)
    }

    fn append(&mut self, rows: &[(&RequestInfo, &Observation)]) -> Result<(), Error> {
        self.stream.write(&batch(self.schema.clone(), self.origin, rows)?)?;
        self.batches += 1;
        self.flush()
    }

    /// Writes the stream's output, or undoes a partial write.
    fn flush(&mut self) -> Result<(), Error> {
        let bytes = self.stream.get_mut();
        let written = self.syncer.check().and_then(|()| (&*self.file).write_all(bytes));
        match written {
            Ok(()) => {
                self.at += bytes.len() as u64;
                bytes.clear();
                Ok(())
            }
            Err(error) => {
                // The rest of the batch would be recognized as truncated; removing it is only tidier.
                let _ = self.file.set_len(self.at).and_then(|()| (&*self.file).seek(SeekFrom::Start(self.at)));
                Err(Error::write(&self.path)(error))
            }
        }
    }

    fn finish(mut self) -> Result<(), Error> {
        self.stream.finish()?;
        self.flush()?;
        self.file.sync_all().map_err(Error::write(&self.path))?;
        let Writer { path, batches, at, syncer, .. } = self;
        drop(syncer);
        compact(&path, batches, at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A row counts 32 values, its events, its marks, and an eighth of its text.
    #[test]
    fn a_batch_has_as_many_rows_as_fit() {
        let half = BATCH_VALUES / 2 - 32;
        let events = |count| vec![tacho_core::Timestamp::ZERO; count];
        let empty = || Observation::dispatched(0, tacho_core::Timestamp::ZERO, tacho_core::Timestamp::ZERO);
        let of = [
            |more: usize, half: usize| (half + more, 0, 0),
            |more: usize, half: usize| (0, half + more, 0),
            |more: usize, half: usize| (0, 0, 8 * (half + more)),
            |more: usize, half: usize| (half / 2, half / 4, 8 * (half - half / 2 - half / 4 + more)),
        ];
        for sizes in of {
            let request = RequestInfo::default();
            let row = |more| {
                let (chunks, marks, text) = sizes(more, half);
                let (chunks, token_counts, text) = (events(chunks), vec![(0, 0); marks], vec![b'a'; text]);
                Observation { chunks, token_counts, text, ..empty() }
            };
            let (exact, more) = (row(0), row(1));
            assert_eq!(fitting(&[(&request, &exact), (&request, &exact), (&request, &empty())]), 2);
            assert_eq!(fitting(&[(&request, &exact), (&request, &more)]), 1);
        }
        let huge = Observation { chunks: events(BATCH_VALUES), ..empty() };
        assert_eq!(fitting(&[(&RequestInfo::default(), &huge)]), 1, "a row is never divided");
    }
}
