//! Flags about files beside the result; `serve` and `report` share their names.

use std::path::PathBuf;

use super::grammar::Values;

/// What is wanted, and where.
#[derive(Debug, Clone, Default)]
pub(crate) struct Outputs {
    /// `--save-requests`.
    pub(crate) requests: Option<PathBuf>,
    /// `--summary-json`.
    pub(crate) summary: Option<Destination>,
}

/// Where the numbers go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Destination {
    /// `-`: standard output, which then carries nothing else.
    Stdout,
    /// A file.
    File(PathBuf),
}

impl Destination {
    /// What a flag's text means.
    fn of(text: String) -> Self {
        if text == "-" { Destination::Stdout } else { Destination::File(text.into()) }
    }
}

impl From<&Values> for Outputs {
    fn from(v: &Values) -> Self {
        Outputs {
            requests: v.maybe_text("--save-requests").map(Into::into),
            summary: v.maybe_text("--summary-json").map(Destination::of),
        }
    }
}
