//! The numbers of a long run's requests, in a file without a name beside its log.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use tacho_metrics::samples::Store;
use tacho_metrics::{Gather, Samples};

use crate::Error;

/// A file that is made when something is written to it.
#[derive(Debug)]
struct Beside {
    folder: PathBuf,
    file: OnceLock<Option<File>>,
}

/// Takes samples in: about `room` bytes of them in memory, the others beside the log in `folder`.
pub(crate) fn gather(folder: &Path, room: usize) -> Gather {
    Gather::beyond(room, Box::new(Beside { folder: folder.to_owned(), file: OnceLock::new() }))
}

/// Whether all of them could be read back while the result was made; `folder` is their log.
///
/// # Errors
/// When some could not: the result would be that of another run.
pub(crate) fn check(folder: Option<&Path>, samples: &Samples) -> Result<(), Error> {
    let lost =
        |reason: &str| Error::Aside { folder: folder.unwrap_or(Path::new("")).to_owned(), reason: reason.to_owned() };
    samples.fault().map_or(Ok(()), |reason| Err(lost(reason)))
}

impl Beside {
    fn file(&self) -> io::Result<&File> {
        let file = self.file.get_or_init(|| tacho_workload::anonymous_file(&self.folder).ok());
        file.as_ref().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Store for Beside {
    fn write(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.file()?.write_all_at(bytes, at)
    }

    fn read(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
        self.file()?.read_exact_at(bytes, at)
    }
}
