//! What can go wrong with a log.

use std::io;
use std::path::{Path, PathBuf};

use arrow_schema::ArrowError;

/// A log could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A new log must not be mixed with an old one.
    #[error("{path} already holds the log of a run: choose another directory, or resume it")]
    Exists {
        /// The folder.
        path: PathBuf,
    },
    /// There is no log.
    #[error("{path} does not hold the log of a run: it has no manifest.json")]
    Missing {
        /// The folder.
        path: PathBuf,
    },
    /// Two runs must not write one log.
    #[error("the log in {path} is being written by another run")]
    Busy {
        /// The folder.
        path: PathBuf,
    },
    /// A file is not what it should be.
    #[error("{path}: {reason}")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A newer tacho has written it.
    #[error("{path} has log format {found}, and this tacho reads {known}: use a newer tacho")]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: i64,
        /// The newest that is known here.
        known: i64,
    },
    /// A tacho before the first release has written it.
    #[error("{path} has log format {found}, and this tacho reads {known}: use the tacho that wrote it")]
    Older {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: i64,
        /// The one that is known here.
        known: i64,
    },
    /// A file could not be written.
    #[error("cannot write {path}")]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A file could not be read.
    #[error("cannot read {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Rows could not be made into a batch.
    #[error("cannot encode rows")]
    Encode(#[from] ArrowError),
}

impl Error {
    pub(crate) fn write(path: &Path) -> impl FnOnce(io::Error) -> Error + '_ {
        |source| Error::Write { path: path.to_owned(), source }
    }

    pub(crate) fn read(path: &Path) -> impl FnOnce(io::Error) -> Error + '_ {
        |source| Error::Read { path: path.to_owned(), source }
    }

    pub(crate) fn malformed(path: &Path, reason: impl ToString) -> Error {
        Error::Malformed { path: path.to_owned(), reason: reason.to_string() }
    }

    /// Whether the disk, or what may be used of it, is full.
    pub fn is_full_disk(&self) -> bool {
        let kinds = [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded, io::ErrorKind::FileTooLarge];
        matches!(self, Error::Write { source, .. } if kinds.contains(&source.kind()))
    }
}
