//! The action between two benchmarks on the same server.

use tacho_core::event::SweepNote;
use tacho_core::{EventSink, RunEvent};

use super::error::Failure;
use super::process::Supervised;
use super::server::{ResetKind, reset_caches};

/// What to do after each benchmark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AfterBench {
    Command(Vec<String>),
    /// Reset the server's caches.
    Reset(ResetKind),
}

impl AfterBench {
    /// Performs the action, on the server at this address if there is one.
    pub fn act(&self, supervised: &Supervised, address: Option<&str>, sink: &dyn EventSink) -> Result<(), Failure> {
        match (self, address) {
            (AfterBench::Command(command), _) => supervised.run(command),
            (AfterBench::Reset(ResetKind::Call), Some(address)) => {
                sink.event(RunEvent::status(SweepNote::ResettingCaches { address: address.to_owned() }));
                reset_caches(address)
            }
            (AfterBench::Reset(_), _) => Ok(()),
        }
    }
}
