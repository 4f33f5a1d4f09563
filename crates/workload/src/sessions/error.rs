//! Errors of reading session files: what, where and what to do.

use std::fmt;
use std::path::{Path, PathBuf};

use tacho_core::json::ParseError;

/// Why a file of sessions cannot be read or replayed.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error(transparent)]
    Source(#[from] Box<crate::Error>),
    #[error("{location}: no sessions: the file has no rows")]
    Empty { location: Location },
    #[error("{location}: not JSON")]
    NotJson { location: Location, source: ParseError },
    #[error("{location}: {field}: {problem}")]
    Field { location: Location, field: String, problem: String },
    #[error("{location}: {problem}")]
    Graph { location: Location, problem: String },
    #[error(
        "{location}: these rows can be read as {candidates}: name one with --sessions-format, or --format of tacho convert"
    )]
    Ambiguous { location: Location, candidates: String },
    #[error(
        "{location}: no known trace format has the fields {found}: docs/reference/trace-formats.md lists the fields of each; --sessions-format, or --format of tacho convert, names one"
    )]
    Unknown { location: Location, found: String },
    #[error("{name:?} is not a known format: use one of {known}")]
    NoFormat { name: String, known: String },
    #[error("--option {name} (of a run --sessions-option): {problem}")]
    Option { name: String, problem: String },
    #[error("{flag}: {problem}")]
    Setting { flag: &'static str, problem: String },
}

impl TraceError {
    /// Whether the command line is at fault, rather than the file.
    pub fn is_usage(&self) -> bool {
        matches!(self, TraceError::NoFormat { .. } | TraceError::Option { .. } | TraceError::Setting { .. })
    }
}

/// A file, and a line in it if there is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    pub path: PathBuf,
    /// The line, from 1.
    pub line: Option<usize>,
}

impl Location {
    pub(crate) fn file(path: &Path) -> Self {
        Location { path: path.to_path_buf(), line: None }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.path.display())?;
        self.line.map_or(Ok(()), |line| write!(out, ", line {line}"))
    }
}
