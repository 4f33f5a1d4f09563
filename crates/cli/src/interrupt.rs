//! Signal handling. Before measurements, a signal terminates the program; afterwards, it stops the run, and the
//! measurements are saved.

use std::sync::atomic::{AtomicBool, Ordering};
use std::{io, sync::Arc};
use tacho_core::Mutex;

use anyhow::Context;
use rustix::process::{getpgrp, getsid};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGXFSZ};
use signal_hook::iterator::Signals;
use tacho_loadgen::StopSignal;
use tacho_report::live;

use crate::exit::{self, Exit};
use crate::limits;

#[derive(Debug, Clone, Default)]
pub(crate) struct Interrupt {
    pub(crate) stop: StopSignal,
    measuring: Arc<AtomicBool>,
    farewell: Arc<Mutex<String>>,
}

impl Interrupt {
    pub(crate) fn catch() -> anyhow::Result<Self> {
        limits::check()?;
        let interrupt = Interrupt::default();
        let mut wanted = vec![SIGINT, SIGTERM];
        // Under nohup, the run continues after its terminal closes.
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
        // The third signal terminates the program immediately.
        if !self.measuring.load(Ordering::Relaxed) || self.stop.immediate() {
            self.leave();
        }
        self.stop.request_stop();
    }

    /// Marks the start of measurements, which must be saved.
    pub(crate) fn measuring(&self) {
        self.measuring.store(true, Ordering::Relaxed);
    }

    /// The exit code of a completed command: interrupted if a stop was requested.
    pub(crate) fn or(&self, exit: Exit) -> Exit {
        if self.stop.draining() { Exit::Interrupted } else { exit }
    }

    /// Sets the message for when a signal terminates the program: what is kept, and how to resume.
    pub(crate) fn farewell(&self, text: impl Into<String>) {
        *self.farewell.lock() = text.into();
    }

    fn leave(&self) {
        live::restore();
        let text = self.farewell.lock();
        if !text.is_empty() {
            // Start a new line below a progress bar.
            exit::note(&format!("\n{text}"));
        }
        std::process::exit(Exit::Interrupted as i32);
    }
}

/// Restores the terminal before Ctrl-Z stops the process and before Ctrl-\ terminates it.
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

fn default_action(signal: i32) {
    if let Err(error) = signal_hook::low_level::emulate_default_handler(signal) {
        tracing::debug!(%error, signal, "a signal has no effect");
    }
}

/// Whether a shell can continue this process after a stop: none does for the process group of a session leader.
fn can_be_continued() -> bool {
    getsid(None).is_ok_and(|session| session != getpgrp())
}

/// Catches SIGXFSZ: a write beyond the file size limit then fails with an error.
pub(crate) fn outlive_limits() {
    let noticed = Arc::new(AtomicBool::new(false));
    if let Err(error) = signal_hook::flag::register(SIGXFSZ, noticed) {
        tracing::debug!(%error, "a file size limit will end the program");
    }
}

fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default();
    mask >> (signal - 1) & 1 == 1
}
