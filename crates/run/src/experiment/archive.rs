//! The interface of an experiment to its caller: stored results, benchmarks, and servers.

use std::path::Path;

use tacho_core::json::{Dict, Value};

use super::error::Failure;

/// Stored results. Each file is written atomically.
pub trait Archive {
    /// The result of a completed run; `None` if there is none or it cannot be read.
    fn result(&self, path: &Path) -> Option<Dict>;
    /// Returns whether there is a readable file of any kind.
    fn has(&self, path: &Path) -> bool;
    fn list(&self, path: &Path) -> Option<Vec<Value>>;
    /// The names of the subdirectories of a directory.
    fn directories(&self, path: &Path) -> Vec<String>;
    /// Prepares for the result of a run and records that it has started.
    fn begin(&self, path: &Path) -> Result<(), Failure>;
    /// The result that the benchmark wrote.
    fn measured(&self, path: &Path) -> Result<Dict, Failure>;
    /// Stores the completed result of a started run.
    fn complete(&self, path: &Path, result: &Dict) -> Result<(), Failure>;
    /// Discards a started run.
    fn discard(&self, path: &Path);
    /// Stores a list of results, or the description of a failure or of a search result.
    fn keep(&self, path: &Path, value: &Value, style: Style) -> Result<(), Failure>;
    fn text(&self, path: &Path, text: &str) -> Result<(), Failure>;
    /// Stores the table of all results so far.
    fn table(&self, rows: &[Dict]) -> Result<(), Failure>;
}

/// The layout of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// As results: four spaces, no final newline.
    Result,
    /// As failures: two spaces, a final newline.
    Note,
}

pub trait Bench {
    /// Runs a command, which writes its result to `output`. Its own output goes to `log` if there is one.
    fn run(&self, command: &[String], output: &Path, log: Option<&Path>) -> Result<(), Failure>;
}

pub trait Host {
    /// Starts a server with these additional environment variables and waits until it is ready. Its output goes to
    /// `log`.
    fn start(
        &self,
        command: &[String],
        variables: &[(String, String)],
        log: &Path,
    ) -> Result<Box<dyn Running>, Failure>;
}

/// A server that runs until it is dropped.
pub trait Running {
    /// Its URL, as `http://host:port`.
    fn address(&self) -> String;
    /// Why it no longer runs, if it does not.
    fn lost(&mut self) -> Option<Failure>;
}
