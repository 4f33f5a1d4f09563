//! The interface of an experiment to its caller: stored results, benchmarks, and servers.

use std::path::Path;

use tacho_core::EventSink;
use tacho_core::json::{Dict, Value, dumps_indented};

use super::{error::Failure, server::Running};

/// Stored results. Each file is written atomically.
pub trait Archive {
    /// The content of a JSON file; `None` if there is none or it cannot be read.
    fn value(&self, path: &Path) -> Option<Value>;
    fn result(&self, path: &Path) -> Option<Dict>;
    fn directories(&self, path: &Path) -> Vec<String>;
    /// Prepares for the result of a run and records that it has started.
    fn begin(&self, path: &Path) -> Result<(), Failure>;
    /// The result that another program's benchmark wrote.
    fn measured(&self, path: &Path) -> Result<Dict, Failure>;
    /// Stores the completed result of a started run.
    fn complete(&self, path: &Path, result: &Dict) -> Result<(), Failure>;
    fn discard(&self, path: &Path);
    fn text(&self, path: &Path, text: &str) -> Result<(), Failure>;
    /// Stores the table of all results so far.
    fn table(&self, rows: &[Dict]) -> Result<(), Failure>;

    /// Stores a list of results, or the description of a failure or of a search result.
    fn keep(&self, path: &Path, value: &Value, style: Style) -> Result<(), Failure> {
        match style {
            Style::Result => self.text(path, &dumps_indented(value, 4)),
            Style::Note => self.text(path, &(dumps_indented(value, 2) + "\n")),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// As results: four spaces, no final newline.
    Result,
    /// As failures: two spaces, a final newline.
    Note,
}

pub trait Bench {
    /// Runs a command and returns its result; `None` if the command is another program, which has written its result to
    /// `output`. Its own output goes to `log` if there is one.
    fn run(&self, command: &[String], output: &Path, log: Option<&Path>) -> Result<Option<Dict>, Failure>;
}

pub trait Host {
    /// Starts a server with these additional environment variables and waits until it is ready. Its output goes to
    /// `log`.
    fn start(
        &self,
        command: &[String],
        variables: &[(String, String)],
        log: &Path,
        sink: &dyn EventSink,
    ) -> Result<Running, Failure>;
}

#[derive(Clone, Copy)]
pub struct Tools<'a> {
    pub archive: &'a dyn Archive,
    pub bench: &'a dyn Bench,
    pub host: &'a dyn Host,
    pub sink: &'a dyn EventSink,
}
