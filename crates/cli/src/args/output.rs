//! Flags about files next to the result; `serve` and `report` share their names.

use std::path::PathBuf;

use tacho_args::grammar::Values;
use tacho_report::console::Shown;

/// What is wanted, and where.
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

impl Outputs {
    /// Reads the flags; `page` is the one that names the page.
    pub(crate) fn read(v: &Values, page: &str) -> Self {
        Outputs {
            requests: v.maybe_text("--save-requests").map(Into::into),
            page: v.maybe_text(page).map(Into::into),
            card: v.maybe_text("--card").map(Into::into),
            summary: v.maybe_text("--summary-json").map(Destination::of),
            shown: Shown { verbose: v.switch("--verbose"), no_charts: v.switch("--no-charts") },
        }
    }
}
