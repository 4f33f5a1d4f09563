//! Signals: before anything is measured they end the program; after that they ask the run to end, and what was
//! measured is saved.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context;
use rustix::process::{getpgrp, getsid};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGXFSZ};
use signal_hook::iterator::Signals;
use tacho_loadgen::StopSignal;
use tacho_report::live;

use crate::exit::{self, Exit};
use crate::limits;

/// Catches the signals that end a run.
#[derive(Debug, Clone, Default)]
pub(crate) struct Interrupt {
    /// What the run listens to.
    pub(crate) stop: StopSignal,
    measuring: Arc<AtomicBool>,
    farewell: Arc<Mutex<String>>,
}

impl Interrupt {
    /// Begins to catch them.
    pub(crate) fn catch() -> anyhow::Result<Self> {
        limits::check()?;
        let interrupt = Interrupt::default();
        let mut wanted = vec![SIGINT, SIGTERM];
        // Under nohup a terminal may close and the run goes on.
        if !is_ignored(SIGHUP) {
            wanted.push(SIGHUP);
        }
        let mut signals = Signals::new(wanted).context("cannot catch signals")?;
        let caught = interrupt.clone();
        std::thread::Builder::new().name("signals".into()).spawn(move || {
            for _ in signals.forever() {
                caught.signal();
            }
        })?;
        Ok(interrupt)
    }

    fn signal(&self) {
        // Asked a third time, the program leaves whatever it is at.
        if !self.measuring.load(Ordering::Relaxed) || self.stop.immediate() {
            self.leave();
        }
        self.stop.request_stop();
    }

    /// From now on there is something to lose.
    pub(crate) fn measuring(&self) {
        self.measuring.store(true, Ordering::Relaxed);
    }

    /// The code of a command that has come to its end: one that was asked to stop did not end by itself.
    pub(crate) fn or(&self, exit: Exit) -> Exit {
        if self.stop.draining() { Exit::Interrupted } else { exit }
    }

    /// What to say when a signal ends the program at once: what is kept, and how to go on.
    pub(crate) fn farewell(&self, text: impl Into<String>) {
        *self.farewell.lock().unwrap_or_else(PoisonError::into_inner) = text.into();
    }

    fn leave(&self) {
        live::restore();
        let text = self.farewell.lock().unwrap_or_else(PoisonError::into_inner);
        if !text.is_empty() {
            // On a separate line, below whatever bar stands there.
            exit::note(&format!("\n{text}"));
        }
        std::process::exit(Exit::Interrupted as i32);
    }
}

/// Gives the terminal back before Ctrl-Z stops the process and before Ctrl-\ ends it.
pub(crate) fn guard_terminal() -> io::Result<()> {
    let mut signals = Signals::new([SIGTSTP, SIGQUIT])?;
    let react = move || {
        for signal in signals.forever() {
            match signal {
                SIGTSTP if can_be_continued() => live::suspended(|| default_action(SIGTSTP)),
                SIGTSTP => {}
                _ => {
                    live::restore();
                    default_action(signal);
                }
            }
        }
    };
    std::thread::Builder::new().name("terminal".into()).spawn(react).map(drop)
}

/// Stops or ends the process, as an uncaught signal does.
fn default_action(signal: i32) {
    if let Err(error) = signal_hook::low_level::emulate_default_handler(signal) {
        tracing::debug!(%error, signal, "a signal has no effect");
    }
}

/// Whether a shell may continue this process once it is stopped: none does for the process group of a session leader.
fn can_be_continued() -> bool {
    getsid(None).is_ok_and(|session| session != getpgrp())
}

/// A file that grows beyond a limit is an error to report, not a reason to be killed.
pub(crate) fn outlive_limits() {
    let noticed = Arc::new(AtomicBool::new(false));
    if let Err(error) = signal_hook::flag::register(SIGXFSZ, noticed) {
        tracing::debug!(%error, "a file size limit will end the program");
    }
}

/// Whether the parent process made this one ignore a signal.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default();
    mask >> (signal - 1) & 1 == 1
}
