//! The settings of an engine in Python.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tacho_core::json::Dict;
use tacho_loadgen::StopSignal;

/// Receives the engine's log.
pub type LogTap = Arc<dyn Fn(&[u8]) + Send + Sync>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkerSource {
    Embedded,
    File(PathBuf),
}

#[derive(Clone)]
pub struct PythonSpec {
    pub python: PathBuf,
    pub worker: WorkerSource,
    /// The command that starts the interpreter, such as a profiler with its arguments; empty to start it directly.
    pub launcher: Vec<String>,
    /// The engine's name in the protocol.
    pub engine: &'static str,
    /// The engine's arguments as given.
    pub words: Vec<String>,
    /// Defaults of the command that differ from the engine's.
    pub defaults: Dict,
    /// Settings for engines without an argument parser.
    pub settings: Dict,
    /// Whether flags of the asynchronous engine are accepted too.
    pub accepts_async_flags: bool,
    /// Whether multimodal stage times are collected.
    pub mm_stats: bool,
    pub environment: Vec<(String, String)>,
    pub timeout: Option<Duration>,
    pub log: LogTap,
    pub stop: StopSignal,
}
