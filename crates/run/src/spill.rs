//! Spill file of a long run: samples that do not fit in memory, in an anonymous file next to the log.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use tacho_metrics::samples::Store;
use tacho_metrics::{Gather, Samples};

use crate::Error;

/// An anonymous file, created by the first write.
#[derive(Debug)]
struct SpillFile {
    directory: PathBuf,
    file: OnceLock<Option<File>>,
}

/// Collects samples: about `room` bytes in memory, the rest next to the log in `directory`.
pub(crate) fn gather(directory: &Path, room: usize) -> Gather {
    Gather::beyond(room, Box::new(SpillFile { directory: directory.to_owned(), file: OnceLock::new() }))
}

/// Checks that all spilled samples could be read back; `directory` is their log.
///
/// # Errors
/// When some could not: the result would be wrong.
pub(crate) fn check(directory: Option<&Path>, samples: &Samples) -> Result<(), Error> {
    let lost = |reason: &str| Error::Spill {
        directory: directory.unwrap_or(Path::new("")).to_owned(),
        reason: reason.to_owned(),
    };
    samples.fault().map_or(Ok(()), |reason| Err(lost(reason)))
}

impl SpillFile {
    fn file(&self) -> io::Result<&File> {
        let file = self.file.get_or_init(|| tacho_workload::anonymous_file(&self.directory).ok());
        file.as_ref().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Store for SpillFile {
    fn write(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.file()?.write_all_at(bytes, at)
    }

    fn read(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
        self.file()?.read_exact_at(bytes, at)
    }
}
