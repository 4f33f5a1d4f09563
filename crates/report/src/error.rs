//! Why a report could not be written.

use std::path::PathBuf;

/// A report that could not be written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file could not be opened or made.
    #[error("cannot open {} for writing; check that its folder exists and may be written to", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file was opened but not all of it could be written; what was there before is untouched.
    #[error("cannot write {}; the file is as it was before", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}
