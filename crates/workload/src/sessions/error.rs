//! Why a file of sessions cannot be read: what, where and what to do.

use std::fmt;
use std::path::{Path, PathBuf};

use tacho_core::json::ParseError;

/// Why a file of sessions cannot be read or replayed.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The file has another reader's trouble: packed, or a table.
    #[error(transparent)]
    Source(#[from] Box<crate::Error>),
    /// There is nothing in it.
    #[error("{place}: no sessions: there is no row to make a request of")]
    Empty {
        /// The file.
        place: Place,
    },
    /// A line, or the file, is not JSON.
    #[error("{place}: not JSON")]
    NotJson {
        /// Where.
        place: Place,
        /// Why.
        #[source]
        source: ParseError,
    },
    /// A field is not as the format has it.
    #[error("{place}: {field}: {problem}")]
    Field {
        /// Where.
        place: Place,
        /// The field, with the way to it.
        field: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The rows as a whole cannot be.
    #[error("{place}: {problem}")]
    Graph {
        /// The file.
        place: Place,
        /// What is wrong.
        problem: String,
    },
    /// Rows that several formats have.
    #[error(
        "{place}: these rows can be read as {candidates}: name one with --sessions-format, or --format of tacho convert"
    )]
    Ambiguous {
        /// The file.
        place: Place,
        /// The formats, with "or" between.
        candidates: String,
    },
    /// Rows that no format has.
    #[error(
        "{place}: no known format has rows with the fields {found}: name one with --sessions-format, or --format of tacho convert ({known})"
    )]
    Unknown {
        /// The file.
        place: Place,
        /// Fields of the first row.
        found: String,
        /// The formats there are.
        known: String,
    },
    /// A format that there is not.
    #[error("{name:?} is not a known format: use one of {known}")]
    NoFormat {
        /// What was given.
        name: String,
        /// The formats there are.
        known: String,
    },
    /// An option that the format does not have, or a value it does not take.
    #[error("--option {name} (of a run --sessions-option): {problem}")]
    Option {
        /// What was given.
        name: String,
        /// What is wrong with it.
        problem: String,
    },
    /// Something asked of sessions that they cannot give.
    #[error("{flag}: {problem}")]
    Setting {
        /// The flag.
        flag: &'static str,
        /// What is wrong.
        problem: String,
    },
}

impl TraceError {
    /// Whether the command line asks for what cannot be, rather than the file being wrong.
    pub fn is_usage(&self) -> bool {
        matches!(self, TraceError::NoFormat { .. } | TraceError::Option { .. } | TraceError::Setting { .. })
    }
}

/// A file, and a line of it where there is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file.
    pub path: PathBuf,
    /// The line, from 1.
    pub line: Option<usize>,
}

impl Place {
    /// The file as a whole.
    pub(crate) fn file(path: &Path) -> Self {
        Place { path: path.to_path_buf(), line: None }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.path.display())?;
        self.line.map_or(Ok(()), |line| write!(out, ", line {line}"))
    }
}
