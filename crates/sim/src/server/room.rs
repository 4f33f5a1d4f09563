//! How much memory waiting requests may take together: beyond it a request is told to come again.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::request::problem::Problem;

/// Bytes that all requests together may hold.
const LIMIT: usize = 2 << 30;
/// Bytes that one answer takes beside its prompt, whether it runs or waits.
const PER_ANSWER: usize = 1024;

/// The memory of all requests.
#[derive(Debug, Clone, Default)]
pub(crate) struct Room(Arc<AtomicUsize>);

/// One request's share; given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Share {
    room: Room,
    bytes: usize,
}

impl Room {
    /// Sets memory aside for `answers` to prompts of `bytes` in all.
    pub(crate) fn take(&self, bytes: usize, answers: usize) -> Result<Share, Problem> {
        let bytes = bytes.saturating_add(answers.saturating_mul(PER_ANSWER));
        let share = Share { room: self.clone(), bytes };
        let before = self.0.fetch_add(bytes, Ordering::Relaxed);
        // The share gives back what it took when it is dropped here.
        if before.saturating_add(bytes) > LIMIT { Err(Problem::busy()) } else { Ok(share) }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.room.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dropped_is_free_again() {
        let room = Room::default();
        let most = room.take(LIMIT - PER_ANSWER, 1).unwrap();
        assert_eq!(room.take(0, 1).unwrap_err().status, 503);
        drop(most);
        assert!(room.take(0, 1).is_ok());
        assert_eq!(room.0.load(Ordering::Relaxed), 0);
    }
}
