//! Which request a worker may send next, and when.
//!
//! Without a concurrency limit each worker has every n-th request for itself and shares nothing. With a limit the
//! slots are dealt out to the workers and all of them draw from one counter, in order: a slot that becomes free takes
//! the next waiting request on the thread it became free on, so no other thread has to be woken. Workers with a free
//! slot all wait for the same request, and whoever is free takes it. Drawn beforehand by one of them it costs less (14
//! workers, 600 requests/s: 1.0 to 0.8 s of CPU in two seconds) and goes late whenever that one is reading: the p99 of
//! lateness went from 0.01 ms to 0.4-1.8 ms.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tacho_core::Stamp;

use crate::drive::share;
use crate::sessions::Sessions;
use crate::{Supply, Timeline};

/// When each request is let go; made once and shared by all workers.
#[derive(Debug)]
pub(crate) struct Releases<'a> {
    /// Seconds from the origin. They are made moments when they are asked for: those of a million take eight megabytes.
    offsets: Arc<[f64]>,
    /// Where requests beyond those come from; they may go at once.
    more: Option<&'a Supply>,
}

impl<'a> Releases<'a> {
    /// The release times of a timeline, and of what comes after it.
    pub(crate) fn of(timeline: &Timeline, more: Option<&'a Supply>) -> Self {
        Releases { offsets: timeline.releases(), more }
    }

    /// How many the timeline has.
    pub(crate) fn len(&self) -> usize {
        self.offsets.len()
    }

    /// The same counted from `origin`.
    pub(crate) fn since(&self, origin: Stamp) -> Due<'_> {
        Due { offsets: &self.offsets, more: self.more, origin }
    }
}

/// Release times in a run that has begun.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Due<'a> {
    offsets: &'a [f64],
    more: Option<&'a Supply>,
    origin: Stamp,
}

impl Due<'_> {
    /// When the request is let go; none when there is no such request, or not yet.
    pub(crate) fn get(&self, index: usize) -> Option<Stamp> {
        match self.offsets.get(index) {
            Some(&offset) => Some(Stamp(self.origin.0.saturating_add(Stamp::from_secs(offset).0))),
            None => self.more.filter(|more| index < more.ready()).map(|_| self.origin),
        }
    }

    /// Whether there is no such request and never will be.
    fn is_beyond(&self, index: usize) -> bool {
        // Closed is read first: what is published before that is then seen.
        let closed = self.more.is_none_or(Supply::is_closed);
        closed && self.get(index).is_none()
    }

    fn took(&self, index: usize) {
        if let Some(more) = self.more {
            more.took(index);
        }
    }
}

/// The requests of one worker.
pub(crate) enum Feed<'a> {
    /// Every `step`-th request from `next` on.
    Own { next: usize, step: usize },
    /// Whatever is next for all workers, while there are slots.
    Shared { cursor: &'a AtomicUsize, slots: usize },
    /// Those whose parents have ended.
    Sessions(Box<Sessions<'a>>),
}

impl<'a> Feed<'a> {
    /// The feed of worker `id` of `of`.
    pub(crate) fn new(id: usize, of: usize, limit: Option<usize>, cursor: &'a AtomicUsize) -> Self {
        match limit {
            None => Feed::Own { next: id, step: of },
            Some(limit) => Feed::Shared { cursor, slots: share(limit, id, of) },
        }
    }

    /// When the next request may go, [`Stamp::NEVER`] if none may while `in_flight` are under way.
    pub(crate) fn next_release(&self, due: Due<'_>, in_flight: usize) -> Stamp {
        let index = match self {
            Feed::Own { next, .. } => *next,
            Feed::Shared { slots, .. } if in_flight >= *slots => return Stamp::NEVER,
            Feed::Shared { cursor, .. } => cursor.load(Ordering::Relaxed),
            Feed::Sessions(sessions) => return sessions.next_release(in_flight),
        };
        due.get(index).unwrap_or(Stamp::NEVER)
    }

    /// Takes the next request if its time has come; tells which and since when it could go.
    pub(crate) fn take(&mut self, due: Due<'_>, in_flight: usize, now: Stamp) -> Option<(usize, Stamp)> {
        let ripe = |index: usize| due.get(index).filter(|&release| release <= now);
        match self {
            Feed::Own { next, step } => {
                let (index, release) = (*next, ripe(*next)?);
                *next += *step;
                due.took(index);
                Some((index, release))
            }
            Feed::Shared { slots, .. } if in_flight >= *slots => None,
            Feed::Shared { cursor, .. } => {
                let next = |index: usize| ripe(index).map(|_| index + 1);
                let index = cursor.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).ok()?;
                due.took(index);
                Some((index, ripe(index)?))
            }
            Feed::Sessions(sessions) => sessions.take(in_flight, now),
        }
    }

    /// How many more requests this worker could have under way.
    pub(crate) fn free_slots(&self, in_flight: usize) -> usize {
        match self {
            Feed::Own { .. } => usize::MAX,
            Feed::Shared { slots, .. } => slots.saturating_sub(in_flight),
            Feed::Sessions(sessions) => sessions.free_slots(in_flight),
        }
    }

    /// Whether this worker will never be given another request.
    pub(crate) fn exhausted(&self, due: Due<'_>) -> bool {
        due.is_beyond(match self {
            Feed::Own { next, .. } => *next,
            Feed::Shared { cursor, .. } => cursor.load(Ordering::Relaxed),
            Feed::Sessions(sessions) => return sessions.exhausted(),
        })
    }
}
