//! Drives an engine in a Python process: one call, one response.

use std::path::{Path, PathBuf};
use std::{sync::Arc, time::Duration};

use tacho_core::json::{Dict, Json, Value};
use tacho_loadgen::StopSignal;
use tempfile::TempDir;

use super::engine::{Batch, Generated, Loaded, OfflineEngine, Slot, StageTimes, Step};
use super::protocol::{self, PROTOCOL};
use super::{EngineError, process::Process};

/// Timeout of the worker's first frame.
const HELLO: Duration = Duration::from_secs(120);

/// Timeout of the worker's exit.
const LEAVE: Duration = Duration::from_secs(20);
/// Timeout of the worker's exit if a profiler writes its report.
const REPORT: Duration = Duration::from_secs(1800);

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
    pub args: Vec<String>,
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

/// The worker's files, embedded in the program.
const FILES: [(&str, &str); 4] = [
    ("main.py", include_str!("../../../../python/worker/main.py")),
    ("vllm_engine.py", include_str!("../../../../python/worker/vllm_engine.py")),
    ("hf_engine.py", include_str!("../../../../python/worker/hf_engine.py")),
    ("mii_engine.py", include_str!("../../../../python/worker/mii_engine.py")),
];

/// Writes the worker's files to a temporary directory that is removed when dropped.
fn unpack() -> Result<(TempDir, PathBuf), EngineError> {
    let unpacked = || {
        let directory = tempfile::Builder::new().prefix("tacho-worker-").tempdir()?;
        for (name, text) in FILES {
            std::fs::write(directory.path().join(name), text)?;
        }
        Ok(directory)
    };
    let directory = unpacked().map_err(|source| EngineError::Unpack { source })?;
    let script = directory.path().join("main.py");
    Ok((directory, script))
}

/// Finds the interpreter: the given one, the virtual environment's, or `python3` on the path.
pub fn find_python(named: Option<&str>, variable: &dyn Fn(&str) -> Option<String>) -> Result<PathBuf, EngineError> {
    if let Some(named) = named {
        return Ok(PathBuf::from(named));
    }
    if let Some(environment) = variable("VIRTUAL_ENV").filter(|directory| !directory.is_empty()) {
        let python = Path::new(&environment).join("bin/python");
        if python.exists() {
            return Ok(python);
        }
    }
    let path = variable("PATH").unwrap_or_default();
    let found = path.split(':').map(|directory| Path::new(directory).join("python3")).find(|file| file.is_file());
    found.ok_or(EngineError::NoPython)
}

/// An engine behind a worker; nothing is started before the first call.
pub struct PythonEngine {
    spec: PythonSpec,
    process: Option<Process>,
    directory: Option<TempDir>,
    next_id: i64,
}

impl PythonEngine {
    /// An engine that is not started yet.
    pub fn new(spec: PythonSpec) -> Self {
        PythonEngine { spec, process: None, directory: None, next_id: 0 }
    }

    fn start(&mut self) -> Result<(), EngineError> {
        let script = match &self.spec.worker {
            WorkerSource::File(path) => path.clone(),
            WorkerSource::Embedded => {
                let (directory, script) = unpack()?;
                self.directory = Some(directory);
                script
            }
        };
        let spec = &self.spec;
        let mut process = Process::start(spec, &script)?;
        let hello = process.receive("start", Some(spec.timeout.unwrap_or(HELLO)), &spec.stop)?;
        let found = hello.get("tacho_worker").cloned().unwrap_or(Value::Null);
        if found != Value::Int(PROTOCOL) {
            let found = tacho_core::json::dumps(&found);
            return Err(EngineError::Version { found, expected: PROTOCOL });
        }
        self.process = Some(process);
        Ok(())
    }

    fn call(&mut self, name: &'static str, params: impl Into<Value>) -> Result<Value, EngineError> {
        if self.process.is_none() {
            self.start()?;
        }
        let process = self.process.as_mut().expect("it was just started");
        self.next_id += 1;
        process.send(&protocol::call(self.next_id, name, params));
        let reply = process.receive(name, self.spec.timeout, &self.spec.stop)?;
        if reply.get("id").and_then(Value::as_i64) != Some(self.next_id) {
            return Err(EngineError::Protocol { problem: format!("the answer to {name:?} has another id") });
        }
        if let Some(result) = reply.get("result") {
            return Ok(result.clone());
        }
        let process = self.process.as_ref().expect("it answered");
        Err(failure(reply.get("error"), process))
    }
}

fn failure(error: Option<&Value>, process: &Process) -> EngineError {
    let text = |key: &str| error.and_then(|error| error.get(key)).and_then(Value::as_str).unwrap_or("").to_owned();
    let message = text("message");
    match text("kind").as_str() {
        "usage" => EngineError::Usage { message },
        "missing" => EngineError::Missing { message },
        "workload" => EngineError::Workload { message },
        "memory" => EngineError::Memory { message },
        "protocol" => EngineError::Protocol { problem: message },
        _ => root_cause(message, &process.log_text()),
    }
}

