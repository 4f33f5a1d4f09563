//! A workload that goes on: requests that are made while the run is under way, each batch published once it is ready.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// How many requests there are by now, shared by whoever makes them and the workers.
#[derive(Debug, Default)]
pub struct Supply {
    ready: AtomicUsize,
    taken: AtomicUsize,
    closed: AtomicBool,
}

impl Supply {
    /// A supply that begins with so many.
    pub fn new(ready: usize) -> Self {
        Supply { ready: AtomicUsize::new(ready), ..Supply::default() }
    }

    /// Publishes more of them: whatever is sent for an index below `ready` must be there by now.
    pub fn publish(&self, ready: usize) {
        self.ready.store(ready, Ordering::Release);
    }

    /// There will be no more.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// How many are ready and have not been sent.
    pub fn left(&self) -> usize {
        self.ready().saturating_sub(self.taken.load(Ordering::Relaxed))
    }

    pub(crate) fn ready(&self) -> usize {
        self.ready.load(Ordering::Acquire)
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    pub(crate) fn took(&self, index: usize) {
        self.taken.fetch_max(index + 1, Ordering::Relaxed);
    }
}
