//! Data that does not fit in memory, in an anonymous temporary file that disappears when the process ends, even by a
//! crash.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{OnceLock, PoisonError, RwLock, RwLockReadGuard};
use std::{borrow::Cow, fs::File, io, marker::PhantomData, os::unix::fs::FileExt};

use crate::packed::Pack;

/// An anonymous temporary file, created by the first write. Data that cannot be written stays in memory.
///
/// ```
/// use tacho_core::SpillFile;
///
/// let file = SpillFile::in_directory(&std::env::temp_dir());
/// let span = file.append(b"rows".to_vec());
/// assert_eq!(&*file.read(&span)?, b"rows");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct SpillFile {
    directory: Option<PathBuf>,
    file: OnceLock<Option<File>>,
    end: AtomicU64,
}

/// Bytes that were appended to a spill file.
#[derive(Debug)]
pub enum Span {
    /// In the file.
    #[expect(missing_docs, reason = "the names say it")]
    File { offset: u64, len: usize },
    /// In memory.
    Memory(Vec<u8>),
}

impl Span {
    /// Number of bytes.
    pub fn len(&self) -> usize {
        match self {
            Span::File { len, .. } => *len,
            Span::Memory(bytes) => bytes.len(),
        }
    }

    /// Whether the span is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl SpillFile {
    /// A file in `directory`. The default file has no directory: it keeps everything in memory.
    pub fn in_directory(directory: &Path) -> Self {
        SpillFile { directory: Some(directory.to_owned()), ..SpillFile::default() }
    }

    fn file(&self) -> Option<&File> {
        let directory = self.directory.as_ref();
        self.file.get_or_init(|| tempfile::tempfile_in(directory?).ok()).as_ref()
    }

    /// Appends bytes.
    pub fn append(&self, bytes: Vec<u8>) -> Span {
        let len = bytes.len();
        let offset = self.end.fetch_add(len as u64, Ordering::Relaxed);
        match self.file() {
            Some(file) if file.write_all_at(&bytes, offset).is_ok() => Span::File { offset, len },
            _ => Span::Memory(bytes),
        }
    }

    /// Reads bytes back. Fails when the file cannot be read.
    pub fn read<'a>(&self, span: &'a Span) -> io::Result<Cow<'a, [u8]>> {
        match span {
            Span::Memory(bytes) => Ok(Cow::Borrowed(bytes)),
            Span::File { offset, len } => {
                let mut bytes = vec![0; *len];
                self.file().ok_or(io::ErrorKind::NotFound)?.read_exact_at(&mut bytes, *offset)?;
                Ok(Cow::Owned(bytes))
            }
        }
    }
}

impl From<File> for SpillFile {
    fn from(file: File) -> Self {
        SpillFile { file: OnceLock::from(Some(file)), ..SpillFile::default() }
    }
}

/// Unpacks all values in `bytes`. Fails if `bytes` hold anything else.
pub fn unpack_all<T: Pack>(mut bytes: &[u8]) -> io::Result<Vec<T>> {
    let mut values = Vec::new();
    while !bytes.is_empty() {
        values.push(T::unpack(&mut bytes).ok_or(io::ErrorKind::InvalidData)?);
    }
    Ok(values)
}

/// Approximate size of a chunk in bytes.
const CHUNK: usize = 128 << 10;

/// A list in a spill file, in chunks. It can grow while it is read.
///
/// ```
/// use tacho_core::{SpillFile, SpillList};
///
/// let list = SpillList::new(SpillFile::in_directory(&std::env::temp_dir()));
/// list.extend(["a".to_owned(), "b".to_owned()]);
/// assert_eq!(list.get(1)?, Some("b".to_owned()));
/// assert_eq!(list.get(2)?, None);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct SpillList<T> {
    file: SpillFile,
    chunks: RwLock<Vec<Chunk>>,
    items: PhantomData<fn() -> T>,
}

#[derive(Debug)]
struct Chunk {
    /// Index of the chunk's first item.
    start: usize,
    count: usize,
    span: Span,
}

impl<T> Default for SpillList<T> {
    fn default() -> Self {
        Self::new(SpillFile::default())
    }
}

impl<T> SpillList<T> {
    /// An empty list.
    pub fn new(file: SpillFile) -> Self {
        SpillList { file, chunks: RwLock::default(), items: PhantomData }
    }

    fn lock(&self) -> RwLockReadGuard<'_, Vec<Chunk>> {
        self.chunks.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of items.
    pub fn len(&self) -> usize {
        self.lock().last().map_or(0, |chunk| chunk.start + chunk.count)
    }

    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Number of chunks.
    pub fn chunks(&self) -> usize {
        self.lock().len()
    }

