//! Errors of the log.

use std::io;
use std::path::{Path, PathBuf};

use arrow_schema::ArrowError;

/// Why a log could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{path} already holds the log of a run: choose another directory, or continue it with --resume {path}")]
    Exists { path: PathBuf },
    #[error("{path} {}", if path.exists() { "does not hold the log of a run: it has no manifest.json" } else { "does not exist: pass the directory of a log, NAME.rows" })]
    Missing { path: PathBuf },
    #[error("the log in {path} is being written by another run")]
    Busy { path: PathBuf },
    #[error("{path}: {reason}")]
    Malformed { path: PathBuf, reason: String },
    #[error("{path} has log format {found}, and this tacho reads {known}: use a newer tacho")]
    Newer { path: PathBuf, found: i64, known: i64 },
    #[error("{path} has log format {found}, and this tacho reads {known}: use the tacho that wrote it")]
    Older { path: PathBuf, found: i64, known: i64 },
    #[error("cannot write {path}")]
    Write { path: PathBuf, source: io::Error },
    #[error("cannot read {path}")]
    Read { path: PathBuf, source: io::Error },
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
}
