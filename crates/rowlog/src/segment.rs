//! A segment: rows of one process with one origin. A resumed run has several.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use arrow_ipc::writer::{IpcWriteOptions, StreamWriter};
use arrow_ipc::{CompressionType, MetadataVersion};
use arrow_schema::{ArrowError, Schema};
use tacho_core::Timestamp;

use crate::Error;
use crate::columns::{Origin, fields};

/// The file format that this version writes.
pub(crate) const FORMAT: i64 = 4;

const FORMAT_KEY: &str = "tacho.format";
const SEGMENT_KEY: &str = "tacho.segment";
const TIMESTAMP_KEY: &str = "tacho.origin_stamp_ns";
const UNIX_KEY: &str = "tacho.origin_unix_ns";

/// The compression settings. The lowest level gives the smallest files here: the low bits of timestamps are noise and
/// the high bits zeros, on which higher levels gain nothing.
pub(crate) fn packing() -> Result<IpcWriteOptions, ArrowError> {
    IpcWriteOptions::try_new(8, false, MetadataVersion::V5)?
        .try_with_compression(Some(CompressionType::ZSTD))?
        .try_with_compression_level(Some(1))
}

pub(crate) fn file(directory: &Path, number: usize) -> PathBuf {
    directory.join(format!("rows-{number}.arrows"))
}

pub(crate) fn schema(number: usize, origin: Origin) -> Schema {
    let metadata = [
        (FORMAT_KEY, FORMAT.to_string()),
        (SEGMENT_KEY, number.to_string()),
        (TIMESTAMP_KEY, origin.timestamp.0.to_string()),
        (UNIX_KEY, origin.unix_ns.to_string()),
    ];
    let metadata = metadata.map(|(key, value)| (key.to_owned(), value));
    Schema::new(fields()).with_metadata(HashMap::from(metadata))
}

/// Length of the shortest possible schema in bytes.
pub(crate) fn schema_size() -> Result<u64, Error> {
    let schema = schema(0, Origin { timestamp: Timestamp::ZERO, unix_ns: 0 });
    let stream = StreamWriter::try_new_with_options(Vec::new(), &schema, packing()?)?;
    Ok(stream.get_ref().len() as u64)
}

pub(crate) fn origin(path: &Path, schema: &Schema) -> Result<Origin, Error> {
    let found = number(path, schema, FORMAT_KEY)?;
    known(path, found)?;
    Ok(Origin { timestamp: Timestamp(number(path, schema, TIMESTAMP_KEY)?), unix_ns: number(path, schema, UNIX_KEY)? })
}

/// Whether this file format is supported.
pub(crate) fn known(path: &Path, found: i64) -> Result<(), Error> {
    match found {
        FORMAT => Ok(()),
        ..FORMAT => Err(Error::Older { path: path.to_owned(), found, known: FORMAT }),
        _ => Err(Error::Newer { path: path.to_owned(), found, known: FORMAT }),
    }
}

fn number<T: std::str::FromStr>(path: &Path, schema: &Schema, key: &str) -> Result<T, Error> {
    let text = schema.metadata().get(key);
    let number = text.and_then(|text| text.parse().ok());
    number.ok_or_else(|| Error::malformed(path, format!("its schema says no {key}: it is not a segment of a log")))
}
