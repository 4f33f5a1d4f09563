//! What ends a run.

use std::path::PathBuf;

/// Why a run could not be done.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The client cannot work.
    #[error(transparent)]
    Client(#[from] tacho_client::Error),
    /// There is no tokenizer.
    #[error(transparent)]
    Tokenizer(#[from] tacho_text::Error),
    /// There is no workload.
    #[error(transparent)]
    Workload(#[from] tacho_workload::Error),
    /// There is no schedule.
    #[error(transparent)]
    Schedule(#[from] tacho_loadgen::Error),
    /// The data set gave no request.
    #[error("the workload is empty: raise --num-prompts or check the data")]
    EmptyWorkload,
    /// The server did not answer the test request.
    #[error("initial test run failed: make sure that the benchmark arguments are right; the server said: {reason}")]
    NotReady {
        /// The last failure.
        reason: String,
    },
    /// The user stopped before anything was measured.
    #[error("stopped before the benchmark began")]
    Stopped,
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
