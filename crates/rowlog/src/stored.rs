//! A log on disk: of a run that is finished, was killed, or is still running.

use std::path::{Path, PathBuf};
use tacho_core::bounded::RunTime;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use tacho_core::{Observation, Timestamp, json::Value};

use crate::stream::{Stream, Tail};
use crate::{Error, Manifest, Origin, Row, batch::rows, files::read_json, segment};

/// The file name of the summary, which is written at the end of a run.
pub(crate) const SUMMARY: &str = "summary.json";
const SUMMARY_LIMIT: u64 = 1 << 30;

#[derive(Debug)]
pub struct Stored {
    manifest: Manifest,
    segments: Vec<Segment>,
    closing: Option<Value>,
    next: usize,
}

impl Stored {
    /// Opens the log in `directory`. Rows are read on demand.
    pub fn open(directory: &Path) -> Result<Self, Error> {
        let manifest = Manifest::read(directory)?;
        let mut segments = Vec::new();
        let mut next = 0;
        loop {
            let path = segment::file(directory, next);
            if !path.exists() {
                break;
            }
            next += 1;
            match Batches::open(&path)? {
                Some(batches) => segments.push(Segment { origin: batches.origin(), path }),
                // The writer was killed before the first row.
                None if is_shorter_than_a_schema(&path)? => {}
                None => return Err(Error::malformed(&path, "its schema is damaged: its rows cannot be read")),
            }
        }
        let closing = directory.join(SUMMARY);
        let closing = closing.exists().then(|| read_json(&closing, SUMMARY_LIMIT)).transpose()?;
        Ok(Stored { manifest, segments, closing, next })
    }

    /// Whether `directory` contains a log, possibly of an older format: opening that one explains why it is refused.
    pub fn is_log(directory: &Path) -> bool {
        [crate::manifest::NAME, crate::manifest::OLD_NAME].iter().any(|name| directory.join(name).is_file())
    }

    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The segments, in order. Of a request that is in several, the last one counts.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// The summary, written after the last row; `None` if the run did not finish.
    pub fn closing(&self) -> Option<&Value> {
        self.closing.as_ref()
    }

    pub(crate) fn next_number(&self) -> usize {
        self.next
    }
}

/// Whether a segment ends before its schema does; a longer one has rows.
fn is_shorter_than_a_schema(path: &Path) -> Result<bool, Error> {
    let size = std::fs::metadata(path).map_err(Error::read(path))?.len();
    Ok(size < segment::schema_size()?)
}

#[derive(Debug, Clone)]
pub struct Segment {
    path: PathBuf,
    origin: Origin,
}

impl Segment {
    pub fn origin(&self) -> Origin {
        self.origin
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its rows, batch by batch, in the order of completion.
    pub fn batches(&self) -> Result<Batches, Error> {
        Batches::open(&self.path)?.ok_or_else(|| Error::malformed(&self.path, "it has no schema"))
    }

    /// The state of its end; reads the whole segment.
    pub fn tail(&self) -> Result<Tail, Error> {
        let mut batches = self.batches()?;
        while batches.next().transpose()?.is_some() {}
        Ok(batches.tail().unwrap_or(Tail::Open))
    }
}

pub struct Batches {
    stream: Stream,
    origin: Origin,
}

impl Batches {
    /// Opens a segment; `None` if the file ends before its schema does.
    pub(crate) fn open(path: &Path) -> Result<Option<Self>, Error> {
        Self::of(path, Stream::open(path)?)
    }

    pub(crate) fn of(path: &Path, stream: Option<Stream>) -> Result<Option<Self>, Error> {
        let Some(stream) = stream else { return Ok(None) };
        let origin = segment::origin(path, stream.schema())?;
        Ok(Some(Batches { stream, origin }))
    }

    pub(crate) fn schema(&self) -> SchemaRef {
        self.stream.schema().clone()
    }

    pub(crate) fn origin(&self) -> Origin {
        self.origin
    }

    pub(crate) fn next_batch(&mut self) -> Result<Option<RecordBatch>, Error> {
        self.stream.next_batch()
    }

    /// The state of the end; `None` before it was reached.
    pub fn tail(&self) -> Option<Tail> {
        self.stream.tail()
    }
}

impl Iterator for Batches {
    type Item = Result<Vec<Row>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let before = self.stream.whole();
        let batch = match self.stream.next_batch() {
            Ok(batch) => batch?,
            Err(error) => return Some(Err(error)),
        };
        match rows(&batch, self.origin) {
            Ok(rows) if rows.iter().all(|row| is_plausible(&row.observation, self.origin.timestamp)) => Some(Ok(rows)),
            // Bytes that decompress to something else are as lost as those that do not decompress.
            _ => {
                self.stream.tear_at(before);
                None
            }
        }
    }
}

fn is_plausible(row: &Observation, origin: Timestamp) -> bool {
    let timestamps = [row.scheduled, row.dispatched, row.sent, row.done];
    let others = [row.input_end, row.first_byte, row.first_content, row.first_answer].into_iter().flatten();
    let mut timestamps = timestamps.into_iter().chain(others).chain(row.chunks.iter().copied());
    timestamps.all(|timestamp| u128::from(timestamp.0.abs_diff(origin.0)) <= RunTime::MAX.as_nanos())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONGEST: std::time::Duration = RunTime::MAX;

    #[test]
    fn rows_with_impossible_times_are_rejected() {
        let origin = Timestamp(LONGEST.as_nanos() as u64 * 3);
        let row = |done| Observation { done, ..Observation::dispatched(0, origin, origin) };
        let sent = |done| Observation { sent: origin, ..row(done) };
        assert!(is_plausible(&sent(origin + LONGEST), origin) && !is_plausible(&sent(origin + LONGEST * 2), origin));
        assert!(!is_plausible(&Observation { chunks: vec![origin - LONGEST * 2], ..sent(origin) }, origin));
        let late = origin + LONGEST + std::time::Duration::from_nanos(1);
        assert!(!is_plausible(&sent(late), origin));
        let each: [fn(&mut Observation, Timestamp); 7] = [
            |row, late| row.scheduled = late,
            |row, late| row.dispatched = late,
            |row, late| row.sent = late,
            |row, late| row.input_end = Some(late),
            |row, late| row.first_byte = Some(late),
            |row, late| row.first_content = Some(late),
            |row, late| row.first_answer = Some(late),
        ];
        for set in each {
            let mut row = sent(origin);
            set(&mut row, late);
            assert!(!is_plausible(&row, origin), "{row:?}");
        }
    }
}
