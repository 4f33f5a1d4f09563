//! What is wrong with a test file.

use std::path::PathBuf;

use tacho_core::json::ParseError;

/// A suite that cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum SuiteError {
    /// Not JSON.
    #[error("{}: not JSON: {fault}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// What the reader said.
        fault: ParseError,
    },
    /// A part of the file is not what it must be.
    #[error("{}: {place} must be {wanted}", path.display())]
    Shape {
        /// The file.
        path: PathBuf,
        /// Which part.
        place: String,
        /// What is wanted there.
        wanted: &'static str,
    },
    /// A name that says no kind of test.
    #[error(
        "{}: the test name {name:?} must begin with serving_, latency_, throughput_ or startup_, as all others of \
         the file",
        path.display()
    )]
    Name {
        /// The file.
        path: PathBuf,
        /// The name.
        name: String,
    },
    /// Two tests of one name would write the same files.
    #[error("{}: the name {name:?} is given to more than one test: make the names unique", path.display())]
    RepeatedName {
        /// The file.
        path: PathBuf,
        /// The name.
        name: String,
    },
    /// A value that cannot be split into words.
    #[error("{}: {name}: {key}: {what}", path.display())]
    Value {
        /// The file.
        path: PathBuf,
        /// The test.
        name: String,
        /// The parameter.
        key: String,
        /// What is wrong.
        what: String,
    },
}
