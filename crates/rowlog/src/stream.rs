//! Reads an Arrow IPC stream defensively: the file may end anywhere, and its lengths may be wrong. Nothing is allocated
//! beyond the file's own size or the limit on a batch.

use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::{collections::HashMap, fs::File, sync::Arc};

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::convert::try_fb_to_schema;
use arrow_ipc::reader::RecordBatchDecoder;
use arrow_ipc::{Message, MessageHeader, MetadataVersion, root_as_message};
use arrow_schema::{DataType, Schema, SchemaRef};

use crate::Error;

/// Precedes every message and is followed by its length.
const CONTINUATION: u32 = u32::MAX;
/// Maximum length of a batch's metadata.
const MAX_DESCRIPTION: u64 = 16 << 20;
/// Maximum decompressed size of a batch; a writer stays well below.
const MAX_UNPACKED: u64 = 1 << 30;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tail {
    Closed,
    /// After a complete batch: the writer is running, or ended without closing it.
    Open,
    /// In the middle of a batch.
    Torn {
        /// Length of the complete part in bytes.
        whole: u64,
        /// Number of bytes after it.
        lost: u64,
    },
}

pub(crate) struct Stream {
    path: PathBuf,
    input: Box<dyn Read + Send>,
    size: u64,
    /// Everything before this offset is complete.
    at: u64,
    schema: SchemaRef,
    tail: Option<Tail>,
}

/// A message in the file.
struct Frame {
    description: Vec<u8>,
    body: Buffer,
    size: u64,
}

impl Stream {
    /// Opens a file and reads its schema; `None` if not even that is complete.
    pub(crate) fn open(path: &Path) -> Result<Option<Self>, Error> {
        Self::of(path, File::open(path).map_err(Error::read(path))?)
    }

    /// Reads an open file from its start; `path` is for messages.
    pub(crate) fn of(path: &Path, file: File) -> Result<Option<Self>, Error> {
        let size = file.metadata().map_err(Error::read(path))?.len();
        Self::over(path, size, Box::new(BufReader::with_capacity(1 << 18, file)))
    }

    /// Reads any input of this many bytes.
    pub(crate) fn over(path: &Path, size: u64, input: Box<dyn Read + Send>) -> Result<Option<Self>, Error> {
        let schema = Arc::new(Schema::empty());
        let mut stream = Stream { path: path.to_owned(), input, size, at: 0, schema, tail: None };
        let Some(frame) = stream.frame()? else { return Ok(None) };
        let schema = root_as_message(&frame.description).ok().and_then(|message| schema_of(&message));
        match schema {
            Some(schema) => stream.schema = Arc::new(schema),
            None => return Ok(None),
        }
        stream.at += frame.size;
        Ok(Some(stream))
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The state of the end; `None` before it was reached.
    pub(crate) fn tail(&self) -> Option<Tail> {
        self.tail
    }

    /// End of the complete messages so far, in bytes.
    pub(crate) fn whole(&self) -> u64 {
        self.at
    }

    pub(crate) fn next_batch(&mut self) -> Result<Option<RecordBatch>, Error> {
        if self.tail.is_some() {
            return Ok(None);
        }
        let Some(frame) = self.frame()? else { return Ok(None) };
        match batch_of(&frame, &self.schema) {
            Some(batch) => {
                self.at += frame.size;
                Ok(Some(batch))
            }
            None => {
                self.tear();
                Ok(None)
            }
        }
    }

    /// Marks everything from `at` on as lost.
    pub(crate) fn tear_at(&mut self, at: u64) {
        self.at = at;
        self.tear();
    }

    /// Marks everything from here on as lost.
    fn tear(&mut self) {
        self.tail = Some(Tail::Torn { whole: self.at, lost: self.size - self.at });
    }

    /// The next message, if it is complete; otherwise the tail is known.
    fn frame(&mut self) -> Result<Option<Frame>, Error> {
        let left = self.size.saturating_sub(self.at);
        if left == 0 {
            self.tail = Some(Tail::Open);
            return Ok(None);
        }
        let mut head = [0; 8];
        if left < head.len() as u64 || !self.fill(&mut head)? {
            self.tear();
            return Ok(None);
        }
        let [a, b, c, d, e, f, g, h] = head;
        let length = u64::from(u32::from_le_bytes([e, f, g, h]));
        match u32::from_le_bytes([a, b, c, d]) {
            CONTINUATION if length == 0 => self.tail = Some(Tail::Closed),
            CONTINUATION if length <= MAX_DESCRIPTION && length <= left - 8 => return self.message(length, left - 8),
            _ => self.tear(),
        }
        Ok(None)
    }

    fn message(&mut self, length: u64, left: u64) -> Result<Option<Frame>, Error> {
        let mut description = vec![0; length as usize];
        if !self.fill(&mut description)? {
            self.tear();
            return Ok(None);
        }
        let body = root_as_message(&description).ok().and_then(|message| u64::try_from(message.bodyLength()).ok());
        let Some(body) = body.filter(|&body| body <= left - length) else {
            self.tear();
            return Ok(None);
        };
        let mut bytes = vec![0; body as usize];
        if !self.fill(&mut bytes)? {
            self.tear();
            return Ok(None);
        }
        Ok(Some(Frame { description, body: Buffer::from_vec(bytes), size: 8 + length + body }))
    }

    /// Fills the buffer; returns `false` if the file was truncated meanwhile.
    fn fill(&mut self, bytes: &mut [u8]) -> Result<bool, Error> {
        match self.input.read_exact(bytes) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
            Err(error) => Err(Error::read(&self.path)(error)),
        }
    }
}

