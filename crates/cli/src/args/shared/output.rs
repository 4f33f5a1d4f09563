//! Flags for files next to the result; `serve` and `report` share their names.

use std::path::PathBuf;

use tacho_args::typed::FromWord;
use tacho_report::console::Shown;

/// Requested output files and their paths.
#[derive(Debug, Clone, Default)]
pub(crate) struct Outputs {
    /// `--save-requests`.
    pub(crate) requests: Option<PathBuf>,
    /// `--report`, or `--html` of `tacho report`.
    pub(crate) page: Option<PathBuf>,
    /// `--card`.
    pub(crate) card: Option<PathBuf>,
    /// `--summary-json`.
    pub(crate) summary: Option<Destination>,
    /// `--verbose` and `--no-charts`.
    pub(crate) shown: Shown,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Destination {
    /// `-`: standard output, which then has no other output.
    Stdout,
    File(PathBuf),
}

impl FromWord for Destination {
    fn from_word(word: &str) -> Self {
        match word {
            "-" => Destination::Stdout,
            file => Destination::File(file.into()),
        }
    }
}
