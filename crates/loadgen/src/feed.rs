//! Which request a worker may send next, and when.
//!
//! Without a concurrency limit each worker has every n-th request for itself and shares nothing. With a limit the
//! slots are dealt out to the workers and all of them draw from one counter, in order: a slot that becomes free takes
//! the next waiting request on the thread it became free on, so no other thread has to be woken.

use std::sync::atomic::{AtomicUsize, Ordering};

use tacho_core::Stamp;

/// The requests of one worker.
#[derive(Debug)]
pub(crate) enum Feed<'a> {
    /// Every `step`-th request from `next` on.
    Own { next: usize, step: usize },
    /// Whatever is next for all workers, while there are slots.
    Shared { cursor: &'a AtomicUsize, slots: usize },
}

impl<'a> Feed<'a> {
    /// The feed of worker `id` of `of`.
    pub(crate) fn new(id: usize, of: usize, limit: Option<usize>, cursor: &'a AtomicUsize) -> Self {
        match limit {
            None => Feed::Own { next: id, step: of },
            Some(limit) => Feed::Shared { cursor, slots: limit / of + usize::from(id < limit % of) },
        }
    }

    /// When the next request may go, [`Stamp::NEVER`] if none may while `in_flight` are under way.
    pub(crate) fn next_release(&self, releases: &[Stamp], in_flight: usize) -> Stamp {
        let index = match self {
            Feed::Own { next, .. } => *next,
            Feed::Shared { slots, .. } if in_flight >= *slots => return Stamp::NEVER,
            Feed::Shared { cursor, .. } => cursor.load(Ordering::Relaxed),
        };
        releases.get(index).copied().unwrap_or(Stamp::NEVER)
    }

    /// Takes the next request if its time has come.
    pub(crate) fn take(&mut self, releases: &[Stamp], in_flight: usize, now: Stamp) -> Option<usize> {
        match self {
            Feed::Own { next, step } => {
                let index = *next;
                (*releases.get(index)? <= now).then(|| *next += *step)?;
                Some(index)
            }
            Feed::Shared { slots, .. } if in_flight >= *slots => None,
            Feed::Shared { cursor, .. } => cursor
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |index| {
                    (*releases.get(index)? <= now).then_some(index + 1)
                })
                .ok(),
        }
    }

    /// How many more requests this worker could have under way.
    pub(crate) fn free_slots(&self, in_flight: usize) -> usize {
        match self {
            Feed::Own { .. } => usize::MAX,
            Feed::Shared { slots, .. } => slots.saturating_sub(in_flight),
        }
    }

    /// Whether this worker will never be given another request.
    pub(crate) fn exhausted(&self, count: usize) -> bool {
        match self {
            Feed::Own { next, .. } => *next >= count,
            Feed::Shared { cursor, .. } => cursor.load(Ordering::Relaxed) >= count,
        }
    }
}
