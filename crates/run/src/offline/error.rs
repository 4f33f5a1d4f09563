//! Why an engine could not do what it was asked, each in one line.

use std::path::PathBuf;

/// An engine's failure.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// There is no Python.
    #[error("no Python was found: give --python FILE, activate a virtual environment, or put python3 on the PATH")]
    NoPython,
    /// The worker could not be started.
    #[error("cannot start the engine's Python, {}: check --python", python.display())]
    Start {
        /// The interpreter.
        python: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// The profiler that starts the worker is not there.
    #[error("cannot start {program}, under which the engine is to run: install it, or put it on the PATH")]
    Launch {
        /// Its name.
        program: String,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// The worker's files could not be written.
    #[error("cannot write the worker to a temporary folder")]
    Unpack {
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// The library is not there.
    #[error("the engine is not installed: {message}; give --python FILE of an environment that has it")]
    Missing {
        /// Who cannot import what.
        message: String,
    },
    /// An engine argument is wrong; in the engine's words.
    #[error("{message}")]
    Usage {
        /// What its parser said.
        message: String,
    },
    /// The engine refused.
    #[error("the engine failed: {message}")]
    Engine {
        /// What it said.
        message: String,
    },
    /// There was not enough memory.
    #[error(
        "the engine ran out of memory: {message}; lower --gpu-memory-utilization, --max-model-len or --max-num-seqs, \
         or take a smaller model"
    )]
    Memory {
        /// What it said.
        message: String,
    },
    /// The engine cannot run such requests.
    #[error("the engine cannot run this workload: {message}")]
    Workload {
        /// Why not.
        message: String,
    },
    /// The worker died.
    #[error("the engine's process ended in the middle of the run ({status}){}", last_lines(log))]
    Died {
        /// How it ended.
        status: String,
        /// The last lines of its log.
        log: Vec<String>,
    },
    /// The worker took too long.
    #[error(
        "the engine did not finish {call:?} within {seconds} s and was killed: raise --worker-timeout{}",
        last_lines(log)
    )]
    TimedOut {
        /// What it was doing.
        call: &'static str,
        /// The limit.
        seconds: f64,
        /// The last lines of its log.
        log: Vec<String>,
    },
    /// The user wants to stop.
    #[error("stopped while the engine was at work")]
    Stopped,
    /// The worker speaks another version.
    #[error("the worker speaks version {found} of the protocol, this program version {expected}: use its own worker")]
    Version {
        /// The worker's.
        found: String,
        /// Ours.
        expected: i64,
    },
    /// The worker does not keep to the protocol.
    #[error("the worker broke the protocol: {problem}")]
    Protocol {
        /// How.
        problem: String,
    },
}

/// The end of a log, for a message.
fn last_lines(log: &[String]) -> String {
    if log.is_empty() { String::new() } else { format!("; its last words:\n  {}", log.join("\n  ")) }
}