fn schema_of(message: &Message<'_>) -> Option<Schema> {
    try_fb_to_schema(message.header_as_schema()?).ok()
}

/// The batch of a message; `None` if it is another kind of message or inconsistent.
fn batch_of(frame: &Frame, schema: &SchemaRef) -> Option<RecordBatch> {
    let message = root_as_message(&frame.description).ok()?;
    if message.header_type() != MessageHeader::RecordBatch || message.version() != MetadataVersion::V5 {
        return None;
    }
    let described = message.header_as_record_batch()?;
    plausible(&described, schema, &frame.body).then_some(())?;
    let dictionaries = HashMap::new();
    let version = message.version();
    RecordBatchDecoder::try_new(&frame.body, described, schema.clone(), &dictionaries, &version)
        .and_then(RecordBatchDecoder::read_record_batch)
        .ok()
}

/// Whether every buffer lies inside the message and has a valid size for its column, and all of them decompress to a
/// bounded size. The decoder trusts these numbers: it would allocate what they claim, and panic at invalid ones.
fn plausible(described: &arrow_ipc::RecordBatch<'_>, schema: &Schema, body: &Buffer) -> bool {
    let rows = |length: i64| (0..=MAX_UNPACKED as i64).contains(&length);
    let counts = described.nodes().is_some_and(|nodes| {
        nodes.iter().all(|node| rows(node.length()) && (0..=node.length()).contains(&node.null_count()))
    });
    let Some((widths, buffers)) = widths(schema).zip(described.buffers()) else { return false };
    let packed = described.compression().is_some();
    let sizes = buffers.iter().map(|buffer| size_of_buffer(buffer, body, packed));
    let fits = sizes.clone().zip(&widths).all(|(size, width)| size.is_some_and(|size| size % width == 0));
    let total = sizes.fold(0u64, |total, size| total.saturating_add(size.unwrap_or(u64::MAX)));
    let as_many = buffers.len() == widths.len() && described.variadicBufferCounts().is_none();
    rows(described.length()) && counts && as_many && fits && total <= MAX_UNPACKED
}

/// Bytes per entry in each buffer of a batch; `None` if a column has an unsupported type.
fn widths(schema: &Schema) -> Option<Vec<u64>> {
    let mut widths = Vec::new();
    schema.fields().iter().all(|field| add_widths(field.data_type(), &mut widths)).then_some(widths)
}

fn add_widths(of: &DataType, widths: &mut Vec<u64>) -> bool {
    // The first buffer of each column is its validity bitmap.
    match of {
        DataType::Int64 | DataType::Float64 => widths.extend([1, 8]),
        DataType::Int32 => widths.extend([1, 4]),
        DataType::Utf8 | DataType::Binary => widths.extend([1, 4, 1]),
        DataType::List(item) => {
            widths.extend([1, 4]);
            return add_widths(item.data_type(), widths);
        }
        _ => return false,
    }
    true
}

/// The decompressed size of a buffer; `None` if it does not lie inside the body.
fn size_of_buffer(buffer: &arrow_ipc::Buffer, body: &Buffer, packed: bool) -> Option<u64> {
    let (start, length) = (usize::try_from(buffer.offset()).ok()?, usize::try_from(buffer.length()).ok()?);
    let bytes = body.get(start..start.checked_add(length)?)?;
    if !packed || bytes.is_empty() {
        return Some(length as u64);
    }
    let unpacked = i64::from_le_bytes(bytes.get(..8)?.try_into().ok()?);
    // A buffer that compression did not shrink has -1 and is stored uncompressed.
    if unpacked == -1 { Some(length as u64 - 8) } else { u64::try_from(unpacked).ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_lies_inside_its_message() {
        let body = |unpacked: i64| Buffer::from_vec([unpacked.to_le_bytes(), [7; 8]].concat());
        let size = |offset, length, unpacked, packed| {
            size_of_buffer(&arrow_ipc::Buffer::new(offset, length), &body(unpacked), packed)
        };
        let plain = [(0, 16), (8, 8), (16, 0), (9, 8), (0, 17), (-1, 8), (0, -1), (i64::MAX, 8)];
        let expected = [Some(16), Some(8), Some(0), None, None, None, None, None];
        assert_eq!(plain.map(|(offset, length)| size(offset, length, 0, false)), expected);
        // Compressed: the size that it claims, -1 for what is stored as it is.
        assert_eq!([100, 0, -1, -2].map(|claimed| size(0, 16, claimed, true)), [Some(100), Some(0), Some(8), None]);
        assert_eq!([size(0, 0, 5, true), size(0, 7, 5, true), size(0, 8, 5, true)], [Some(0), None, Some(5)]);
    }

    #[test]
    fn columns_have_the_buffers_of_their_types() {
        let of = |of: DataType| widths(&Schema::new(vec![arrow_schema::Field::new("a", of, true)]));
        assert_eq!([of(DataType::Int64), of(DataType::Float64)], [Some(vec![1, 8]), Some(vec![1, 8])]);
        assert_eq!((of(DataType::Int32), of(DataType::Binary)), (Some(vec![1, 4]), Some(vec![1, 4, 1])));
        assert_eq!(
            (of(DataType::new_list(DataType::Int64, true)), of(DataType::Boolean)),
            (Some(vec![1, 4, 1, 8]), None)
        );
    }
}
