//! Errors of experiments, before they start and while they run.

use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{flag}: {what}: check the quotes of the command")]
    Quoting { flag: &'static str, what: &'static str },
    #[error("{flag} is empty: pass the command to run")]
    EmptyCommand { flag: &'static str },
    #[error("{flag} ends with {word}, which has no value that {key:?} of the parameter file could replace")]
    NoValueToReplace { flag: &'static str, word: String, key: String },
    /// A parameter or test file that cannot be used.
    #[error("{}: {problem}", path.display())]
    File { path: PathBuf, problem: String },
    /// A file of SLOs that cannot be used.
    #[error("{}: {problem}", path.display())]
    Targets { path: PathBuf, problem: String },
    #[error("--link-vars: no server set and client set belong together, so that nothing would be run")]
    NothingLinked,
    #[error("--link-vars: {item:?} is not a link: write serve_key=bench_key, with commas between several")]
    Link { item: String },
    #[error("--bench-params: {key:?} must not be set: {what} sets it")]
    Explored { key: String, what: &'static str },
    #[error(
        "--serve-cmd {program:?}: how to reset its caches between runs is not known: pass --after-bench-cmd \
         (such as 'true' to do nothing)"
    )]
    NoReset { program: String },
    #[error("ignoring unsupported startup params for {set}: {keys}: remove them, or leave out --strict-params")]
    UnsupportedParams { set: String, keys: String },
    #[error("the server with the largest settings starts with no gpu_memory_utilization: see {}", log.display())]
    NoMemoryShare { log: PathBuf },
    #[error("The script was terminated early. Use `--resume` to continue the script from its last checkpoint.")]
    Ended(#[source] Failure),
}

impl Error {
    pub(crate) fn file(path: &Path, problem: impl std::fmt::Display) -> Self {
        Error::File { path: path.to_owned(), problem: problem.to_string() }
    }

    /// Returns whether it is about the targets of a search. Errors that vLLM has too keep its exit code.
    pub fn is_usage(&self) -> bool {
        matches!(self, Error::Targets { .. })
    }
}

/// A failure during a sweep, stored under vLLM's names.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind}: {text}")]
pub struct Failure {
    /// Its name in Python.
    pub kind: &'static str,
    pub text: String,
}

impl Failure {
    pub fn new(kind: &'static str, text: impl Into<String>) -> Self {
        Failure { kind, text: text.into() }
    }

    /// A file or process that could not be used.
    pub fn io(what: impl std::fmt::Display, error: &std::io::Error) -> Self {
        Failure::new("OSError", format!("{what}: {error}"))
    }
}