/// vLLM runs its core in a separate process, whose error is only in the log.
fn root_cause(message: String, log: &str) -> EngineError {
    let memory = [
        "out of memory",
        "No available memory for the cache blocks",
        "Free memory on device",
        "larger than the available KV cache memory",
    ];
    // The messages of the front end when its core died, at the start or during a run.
    let vague = ["Engine core initialization failed", "EngineCore encountered an issue"];
    let cause = |line: &str| line.rsplit_once("] ").map_or(line, |(_, text)| text).trim().to_owned();
    if let Some(line) = log.lines().rev().find(|line| memory.iter().any(|sign| line.contains(sign))) {
        return EngineError::Memory { message: cause(line) };
    }
    if !vague.iter().any(|start| message.contains(start)) {
        return EngineError::Engine { message };
    }
    let is_error = |text: &str| {
        let name = text.split(": ").next().unwrap_or("");
        text.contains(": ")
            && name.ends_with("Error")
            && !name.contains(' ')
            && !vague.iter().any(|start| text.contains(start))
    };
    let found = log.lines().rev().map(cause).find(|text| is_error(text));
    EngineError::Engine { message: found.unwrap_or(message) }
}

impl OfflineEngine for PythonEngine {
    fn parse(&mut self) -> Result<Dict, EngineError> {
        let spec = &self.spec;
        let params = tacho_core::dict! {
            "engine": spec.engine,
            "words": spec.args.iter().map(|word| Value::from(word.as_str())).collect::<Vec<_>>(),
            "defaults": spec.defaults.clone(),
            "settings": spec.settings.clone(),
            "accepts_async_flags": spec.accepts_async_flags,
            "mm_stats": spec.mm_stats,
        };
        let result = self.call("parse", params)?;
        Ok(result.get("args").and_then(Value::as_dict).cloned().unwrap_or_default())
    }

    fn load(&mut self) -> Result<Loaded, EngineError> {
        Ok(Loaded::from_json(&self.call("load", Dict::new())?)?)
    }

    fn queue(&mut self, slot: Slot, batch: &Batch) -> Result<(), EngineError> {
        self.call("queue", protocol::batch(slot, batch)).map(|_| ())
    }

    fn generate(&mut self, step: &Step) -> Result<Generated, EngineError> {
        Ok(Generated::from_json(&self.call("generate", step.to_json())?)?)
    }

    fn stage_times(&mut self, settle: bool) -> Result<StageTimes, EngineError> {
        Ok(protocol::stage_times(&self.call("mm_stats", tacho_core::dict! { "freeze": settle })?)?)
    }

    fn close(&mut self) -> Result<(), EngineError> {
        if self.process.is_some() {
            self.call("close", Dict::new())?;
        }
        if let Some(mut process) = self.process.take() {
            // A profiler writes its report when the worker exits.
            process.finish(if self.spec.launcher.is_empty() { LEAVE } else { REPORT });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_named_python_wins_then_the_environment_then_the_path() {
        let directory = tempfile::tempdir().unwrap();
        let bin = directory.path().join("bin");
        std::fs::create_dir(&bin).unwrap();
        std::fs::write(bin.join("python"), "").unwrap();
        std::fs::write(bin.join("python3"), "").unwrap();
        let home = directory.path().to_string_lossy().into_owned();
        let path = format!("/nowhere:{}", bin.display());
        let both = |name: &str| match name {
            "VIRTUAL_ENV" => Some(home.clone()),
            "PATH" => Some(path.clone()),
            _ => None,
        };
        assert_eq!(find_python(Some("/x/py"), &both).unwrap(), Path::new("/x/py"));
        assert_eq!(find_python(None, &both).unwrap(), bin.join("python"));
        let path_only = |name: &str| (name == "PATH").then(|| path.clone());
        assert_eq!(find_python(None, &path_only).unwrap(), bin.join("python3"));
        assert!(matches!(find_python(None, &|_| None), Err(EngineError::NoPython)));
    }

    #[test]
    fn the_cause_of_a_dead_core_is_found_in_its_log() {
        let log = "(EngineCore pid=1) ERROR 11-15 [core.py:9] ValueError: no such layer\nmore\n";
        let message = "RuntimeError: Engine core initialization failed. See root cause above.".to_owned();
        let error = root_cause(message.clone(), log);
        assert_eq!(error.to_string(), "the engine failed: ValueError: no such layer");
        let log = "ERROR [core.py:9] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB\n";
        let text = root_cause(message.clone(), log).to_string();
        assert!(text.starts_with("the engine ran out of memory: torch.OutOfMemoryError: CUDA out"), "{text}");
        let log = "ERROR [core.py:9] ValueError: 0.01 GiB KV cache is needed, which is larger than the available KV cache \
                   memory (0.0 GiB).\n";
        assert!(matches!(root_cause(message, log), EngineError::Memory { .. }));
        let dead = "EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause.";
        let log = format!("ERROR [core.py:9] IndexError: list index out of range\nERROR [async.py:1] {dead}\n");
        let error = root_cause(dead.to_owned(), &log);
        assert_eq!(error.to_string(), "the engine failed: IndexError: list index out of range");
    }
}