    /// The chunk that holds an item.
    pub fn find(&self, index: usize) -> Option<usize> {
        let chunks = self.lock();
        let chunk = chunks.partition_point(|chunk| chunk.start + chunk.count <= index);
        (chunk < chunks.len()).then_some(chunk)
    }

    /// The index of a chunk's first item, and the chunk's size in bytes.
    pub fn chunk(&self, chunk: usize) -> Option<(usize, usize)> {
        self.lock().get(chunk).map(|chunk| (chunk.start, chunk.span.len()))
    }
}

impl<T: Pack> SpillList<T> {
    /// Appends items. Only one thread may append.
    pub fn extend(&self, items: impl IntoIterator<Item = T>) {
        let (mut bytes, mut count) = (Vec::new(), 0);
        for item in items {
            item.pack(&mut bytes);
            count += 1;
            if bytes.len() >= CHUNK {
                self.push(std::mem::take(&mut bytes), std::mem::take(&mut count));
            }
        }
        if count > 0 {
            self.push(bytes, count);
        }
    }

    fn push(&self, bytes: Vec<u8>, count: usize) {
        let (start, span) = (self.len(), self.file.append(bytes));
        self.chunks.write().unwrap_or_else(PoisonError::into_inner).push(Chunk { start, count, span });
    }

    /// Reads a chunk. Fails if the file cannot be read or is corrupt.
    pub fn read(&self, chunk: usize) -> io::Result<Vec<T>> {
        let chunks = self.lock();
        let span = match &chunks.get(chunk).ok_or(io::ErrorKind::NotFound)?.span {
            Span::Memory(bytes) => return unpack_all(bytes),
            Span::File { offset, len } => Span::File { offset: *offset, len: *len },
        };
        // Read the file without the lock, so that items can be appended meanwhile.
        drop(chunks);
        unpack_all(&self.file.read(&span)?)
    }

    /// Reads one item. Fails if the file cannot be read or is corrupt.
    pub fn get(&self, index: usize) -> io::Result<Option<T>> {
        let Some(chunk) = self.find(index) else { return Ok(None) };
        let start = self.chunk(chunk).map_or(0, |(start, _)| start);
        Ok(self.read(chunk)?.into_iter().nth(index - start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(count: usize) -> impl Iterator<Item = String> {
        (0..count).map(|at| "x".repeat(at % 700))
    }

    #[test]
    fn a_file_left_by_another_process_changes_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let left = directory.path().join(format!(".tacho-aside-{}", std::process::id()));
        std::fs::write(&left, "left").unwrap();
        let file = SpillFile::in_directory(directory.path());
        assert!(matches!(file.append(b"one".to_vec()), Span::File { offset: 0, len: 3 }));
        let second = file.append(b"second".to_vec());
        assert_eq!(&*file.read(&second).unwrap(), b"second");
        // Two files of one process are distinct, and neither has a name.
        let other = SpillFile::in_directory(directory.path());
        assert!(matches!(other.append(b"other".to_vec()), Span::File { offset: 0, .. }));
        assert_eq!(&*file.read(&second).unwrap(), b"second");
        let names: Vec<_> = std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!((names, std::fs::read(&left).unwrap()), (vec![left], b"left".to_vec()));
    }

    #[test]
    fn what_cannot_be_written_stays_in_memory() {
        let full = File::options().write(true).open("/dev/full").unwrap();
        for file in [SpillFile::default(), SpillFile::in_directory(Path::new("/nowhere/at/all")), full.into()] {
            let list = SpillList::new(file);
            list.extend(texts(2_000));
            assert!(list.lock().iter().all(|chunk| matches!(chunk.span, Span::Memory(_))));
            assert!((0..2_000).zip(texts(2_000)).all(|(at, text)| list.get(at).unwrap() == Some(text)));
        }
    }

    #[test]
    fn a_list_is_read_in_chunks_while_it_grows() {
        let directory = tempfile::tempdir().unwrap();
        let list = SpillList::new(SpillFile::in_directory(directory.path()));
        list.extend(texts(1_000));
        let all = |list: &SpillList<String>| {
            (0..list.chunks()).flat_map(|chunk| list.read(chunk).unwrap()).collect::<Vec<String>>()
        };
        assert_eq!(all(&list), texts(1_000).collect::<Vec<_>>());
        list.extend(texts(300));
        assert_eq!((list.len(), all(&list).len()), (1_300, 1_300));
        assert_eq!(list.get(1_299).unwrap(), texts(300).last());
        assert_eq!((list.get(1_300).unwrap(), list.find(1_300)), (None, None));
    }

    #[test]
    fn a_file_that_cannot_be_read_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let write_only = File::create(directory.path().join("file")).unwrap();
        let list = SpillList::new(write_only.into());
        list.extend(texts(3));
        assert!(list.read(0).is_err());
        assert!(unpack_all::<String>(&[9, b'x']).is_err());
    }
}
