//! The row log of a run: where it is, when it begins, how rows reach it and come back from it.

pub(crate) mod open;
pub(crate) mod resume;
pub(crate) mod rows;
pub(crate) mod store;
pub(crate) mod texts;
mod writer;

use std::path::PathBuf;

pub(crate) use writer::RowLog;

/// Where and when the rows of a run are logged.
#[derive(Debug, Clone)]
pub struct LogPlan {
    /// The directory.
    pub directory: PathBuf,
    /// When it is begun.
    pub start: LogStart,
    /// Whether a log that cannot be created is an error; otherwise the run continues without it.
    pub required: bool,
    /// The program that runs, for the manifest.
    pub tacho: String,
    /// The command line without secrets.
    pub command: Vec<String>,
    /// Bytes of rows, and of what is made of them, that stay in memory although they are in the log; beyond them the result
    /// reads the log.
    pub room: usize,
}

impl LogPlan {
    /// Room for rows where nothing else is said: short runs never read their log.
    pub const ROOM: usize = 16 << 20;
}

/// When a log is begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogStart {
    /// Before the first request.
    AtOnce,
    /// After a minute: shorter runs are quickly repeated.
    AfterAMinute,
    /// It exists: this run resumes an earlier one.
    Resumed,
}
