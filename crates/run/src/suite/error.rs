//! Errors in a test file.

use std::path::PathBuf;

use tacho_core::json::ParseError;

/// Why a suite cannot be run.
#[expect(missing_docs, reason = "the message says it")]
#[derive(Debug, thiserror::Error)]
pub enum SuiteError {
    #[error("{}: not JSON: {fault}", path.display())]
    Json { path: PathBuf, fault: ParseError },
    #[error("{}: {place} must be {wanted}", path.display())]
    Shape { path: PathBuf, place: String, wanted: &'static str },
    #[error(
        "{}: the test name {name:?} must begin with serving_, latency_, throughput_ or startup_, as all others of \
         the file, and be a file name",
        path.display()
    )]
    Name { path: PathBuf, name: String },
    #[error("{}: the name {name:?} is given to more than one test: make the names unique", path.display())]
    RepeatedName { path: PathBuf, name: String },
    #[error("{}: {name}: {key}: {what}", path.display())]
    Value { path: PathBuf, name: String, key: String, what: String },
}
