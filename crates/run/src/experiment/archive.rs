//! What an experiment needs from its caller: stored results, a way to run a benchmark, and servers.

use std::path::Path;

use tacho_core::json::{Dict, Value};

use super::error::Failure;

/// Stored results. Each file is written whole or not at all.
pub trait Archive {
    /// The result of a run that was completed; nothing when there is none or it cannot be read.
    fn result(&self, path: &Path) -> Option<Dict>;
    /// Whether there is a readable file of any kind.
    fn has(&self, path: &Path) -> bool;
    /// A stored list.
    fn list(&self, path: &Path) -> Option<Vec<Value>>;
    /// The names of the subdirectories of a directory.
    fn directories(&self, path: &Path) -> Vec<String>;
    /// Makes room for the result of a run and notes that it has begun.
    fn begin(&self, path: &Path) -> Result<(), Failure>;
    /// What the benchmark wrote there.
    fn measured(&self, path: &Path) -> Result<Dict, Failure>;
    /// Stores the completed result of a run that has begun.
    fn complete(&self, path: &Path, result: &Dict) -> Result<(), Failure>;
    /// Forgets a run that has begun.
    fn discard(&self, path: &Path);
    /// Stores a list of results, or the description of a failure or an answer.
    fn keep(&self, path: &Path, value: &Value, style: Style) -> Result<(), Failure>;
    /// Stores a text.
    fn text(&self, path: &Path, text: &str) -> Result<(), Failure>;
    /// Stores the table of all results so far.
    fn table(&self, rows: &[Dict]) -> Result<(), Failure>;
}

/// How a file is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// As results: four blanks, no line end.
    Result,
    /// As failures: two blanks, a line end.
    Note,
}

/// Runs benchmark commands.
pub trait Bench {
    /// Runs one; its result is then at `output`. What it prints goes to `log` if there is one.
    fn run(&self, command: &[String], output: &Path, log: Option<&Path>) -> Result<(), Failure>;
}

/// Starts servers.
pub trait Host {
    /// Starts one with these further environment variables and waits until it is ready. What it says goes to `log`.
    fn start(
        &self,
        command: &[String],
        variables: &[(String, String)],
        log: &Path,
    ) -> Result<Box<dyn Running>, Failure>;
}

/// A server that runs until it is dropped.
pub trait Running {
    /// Where it is, as `http://host:port`.
    fn address(&self) -> String;
    /// Why it no longer runs, if so.
    fn lost(&mut self) -> Option<Failure>;
}
