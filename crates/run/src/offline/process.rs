//! The worker's process: pipes, log, and termination of its whole process group.

use std::io::{self, BufReader, Read};
use std::path::Path;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use tacho_core::command::{ChildGroup, Messages};
use tacho_core::json::Value;
use tacho_loadgen::StopSignal;

use super::EngineError;
use super::driver::{LogTap, PythonSpec};
use super::protocol::{read_frame, skip_to_magic, write_frame};

/// Lines of the log in an error message.
const SHOWN: usize = 12;
/// Polling interval of a silent worker.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Time for the log of a dead worker to end: a child outside of its group may hold the pipe.
const LOG_END: Duration = Duration::from_secs(2);

/// What the reader thread received.
enum Incoming {
    Frame(Value),
    Broken(String),
}

pub(super) struct Process {
    group: ChildGroup,
    stdin: Option<ChildStdin>,
    frames: Receiver<Incoming>,
    log: Messages,
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
        command.arg("-u").arg(script).envs(spec.environment.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut group = ChildGroup::start(&mut command).map_err(failed)?;
        let stdin = group.child.stdin.take();
        let stdout = group.child.stdout.take().expect("it was asked for as a pipe");
        let stderr = group.child.stderr.take().expect("it was asked for as a pipe");
        let (sender, frames) = mpsc::channel();
        let listener = std::thread::Builder::new().name("worker-frames".to_owned());
        listener.spawn(move || listen(stdout, &sender)).map_err(failed)?;
        let log = Messages::of(Tapped { stream: stderr, tap: spec.log.clone() });
        Ok(Process { group, stdin, frames, log })
    }

    /// Sends a frame. An exited worker is noticed when its response is awaited.
    pub(super) fn send(&mut self, value: &Value) {
        if self.stdin.as_mut().is_some_and(|stdin| write_frame(stdin, value).is_err()) {
            self.stdin = None;
        }
    }

    pub(super) fn receive(
        &mut self,
        call: &'static str,
        limit: Option<Duration>,
        stop: &StopSignal,
    ) -> Result<Value, EngineError> {
        let started = Instant::now();
        loop {
            match self.frames.recv_timeout(POLL_INTERVAL) {
                Ok(Incoming::Frame(value)) => return Ok(value),
                Ok(Incoming::Broken(problem)) => return Err(EngineError::Protocol { problem }),
                Err(RecvTimeoutError::Disconnected) => return Err(self.died()),
                // A child of a dead worker may keep the pipe open.
                Err(RecvTimeoutError::Timeout) if matches!(self.group.child.try_wait(), Ok(Some(_))) => {
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
        let status = self.finish(Duration::from_secs(2));
        EngineError::Died { status, log: self.last_lines() }
    }

    /// Waits for the exit of the worker, then kills what is left of it. Returns its exit status.
    pub(super) fn finish(&mut self, patience: Duration) -> String {
        let status = self.group.exit_within(patience);
        self.kill();
        status.map_or_else(|| "it closed its pipe".to_owned(), |status| status.to_string())
    }

    /// Kills the whole process group, since engines have children, and forwards the rest of the log.
    fn kill(&mut self) {
        self.stdin = None;
        self.group.end();
        self.log.text(LOG_END);
    }

    /// The last lines of the log. Of a progress bar only its last state counts.
    fn last_lines(&self) -> Vec<String> {
        let visible =
            |line: &str| line.rsplit('\r').find(|part| !part.trim().is_empty()).unwrap_or("").trim_end().to_owned();
        let mut lines: Vec<String> = self.log_text().lines().map(visible).filter(|line| !line.is_empty()).collect();
        lines.drain(..lines.len().saturating_sub(SHOWN));
        lines
    }

    /// The kept part of the log.
    pub(super) fn log_text(&self) -> String {
        self.log.text(Duration::ZERO)
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

/// A stream whose bytes are forwarded as they are read.
struct Tapped<R> {
    stream: R,
    tap: LogTap,
}

impl<R: Read> Read for Tapped<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.stream.read(buffer)?;
        (self.tap)(&buffer[..count]);
        Ok(count)
    }
}
