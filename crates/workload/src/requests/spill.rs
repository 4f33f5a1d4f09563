//! Requests spilled to an anonymous temporary file, in chunks. Chunks that cannot be written stay in memory.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use tacho_core::Request;

use super::packed;

/// Bytes that are written and read at a time, about.
const CHUNK: usize = 128 << 10;

/// Requests that are read back when they are needed. More may be added while some are read.
#[derive(Debug, Default)]
pub struct RequestSpill {
    file: Option<File>,
    chunks: RwLock<Vec<Chunk>>,
}

#[derive(Debug)]
struct Chunk {
    /// Index of its first request.
    start: usize,
    count: usize,
    bytes: usize,
    held: Held,
}

#[derive(Debug)]
enum Held {
    /// From this place in the file on.
    File(u64),
    Memory(Vec<u8>),
}

impl RequestSpill {
    /// Spills to a file in `directory`, or keeps all in memory if none can be made there.
    pub(super) fn in_directory(directory: &Path) -> Self {
        RequestSpill { file: anonymous_file(directory).ok(), ..RequestSpill::default() }
    }

    /// Adds requests behind those that are there. One thread adds.
    pub fn add(&self, requests: impl IntoIterator<Item = Request>) {
        let (mut bytes, mut count) = (Vec::new(), 0);
        for request in requests {
            packed::pack(&mut bytes, &request);
            count += 1;
            if bytes.len() >= CHUNK {
                self.put(std::mem::take(&mut bytes), std::mem::take(&mut count));
            }
        }
        if count > 0 {
            self.put(bytes, count);
        }
    }

    fn put(&self, packed: Vec<u8>, count: usize) {
        let (offset, start, bytes) = (self.written(), self.len(), packed.len());
        let written = self.file.as_ref().is_some_and(|file| file.write_all_at(&packed, offset).is_ok());
        let held = if written { Held::File(offset) } else { Held::Memory(packed) };
        let mut chunks = self.chunks.write().unwrap_or_else(PoisonError::into_inner);
        chunks.push(Chunk { start, count, bytes, held });
    }

    /// Where the file ends.
    fn written(&self) -> u64 {
        let end = |chunk: &Chunk| match chunk.held {
            Held::File(offset) => Some(offset + chunk.bytes as u64),
            Held::Memory(_) => None,
        };
        self.look().iter().rev().find_map(end).unwrap_or(0)
    }

    fn look(&self) -> RwLockReadGuard<'_, Vec<Chunk>> {
        self.chunks.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.look().last().map_or(0, |chunk| chunk.start + chunk.count)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.look().is_empty()
    }

    /// Number of chunks.
    pub fn chunks(&self) -> usize {
        self.look().len()
    }

    /// The chunk that holds an index.
    pub fn find(&self, place: usize) -> Option<usize> {
        let chunks = self.look();
        let chunk = chunks.partition_point(|chunk| chunk.start + chunk.count <= place);
        (chunk < chunks.len()).then_some(chunk)
    }

    /// Index of a chunk's first request, and its bytes.
    pub fn part(&self, chunk: usize) -> Option<(usize, usize)> {
        self.look().get(chunk).map(|chunk| (chunk.start, chunk.bytes))
    }

    /// Reads a chunk.
    ///
    /// # Errors
    /// When the file cannot be read, or does not hold what was written.
    pub fn read(&self, chunk: usize) -> io::Result<Vec<Request>> {
        let chunks = self.look();
        let chunk = chunks.get(chunk).ok_or(io::ErrorKind::NotFound)?;
        let (offset, bytes, count) = match &chunk.held {
            Held::Memory(packed) => return unpacked(packed, chunk.count),
            Held::File(offset) => (*offset, chunk.bytes, chunk.count),
        };
        drop(chunks);
        let mut packed = vec![0; bytes];
        self.file.as_ref().ok_or(io::ErrorKind::NotFound)?.read_exact_at(&mut packed, offset)?;
        unpacked(&packed, count)
    }

    pub(super) fn get(&self, place: usize) -> io::Result<Option<Request>> {
        let Some(chunk) = self.find(place) else { return Ok(None) };
        let start = self.part(chunk).map_or(0, |(start, _)| start);
        Ok(self.read(chunk)?.into_iter().nth(place - start))
    }
}

fn unpacked(mut packed: &[u8], count: usize) -> io::Result<Vec<Request>> {
    (0..count).map(|_| packed::unpack(&mut packed).ok_or(io::ErrorKind::InvalidData.into())).collect()
}

/// An anonymous temporary file in `directory`: it disappears with this process, however that ends.
///
/// # Errors
/// When none can be made there.
pub fn anonymous_file(directory: &Path) -> io::Result<File> {
    let path = directory.join(format!(".tacho-aside-{}", std::process::id()));
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}
