//! What ends a run.

use std::path::PathBuf;

/// Why a run could not be done.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The client cannot work.
    #[error(transparent)]
    Client(tacho_client::Error),
    /// An exporter has no page of metrics.
    #[error("{url} has no page of metrics (status {status}): give the address of a Prometheus page")]
    Exporter {
        /// Where it was looked for.
        url: String,
        /// What was answered.
        status: u16,
    },
    /// An exporter or a collector cannot be reached.
    #[error("{url} does not answer: {reason}")]
    Silent {
        /// Where it was looked for.
        url: String,
        /// Why not.
        reason: String,
    },
    /// A collector does not take what it is sent.
    #[error("{url} answered {status} {reason}")]
    Collector {
        /// Where it was sent.
        url: String,
        /// What was answered.
        status: u16,
        /// And why.
        reason: String,
    },
    /// A background thread of a run cannot start.
    #[error("cannot start the thread \"{name}\": lower --workers or raise the limits of the process")]
    Thread {
        /// Its name.
        name: &'static str,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// Ranks cannot work together.
    #[error(transparent)]
    Ranks(tacho_fleet::Error),
    /// A resumed run cannot be split.
    #[error("--resume goes on with one process: start it without a launcher, or with --ranks 1")]
    ResumedRanks,
    /// There is no tokenizer.
    #[error(transparent)]
    Tokenizer(#[from] tacho_text::Error),
    /// The Hub does not give what is asked of it.
    #[error(transparent)]
    Hub(#[from] tacho_workload::hub::HubError),
    /// There is no workload.
    #[error(transparent)]
    Workload(#[from] tacho_workload::Error),
    /// There are no sessions.
    #[error(transparent)]
    Sessions(#[from] tacho_workload::sessions::TraceError),
    /// There is no schedule.
    #[error(transparent)]
    Schedule(#[from] tacho_loadgen::Error),
    /// A log cannot be written or read.
    #[error(transparent)]
    Log(#[from] tacho_rowlog::Error),
    /// A log does not hold what it should.
    #[error("the log does not hold what it should")]
    Logged(#[from] tacho_record::Error),
    /// What was put aside is gone.
    #[error(
        "the numbers of requests that were put aside beside {0} cannot be read back: {reason}; tacho report {0} computes the \
         result from the log",
        folder.display()
    )]
    Aside {
        /// The log.
        folder: PathBuf,
        /// Why.
        reason: String,
    },
    /// There is nothing in a log to report.
    #[error("the log in {} holds no finished request", path.display())]
    EmptyLog {
        /// The folder.
        path: PathBuf,
    },
    /// A part of a run that holds nothing.
    #[error("no request ended between {start} s and {end} s of the run: choose another --window")]
    EmptyWindow {
        /// Its start.
        start: f64,
        /// Its end.
        end: f64,
    },
    /// A run without a steady part.
    #[error("the run never became steady, or is too short to tell: give --window START:END in seconds")]
    NeverSteady,
    /// An offline engine failed.
    #[error(transparent)]
    Engine(#[from] crate::offline::EngineError),
    /// A request is longer than the engine allows; in vLLM's words.
    #[error(
        "Please ensure that max_model_len is greater than the sum of {parts}{whose}: \
         the longest here has {longest} tokens and max_model_len is {limit}"
    )]
    TooLong {
        /// What is added up.
        parts: &'static str,
        /// Of which requests.
        whose: &'static str,
        /// Tokens of the longest request.
        longest: u64,
        /// What the engine allows.
        limit: u64,
    },
    /// No start of the engine succeeded.
    #[error("no {phase} start succeeded; the last one: {reason}")]
    NoStart {
        /// Cold or warm.
        phase: &'static str,
        /// Why the last one failed.
        reason: String,
    },
    /// A cache folder could not be made.
    #[error("cannot make an empty cache folder")]
    CacheFolder {
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// All requests of a batch failed.
    #[error("all {count} requests failed; the first one: {reason}")]
    AllFailed {
        /// How many there were.
        count: usize,
        /// Why.
        reason: String,
    },
    /// The data set gave no request.
    #[error("the workload is empty: raise --num-prompts or check the data")]
    EmptyWorkload,
    /// No request fits the model.
    #[error("--max-model-len {most}: every prompt and its answer together are longer: raise it, or lower the lengths")]
    AllTooLong {
        /// Tokens of both.
        most: u64,
    },
    /// The server did not answer the test request.
    #[error("initial test run failed: make sure that the benchmark arguments are right; the server said: {reason}")]
    NotReady {
        /// The last failure.
        reason: String,
    },
    /// The user stopped before anything was measured.
    #[error("stopped before the benchmark began")]
    Stopped,
    /// Rank 0 is gone, and what this rank did is in its log.
    #[error("this rank's rows are in {}: tacho report with the logs of all ranks makes the result", log.display())]
    Left {
        /// The log.
        log: PathBuf,
        /// What happened.
        #[source]
        source: tacho_fleet::Error,
    },
    /// A log that is not of one of several ranks.
    #[error("{}: it is not the log of a rank", path.display())]
    NoRank {
        /// The log.
        path: PathBuf,
    },
    /// Logs of ranks of different runs.
    #[error("{}: it is of another run than {}: give the logs of one run's ranks", path.display(), first.display())]
    OtherRun {
        /// The log.
        path: PathBuf,
        /// The one it is compared with.
        first: PathBuf,
    },
    /// Two logs of one rank.
    #[error("{} and {} are both of rank {rank}", first.display(), path.display())]
    RankTwice {
        /// Which.
        rank: usize,
        /// One.
        path: PathBuf,
        /// The other.
        first: PathBuf,
    },
    /// A log of other requests cannot be gone on with.
    #[error(
        "{}: the log was made with other requests: resume with the dataset, seed and settings of the first run",
        folder.display()
    )]
    OtherWorkload {
        /// The log.
        folder: PathBuf,
    },
    /// There is nothing to resume.
    #[error("{}: all requests of the run have been answered: there is nothing to resume", folder.display())]
    NothingLeft {
        /// The log.
        folder: PathBuf,
    },
    /// The workload could not be written.
    #[error("cannot write the workload to {path}")]
    SaveWorkload {
        /// Where to.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
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
    /// What went wrong with a call to somebody who is not the server under test: the client's own words would send the
    /// reader to the server's flags.
    pub(crate) fn silent(url: String, error: tacho_client::Error) -> Self {
        let reason = match error {
            tacho_client::Error::Unreachable { source, .. } => source.to_string(),
            tacho_client::Error::Call { reason, .. } => reason,
            other => other.to_string(),
        };
        Error::Silent { url, reason }
    }
}
