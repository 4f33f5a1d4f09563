//! Ctrl-C: before anything is measured it ends the program; after that it asks the run to end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tacho_loadgen::StopSignal;

use crate::exit::Exit;

/// Catches the signals that end a run.
#[derive(Debug, Clone, Default)]
pub(crate) struct Interrupt {
    /// What the run listens to.
    pub(crate) stop: StopSignal,
    measuring: Arc<AtomicBool>,
}

impl Interrupt {
    /// Begins to catch them.
    pub(crate) fn catch() -> anyhow::Result<Self> {
        let interrupt = Interrupt::default();
        let mut signals = Signals::new([SIGINT, SIGTERM])?;
        let caught = interrupt.clone();
        std::thread::spawn(move || {
            for _ in signals.forever() {
                caught.signal();
            }
        });
        Ok(interrupt)
    }

    fn signal(&self) {
        // Asked a third time, the program leaves whatever it is at.
        if !self.measuring.load(Ordering::Relaxed) || self.stop.immediate() {
            leave();
        }
        self.stop.ask();
    }

    /// From now on there is something to lose.
    pub(crate) fn measuring(&self) {
        self.measuring.store(true, Ordering::Relaxed);
    }
}

#[expect(clippy::exit, reason = "a signal before any measurement ends the program at once")]
fn leave() {
    std::process::exit(Exit::Interrupted as i32);
}
