//! The row log of a run: its location, when it is created, and how rows are written and read back.

pub(crate) mod open;
pub(crate) mod resume;
pub(crate) mod rows;
pub(crate) mod store;
mod writer;

use std::path::PathBuf;

pub(crate) use writer::RowLog;

#[derive(Debug, Clone)]
pub struct LogPlan {
    pub directory: PathBuf,
    pub start: LogStart,
    /// Whether a log that cannot be created is an error; otherwise the run continues without it.
    pub required: bool,
    /// Version of the program, for the manifest.
    pub tacho: String,
    pub command: Vec<String>,
    /// Bytes of rows and of values derived from them that stay in memory although they are in the log; beyond that,
    /// the result is computed from the log.
    pub memory: usize,
}

impl LogPlan {
    /// Default memory for rows: short runs never read their log.
    pub const MEMORY: usize = 16 << 20;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogStart {
    /// Before the first request.
    AtOnce,
    /// After a minute: shorter runs are quickly repeated.
    AfterAMinute,
    /// It exists already: this run resumes an earlier one.
    Resumed,
}
