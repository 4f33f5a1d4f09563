//! Requests that are generated during the run; each batch is published once it is ready.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// How many requests are ready, shared by the generator and the workers.
#[derive(Debug, Default)]
pub struct Supply {
    ready: AtomicUsize,
    taken: AtomicUsize,
    closed: AtomicBool,
}

impl Supply {
    /// A supply with `ready` requests.
    pub fn new(ready: usize) -> Self {
        Supply { ready: AtomicUsize::new(ready), ..Supply::default() }
    }

    /// Publishes all requests with an index below `ready`; the caller has made them available.
    pub fn publish(&self, ready: usize) {
        self.ready.store(ready, Ordering::Release);
    }

    /// Ends the supply: no more will be published.
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

    pub(crate) fn mark_taken(&self, index: usize) {
        self.taken.fetch_max(index + 1, Ordering::Relaxed);
    }
}
