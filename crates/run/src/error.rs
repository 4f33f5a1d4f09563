//! Errors of runs.

use std::path::PathBuf;

use tacho_core::FailureKind;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Client(tacho_client::Error),
    #[error("--telemetry-url: {url} has no page of metrics (status {status}): pass the address of a Prometheus page")]
    Exporter { url: String, status: u16 },
    #[error("{url} does not answer: {reason}")]
    Silent { url: String, reason: String },
    #[error("{url} answered {status} {reason}")]
    Collector { url: String, status: u16, reason: String },
    #[error("cannot start the thread \"{name}\": lower --workers or raise the limits of the process")]
    Thread { name: &'static str, source: std::io::Error },
    #[error(transparent)]
    Ranks(tacho_fleet::Error),
    #[error("--resume goes on with one process: start it without a launcher, or with --ranks 1")]
    ResumedRanks,
    #[error(transparent)]
    Tokenizer(#[from] tacho_text::Error),
    #[error(
        "the server serves {served:?}, not {asked:?}: pass --model {served}, and --tokenizer gpt2 (built in, approximate \
         token counts) where the Hub is out of reach"
    )]
    OtherModel { served: String, asked: String, source: tacho_workload::hub::HubError },
    #[error(
        "no tokenizer for {model:?}: pass --tokenizer with a local directory, or --tokenizer gpt2 (built in, approximate \
         token counts)"
    )]
    NoTokenizer { model: String, source: tacho_workload::hub::HubError },
    #[error(transparent)]
    Hub(#[from] tacho_workload::hub::HubError),
    #[error(transparent)]
    Workload(#[from] tacho_workload::Error),
    #[error(transparent)]
    Sessions(#[from] tacho_workload::sessions::TraceError),
    #[error(transparent)]
    Schedule(#[from] tacho_loadgen::Error),
    #[error(transparent)]
    Log(#[from] tacho_rowlog::Error),
    #[error("the log does not hold what it should")]
    Logged(#[from] tacho_record::Error),
    #[error(
        "samples that were spilled next to {0} cannot be read back: {reason}; tacho report {0} computes the result from the log",
        directory.display()
    )]
    Spill { directory: PathBuf, reason: String },
    #[error("the log in {} holds no finished request", path.display())]
    EmptyLog { path: PathBuf },
    #[error("no request ended between {start} s and {end} s of the run: choose another --window")]
    EmptyWindow { start: f64, end: f64 },
    #[error("the run never became steady, or is too short to decide: pass --window START:END in seconds")]
    NeverSteady,
    #[error(transparent)]
    Engine(#[from] crate::offline::EngineError),
    #[error(
        "Please ensure that max_model_len is greater than the sum of {parts}{whose}: \
         the longest here has {longest} tokens and max_model_len is {limit}"
    )]
    TooLong { parts: &'static str, whose: &'static str, longest: u64, limit: u64 },
    #[error("no {phase} start succeeded; the last one: {reason}")]
    NoStart { phase: &'static str, reason: String },
    #[error("cannot create an empty cache directory")]
    CacheDirectory { source: std::io::Error },
    #[error("all {count} requests failed; the first one: {reason}")]
    AllFailed { count: usize, reason: String },
    #[error("--check-outputs: {problem}")]
    NoReferences { problem: String },
    #[error("--reference: {problem}")]
    Reference { problem: String },
    #[error("{problem}")]
    Grader { problem: String },
    #[error("the workload is empty: check the data, or raise --num-prompts")]
    EmptyWorkload,
    #[error("--balance session needs sessions, and no request belongs to one: pass --sessions, or another --balance")]
    NoSessions,
    #[error("--max-model-len {max}: every prompt and its answer together are longer: raise it, or lower the lengths")]
    AllTooLong { max: u64 },
    #[error(
        "--max-model-len {max}: {left_out} requests of the stages' datasets are longer, and without them later requests \
         would move to an earlier stage: raise it, or lower the lengths"
    )]
    TooLongForStages { left_out: usize, max: u64 },
    #[error("initial test run failed: make sure that the benchmark arguments are right; the server said: {reason}")]
    NotReady { reason: String, kind: Option<FailureKind> },
    #[error("stopped before the benchmark began")]
    Stopped,
    #[error("this rank's rows are in {}: tacho report with the logs of all ranks makes the result", log.display())]
    Left { log: PathBuf, source: tacho_fleet::Error },
    #[error("it has the rows of rank {rank} of {ranks} only: use the log of rank 0, which has all")]
    OneRank { rank: usize, ranks: usize },
    #[error("{}: it is not the log of a rank", path.display())]
    NoRank { path: PathBuf },
    #[error("{}: it is of another run than {}: pass the logs of one run's ranks", path.display(), first.display())]
    OtherRun { path: PathBuf, first: PathBuf },
    #[error("{} and {} are both of rank {rank}", first.display(), path.display())]
    RankTwice { rank: usize, path: PathBuf, first: PathBuf },
    #[error(
        "{}: the log was made with other requests: resume with the dataset, seed and settings of the first run",
        directory.display()
    )]
    OtherWorkload { directory: PathBuf },
    #[error("{}: all requests of the run have been answered: there is nothing to resume", directory.display())]
    NothingLeft { directory: PathBuf },
    #[error(
        "--save-workload cannot save requests that are generated until --duration: pass --num-prompts with --request-rate"
    )]
    EndlessWorkload,
    #[error("{} has settings and must be a file, not a pipe", path.display())]
    PipedWorkload { path: PathBuf },
    #[error(
        "{}: its requests are not those that were saved (workload digest {found}, saved as {saved}): restore it if it was \
         edited, leave out flags that change requests or their times, or use the version of tacho that saved it",
        path.display()
    )]
    ReplayDiffers { path: PathBuf, saved: String, found: String },
    #[error("cannot write the workload to {path}")]
    SaveWorkload { path: PathBuf, source: std::io::Error },
}

impl From<tacho_client::Error> for Error {
    fn from(error: tacho_client::Error) -> Self {
        match error {
            tacho_client::Error::Stopped => Error::Stopped,
            error => Error::Client(error),
        }
    }
}

impl From<tacho_fleet::Error> for Error {
    fn from(error: tacho_fleet::Error) -> Self {
        match error {
            tacho_fleet::Error::Stopped => Error::Stopped,
            error => Error::Ranks(error),
        }
    }
}

impl Error {
    /// Returns whether the command line is at fault, rather than a file, a server or the machine.
    pub fn is_usage(&self) -> bool {
        match self {
            Error::Workload(error) => error.is_usage(),
            Error::Hub(tacho_workload::hub::HubError::Layout { source }) => source.is_usage(),
            Error::Sessions(error) => error.is_usage(),
            Error::Ranks(error) => error.is_usage(),
            Error::Engine(error) => matches!(error, crate::offline::EngineError::Usage { .. }),
            _ => false,
        }
    }

    pub fn is_stop(&self) -> bool {
        matches!(self, Error::Stopped | Error::Engine(crate::offline::EngineError::Stopped))
    }

    /// The error of a call to a server other than the one under test: the client's message would name the wrong
    /// flags.
    pub(crate) fn silent(url: String, error: tacho_client::Error) -> Self {
        let reason = match error {
            tacho_client::Error::Unreachable { source, .. } => source.to_string(),
            tacho_client::Error::Call { reason, .. } => reason,
            other => other.to_string(),
        };
        Error::Silent { url, reason }
    }
}
