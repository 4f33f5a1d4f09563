//! What happens between one benchmark and the next on the same server.

use tacho_core::event::SweepNote;
use tacho_core::{EventSink, RunEvent};

use super::error::Failure;
use super::process::Supervised;
use super::server::{ResetKind, reset_caches};
use super::slot::Slot;

/// What to do after each benchmark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AfterBench {
    /// Run this command.
    Command(Vec<String>),
    /// See to the server's caches.
    Reset(ResetKind),
}

impl AfterBench {
    /// Does it.
    pub fn act(&self, supervised: &Supervised, slot: &Slot, sink: &dyn EventSink) -> Result<(), Failure> {
        match (self, slot.address()) {
            (AfterBench::Command(command), _) => supervised.run(command),
            (AfterBench::Reset(ResetKind::Call), Some(address)) => {
                sink.event(RunEvent::status(SweepNote::ResettingCaches { address: address.clone() }));
                reset_caches(&address)
            }
            (AfterBench::Reset(_), _) => Ok(()),
        }
    }
}
