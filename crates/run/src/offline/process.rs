//! The worker's process: pipes, log, and termination of its whole process group.

use std::collections::VecDeque;
use std::io::{BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use tacho_core::json::Value;
use tacho_loadgen::StopSignal;

use super::EngineError;
use super::driver::{LogTap, PythonSpec};
use super::protocol::{read_frame, skip_to_magic, write_frame};

/// Bytes of the log kept for error messages.
const KEPT: usize = 1 << 16;
/// Lines of the log in an error message.
const SHOWN: usize = 12;
/// Polling interval of a silent worker.
const GLANCE: Duration = Duration::from_millis(200);

/// What the reader thread received.
enum Incoming {
    Frame(Value),
    Broken(String),
}

pub(super) struct Process {
    child: Child,
    stdin: Option<ChildStdin>,
    frames: Receiver<Incoming>,
    log: Arc<Mutex<VecDeque<u8>>>,
    logger: Option<JoinHandle<()>>,
}

impl Process {
    /// Starts `python script` in a new process group.
    pub(super) fn start(spec: &PythonSpec, script: &Path) -> Result<Self, EngineError> {
        let program = spec.launcher.first().map_or(spec.python.as_path(), Path::new);
        let failed = |source| match spec.launcher.first() {
            Some(program) => EngineError::Launch { program: program.clone(), source },
            None => EngineError::Start { python: spec.python.clone(), source },
        };
        let mut command = Command::new(program);
        if let [_, arguments @ ..] = spec.launcher.as_slice() {
            command.args(arguments).arg(&spec.python);
        }
        let mut child = command
            .arg("-u")
            .arg(script)
            .envs(spec.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(failed)?;
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().expect("it was asked for as a pipe");
        let stderr = child.stderr.take().expect("it was asked for as a pipe");
        let (sender, frames) = mpsc::channel();
        let thread = |name: &str| std::thread::Builder::new().name(name.to_owned());
        thread("worker-frames").spawn(move || listen(stdout, &sender)).map_err(failed)?;
        let log = Arc::new(Mutex::new(VecDeque::new()));
        let (kept, tap) = (Arc::clone(&log), spec.log.clone());
        let logger = thread("worker-log").spawn(move || copy_log(stderr, &kept, &tap)).map_err(failed)?;
        Ok(Process { child, stdin, frames, log, logger: Some(logger) })
    }

    /// Sends a frame. An exited worker is noticed when its response is awaited.
    pub(super) fn send(&mut self, value: &Value) {
        if self.stdin.as_mut().is_some_and(|stdin| write_frame(stdin, value).is_err()) {
            self.stdin = None;
        }
    }

    /// The next frame, within the timeout.
    pub(super) fn receive(
        &mut self,
        call: &'static str,
        limit: Option<Duration>,
        stop: &StopSignal,
    ) -> Result<Value, EngineError> {
        let started = Instant::now();
        loop {
            match self.frames.recv_timeout(GLANCE) {
                Ok(Incoming::Frame(value)) => return Ok(value),
                Ok(Incoming::Broken(problem)) => return Err(EngineError::Protocol { problem }),
                Err(RecvTimeoutError::Disconnected) => return Err(self.died()),
                // A child of a dead worker may keep the pipe open.
                Err(RecvTimeoutError::Timeout) if matches!(self.child.try_wait(), Ok(Some(_))) => {
                    return Err(self.died());
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            if stop.draining() {
                self.kill();
                return Err(EngineError::Stopped);
            }
            if let Some(limit) = limit.filter(|limit| started.elapsed() > *limit) {
                self.kill();
                return Err(EngineError::TimedOut { call, seconds: limit.as_secs_f64(), log: self.last_lines() });
            }
        }
    }

    fn died(&mut self) -> EngineError {
        let status = self.wait(Duration::from_secs(2));
        EngineError::Died { status, log: self.last_lines() }
    }

    /// Waits for the exit, and kills the worker after the timeout.
    fn wait(&mut self, patience: Duration) -> String {
        let until = Instant::now() + patience;
        let mut status = self.child.try_wait().ok().flatten();
        while status.is_none() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
            status = self.child.try_wait().ok().flatten();
        }
        self.kill();
        status.map_or_else(|| "it closed its pipe".to_owned(), |status| status.to_string())
    }

    /// Waits for the requested exit of the worker, then kills what is left of it.
    pub(super) fn finish(&mut self, patience: Duration) {
        self.wait(patience);
    }

    /// Kills the whole process group: engines have children.
    pub(super) fn kill(&mut self) {
        self.stdin = None;
        if let Some(group) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            // The group may be gone already.
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.child.wait();
        if let Some(logger) = self.logger.take() {
            let _ = logger.join();
        }
    }

    /// The last lines of the log. Of a progress bar only its last state counts.
    pub(super) fn last_lines(&self) -> Vec<String> {
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes: Vec<u8> = log.iter().copied().collect();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let visible =
            |line: &str| line.rsplit('\r').find(|part| !part.trim().is_empty()).unwrap_or("").trim_end().to_owned();
        let mut lines: Vec<String> = text.lines().map(visible).filter(|line| !line.is_empty()).collect();
        lines.drain(..lines.len().saturating_sub(SHOWN));
        lines
    }

    /// The kept part of the log.
    pub(super) fn log_text(&self) -> String {
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&log.iter().copied().collect::<Vec<u8>>()).into_owned()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

fn listen(stdout: impl Read, sender: &mpsc::Sender<Incoming>) {
    let mut source = BufReader::new(stdout);
    if !skip_to_magic(&mut source).unwrap_or(false) {
        return;
    }
    loop {
        let incoming = match read_frame(&mut source) {
            Ok(Some(value)) => Incoming::Frame(value),
            Ok(None) => return,
            Err(error) => Incoming::Broken(error.to_string()),
        };
        let broken = matches!(incoming, Incoming::Broken(_));
        if sender.send(incoming).is_err() || broken {
            return;
        }
    }
}

fn copy_log(mut stderr: impl Read, kept: &Mutex<VecDeque<u8>>, tap: &LogTap) {
    let mut buffer = [0; 8192];
    while let Ok(count @ 1..) = stderr.read(&mut buffer) {
        tap(&buffer[..count]);
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(&buffer[..count]);
        let excess = kept.len().saturating_sub(KEPT);
        kept.drain(..excess);
    }
}
