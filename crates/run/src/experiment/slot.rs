//! The current server: its command, and its process once it is needed.

use std::path::{Path, PathBuf};

use super::archive::{Host, Running};
use super::error::Failure;

/// A server that is started when first needed and ends when this is dropped.
pub struct Slot {
    command: Vec<String>,
    variables: Vec<(String, String)>,
    log: PathBuf,
    running: Option<Box<dyn Running>>,
    /// Why it could not be started, so that it is not tried again.
    failed: Option<Failure>,
}

impl Slot {
    /// A server for this command, with these additional environment variables.
    pub fn new(command: Vec<String>, variables: Vec<(String, String)>, log: PathBuf) -> Self {
        Slot { command, variables, log, running: None, failed: None }
    }

    /// Starts the server unless it runs; returns true if it was just started. A failed server is not started again.
    pub fn ensure(&mut self, host: &dyn Host) -> Result<bool, Failure> {
        if let Some(failure) = self.failed.clone().or_else(|| self.lost()) {
            return Err(failure);
        }
        let missing = self.running.is_none();
        if missing {
            let started = host.start(&self.command, &self.variables, &self.log);
            self.running = Some(started.inspect_err(|failure| self.failed = Some(failure.clone()))?);
        }
        Ok(missing)
    }

    /// Why the server no longer runs, if it was started and does not.
    pub fn lost(&mut self) -> Option<Failure> {
        self.running.as_mut()?.lost()
    }

    /// Its URL, if it was started.
    pub fn address(&self) -> Option<String> {
        self.running.as_ref().map(|server| server.address())
    }

    /// The file with its output.
    pub fn log(&self) -> &Path {
        &self.log
    }
}
