//! External commands that do not outlive this program: each is started by a small supervisor process that kills the
//! command's process group as soon as the pipe to this program closes, for any reason.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::{ffi::OsString, fs::File, io};

use tacho_core::{command::ChildGroup, json::Dict, secret::redact_args};

use super::{archive::Bench, error::Failure};

#[derive(Debug, Clone)]
pub struct Supervised {
    /// The supervisor's command line, which precedes the command's own.
    pub supervisor: Vec<OsString>,
    /// Whether commands may write to this program's standard output.
    pub show_stdout: bool,
}

pub struct Processes<'a> {
    pub supervised: &'a Supervised,
    pub variables: &'a [(String, String)],
    /// Whether this program replaces the named one.
    pub replaced: bool,
}

impl Bench for Processes<'_> {
    fn run(&self, command: &[String], _output: &Path, log: Option<&Path>) -> Result<Option<Dict>, Failure> {
        let mut command = command.to_vec();
        if self.replaced {
            command[0] = self.supervised.supervisor[0].to_string_lossy().into_owned();
        }
        self.supervised.run_logged(&command, self.variables, log).map(|()| None)
    }
}

pub(crate) enum Output<'a> {
    /// This program's own streams; standard output only if enabled.
    Ours,
    Log(&'a Path),
}

impl Supervised {
    pub fn run(&self, command: &[String]) -> Result<(), Failure> {
        self.run_logged(command, &[], None)
    }

    /// Runs a command to completion with additional environment variables. Its output goes to `log` if there is one.
    pub fn run_logged(
        &self,
        command: &[String],
        variables: &[(String, String)],
        log: Option<&Path>,
    ) -> Result<(), Failure> {
        let output = log.map_or(Output::Ours, Output::Log);
        let mut process = self.start(command, &output, variables)?;
        let status = process.child.wait().map_err(|error| Failure::io(&command[0], &error))?;
        match log {
            _ if status.success() => Ok(()),
            None => Err(failed(command, status)),
            Some(log) => Err(failed_with(command, status, log)),
        }
    }

    pub(crate) fn start(
        &self,
        command: &[String],
        output: &Output<'_>,
        variables: &[(String, String)],
    ) -> Result<ChildGroup, Failure> {
        if !program_exists(&command[0]) {
            let text = format!("[Errno 2] No such file or directory: {}", tacho_core::json::quoted(&command[0]));
            return Err(Failure::new("FileNotFoundError", text));
        }
        let io_failure = |error: io::Error| Failure::io(&command[0], &error);
        let mut spawn = Command::new(&self.supervisor[0]);
        spawn.args(&self.supervisor[1..]).args(command).envs(variables.iter().cloned());
        match output {
            Output::Ours => {
                spawn.stdout(if self.show_stdout { Stdio::inherit() } else { Stdio::null() });
            }
            Output::Log(path) => {
                let log = File::create(path).map_err(|error| Failure::io(path.display(), &error))?;
                spawn.stderr(log.try_clone().map_err(io_failure)?);
                spawn.stdout(if self.show_stdout { Stdio::inherit() } else { Stdio::from(log) });
            }
        }
        ChildGroup::supervised(&mut spawn).map_err(io_failure)
    }
}

fn failed(command: &[String], status: ExitStatus) -> Failure {
    let args: Vec<String> = redact_args(command).iter().map(|word| tacho_core::json::quoted(word)).collect();
    let code = status.code().unwrap_or(-1);
    let text = format!("Command '[{}]' returned non-zero exit status {code}.", args.join(", "));
    Failure::new("CalledProcessError", text)
}

/// The error with the end of the command's log.
fn failed_with(command: &[String], status: ExitStatus, log: &Path) -> Failure {
    let bytes = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let last = text.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or("it said nothing");
    let (program, code) = (&command[0], status.code().unwrap_or(-1));
    let text = format!("{program} returned non-zero exit status {code}: {last}; see {}", log.display());
    Failure::new("CalledProcessError", text)
}

/// Returns whether a command's first word is a program.
pub fn program_exists(program: &str) -> bool {
    let is_file = |path: PathBuf| path.is_file();
    if program.contains('/') {
        return is_file(PathBuf::from(program));
    }
    let Some(path) = std::env::var_os("PATH") else { return false };
    std::env::split_paths(&path).any(|directory| is_file(directory.join(program)))
}
