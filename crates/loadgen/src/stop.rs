//! How a run is told to end early.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// Shared by whoever catches signals and the workers; each call asks for more.
#[derive(Debug, Clone, Default)]
pub struct StopSignal {
    asked: Arc<AtomicU8>,
}

impl StopSignal {
    /// Once: send nothing more and finish what is under way. Twice: end now.
    pub fn ask(&self) {
        let _ = self.asked.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |asked| Some(asked.saturating_add(1)));
    }

    /// Whether to send nothing more.
    pub fn draining(&self) -> bool {
        self.asked.load(Ordering::Relaxed) >= 1
    }

    /// Whether to end now.
    pub fn immediate(&self) -> bool {
        self.asked.load(Ordering::Relaxed) >= 2
    }
}
