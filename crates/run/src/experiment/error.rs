//! What is wrong with a sweep before it starts, and what ends one.

use std::path::PathBuf;

use tacho_core::json::ParseError;

/// Why a sweep cannot be done.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A command cannot be split into words.
    #[error("{flag}: {what}: check the quotes of the command")]
    Quoting {
        /// Where it was given.
        flag: &'static str,
        /// What is wrong.
        what: &'static str,
    },
    /// A command without words.
    #[error("{flag} is empty: give the command to run")]
    EmptyCommand {
        /// Where it was given.
        flag: &'static str,
    },
    /// A parameter needs a value where the command has none.
    #[error("{flag} ends with {word}, which has no value that {key:?} of the parameter file could replace")]
    NoValueToReplace {
        /// The command.
        flag: &'static str,
        /// Its last word.
        word: String,
        /// The parameter.
        key: String,
    },
    /// Not JSON.
    #[error("{}: not JSON: {fault}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// What the reader said.
        fault: ParseError,
    },
    /// Neither a list nor an object.
    #[error("{}: must be a list of objects or an object of named objects, not {found}", path.display())]
    NotAGrid {
        /// The file.
        path: PathBuf,
        /// What it is.
        found: &'static str,
    },
    /// No set at all.
    #[error("{}: there are no parameter sets in it, so that nothing would be run: write [{{}}] to change nothing", path.display())]
    NoSet {
        /// The file.
        path: PathBuf,
    },
    /// The links leave nothing.
    #[error("--link-vars: no server set and client set belong together, so that nothing would be run")]
    NothingLinked,
    /// A member that is no object.
    #[error("{}: {place} must be an object of parameters, not {found}", path.display())]
    NotASet {
        /// The file.
        path: PathBuf,
        /// Which member.
        place: String,
        /// What it is.
        found: &'static str,
    },
    /// A name given to two sets.
    #[error("{}: the name {name:?} is given to more than one parameter set: make the names unique", path.display())]
    RepeatedName {
        /// The file.
        path: PathBuf,
        /// The name.
        name: String,
    },
    /// A link that is no pair.
    #[error("--link-vars: {item:?} is no link: write serve_key=bench_key, with commas between several")]
    Link {
        /// The item.
        item: String,
    },
    /// The variable that the search sets is in a parameter file.
    #[error("--bench-params: {key:?} must not be set: {what} sets it")]
    Explored {
        /// The key as written.
        key: String,
        /// Who sets it.
        what: &'static str,
    },
    /// A criterion that cannot be read.
    #[error("{}: {fault}", path.display())]
    Criterion {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        fault: tacho_decide::search::BadCriterion,
    },
    /// A target names a number that no result has.
    #[error("{}: {error}", path.display())]
    Number {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        error: tacho_record::Error,
    },
    /// A set of criteria without any.
    #[error("{}: item {at} has no criterion: write such as {{\"p99_ttft_ms\": \"<=200\"}}", path.display())]
    NoCriterion {
        /// The file.
        path: PathBuf,
        /// Which item.
        at: usize,
    },
    /// Nobody knows how to reset the caches of this server.
    #[error(
        "--serve-cmd {program:?}: how to reset its caches between runs is not known: give --after-bench-cmd \
         (such as 'true' to do nothing)"
    )]
    NoReset {
        /// The program.
        program: String,
    },
    /// Parameters that the start-up benchmark does not have.
    #[error("ignoring unsupported startup params for {set}: {keys}: remove them, or leave out --strict-params")]
    UnsupportedParams {
        /// The set.
        set: String,
        /// The keys.
        keys: String,
    },
    /// The results that are there were made with something else.
    #[error("{}: it was made with another {key}: use the same, or begin anew without --resume", path.display())]
    MadeWithOther {
        /// The file that says so.
        path: PathBuf,
        /// What differs.
        key: String,
    },
    /// A server starts with no share of the device's memory.
    #[error("the server with the largest settings starts with no gpu_memory_utilization: see {}", log.display())]
    NoMemoryShare {
        /// What the last one said.
        log: PathBuf,
    },
    /// A failure that ended the sweep.
    #[error("The script was terminated early. Use `--resume` to continue the script from its last checkpoint.")]
    Ended(#[source] Failure),
}

impl Error {
    /// Whether it is about the targets of a search. What upstream has too ends with the code that it has there.
    pub fn is_usage(&self) -> bool {
        matches!(self, Error::Criterion { .. } | Error::Number { .. } | Error::NoCriterion { .. })
    }
}

/// Something that went wrong while a sweep was under way; written down in upstream's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind}: {text}")]
pub struct Failure {
    /// Python's name for it.
    pub kind: &'static str,
    /// What happened.
    pub text: String,
}

impl Failure {
    /// A failure of this kind.
    pub fn new(kind: &'static str, text: impl Into<String>) -> Self {
        Failure { kind, text: text.into() }
    }

    /// A file or process that could not be used.
    pub fn io(what: impl std::fmt::Display, error: &std::io::Error) -> Self {
        Failure::new("OSError", format!("{what}: {error}"))
    }
}
