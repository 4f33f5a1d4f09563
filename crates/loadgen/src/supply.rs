//! Requests that are generated during the run; each batch is published once it is ready.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The number of ready requests, shared by the generator and the workers.
#[derive(Debug, Default)]
pub struct Supply {
    ready: AtomicUsize,
    taken: AtomicUsize,
    closed: AtomicBool,
}

impl Supply {
    /// A supply of which `ready` requests are ready.
    pub fn new(ready: usize) -> Self {
        Supply { ready: AtomicUsize::new(ready), ..Supply::default() }
    }

    /// Publishes all requests with an index below `ready`, which must be available to the workers.
    pub fn publish(&self, ready: usize) {
        self.ready.store(ready, Ordering::Release);
    }

    /// Closes the supply: no more requests will be published.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// Number of ready requests that have not been sent.
    pub fn left(&self) -> usize {
        self.ready().saturating_sub(self.taken.load(Ordering::Relaxed))
    }

    pub(crate) fn ready(&self) -> usize {
        self.ready.load(Ordering::Acquire)
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    pub(crate) fn mark_taken(&self, index: usize) {
        self.taken.fetch_max(index + 1, Ordering::Relaxed);
    }
}
