//! Errors of an engine, each in one line.

use std::path::PathBuf;

use tacho_core::json::FieldError;

#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error("no Python was found: pass --python FILE, activate a virtual environment, or put python3 on the PATH")]
    NoPython,
    #[error("cannot start the engine's Python, {}: check --python", python.display())]
    Start { python: PathBuf, source: std::io::Error },
    #[error("cannot start {program}, under which the engine is to run: install it, or put it on the PATH")]
    Launch { program: String, source: std::io::Error },
    #[error("cannot write the worker to a temporary directory")]
    Unpack { source: std::io::Error },
    #[error("the engine is not installed: {message}; pass --python FILE of an environment that has it")]
    Missing { message: String },
    #[error("{message}")]
    Usage { message: String },
    #[error("the engine failed: {message}")]
    Engine { message: String },
    #[error(
        "the engine ran out of memory: {message}; lower --gpu-memory-utilization, --max-model-len or --max-num-seqs, \
         or take a smaller model"
    )]
    Memory { message: String },
    #[error("the engine cannot run this workload: {message}")]
    Workload { message: String },
    #[error("the engine's process ended in the middle of the run ({status}){}", last_lines(log))]
    Died { status: String, log: Vec<String> },
    #[error(
        "the engine did not finish {call:?} within {seconds} s and was killed: raise --worker-timeout{}",
        last_lines(log)
    )]
    TimedOut { call: &'static str, seconds: f64, log: Vec<String> },
    #[error("stopped while the engine was at work")]
    Stopped,
    #[error("the worker speaks version {found} of the protocol, this program version {expected}: use its own worker")]
    Version { found: String, expected: i64 },
    #[error("the worker broke the protocol: {problem}")]
    Protocol { problem: String },
}

impl From<FieldError> for EngineError {
    fn from(wrong: FieldError) -> Self {
        EngineError::Protocol { problem: wrong.to_string() }
    }
}

/// The end of a log, for error messages.
fn last_lines(log: &[String]) -> String {
    if log.is_empty() { String::new() } else { format!("; its last words:\n  {}", log.join("\n  ")) }
}
