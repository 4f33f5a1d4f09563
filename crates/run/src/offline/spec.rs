//! An engine in Python: what starts it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tacho_core::json::Dict;
use tacho_loadgen::StopSignal;

/// Takes the engine's log as it comes.
pub type LogTap = Arc<dyn Fn(&[u8]) + Send + Sync>;

/// Which worker runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkerSource {
    /// The one that the program carries.
    Embedded,
    /// A file.
    File(PathBuf),
}

/// An engine in Python.
#[derive(Clone)]
pub struct PythonSpec {
    /// The interpreter.
    pub python: PathBuf,
    /// The worker.
    pub worker: WorkerSource,
    /// What starts the interpreter, such as a profiler with its arguments; nothing starts it directly.
    pub launcher: Vec<String>,
    /// The engine's name in the protocol.
    pub engine: &'static str,
    /// The engine's arguments as typed.
    pub words: Vec<String>,
    /// Defaults of the command that differ from the engine's.
    pub defaults: Dict,
    /// What engines without a parser of their own need to know.
    pub settings: Dict,
    /// Whether the flags of the asynchronous engine are known too.
    pub accepts_async_flags: bool,
    /// Whether multimodal stage times are collected.
    pub mm_stats: bool,
    /// Variables of its environment.
    pub environment: Vec<(String, String)>,
    /// The longest time of one call.
    pub timeout: Option<Duration>,
    /// Takes its log.
    pub log: LogTap,
    /// Ends it when asked.
    pub stop: StopSignal,
}
