//! Memory budget of waiting requests: beyond it a request is refused with a retryable error.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::request::problem::Problem;

/// Most bytes of all requests.
const LIMIT: usize = 2 << 30;
/// Bytes of a choice in addition to its prompt, running or waiting.
const PER_CHOICE: usize = 1024;

/// The memory of all requests.
#[derive(Debug, Clone, Default)]
pub(crate) struct Room(Arc<AtomicUsize>);

/// One request's share; released on drop.
#[derive(Debug)]
pub(crate) struct Share {
    room: Room,
    bytes: usize,
}

impl Room {
    /// Reserves memory for this many choices with `bytes` of prompts.
    pub(crate) fn take(&self, bytes: usize, choices: usize) -> Result<Share, Problem> {
        let bytes = bytes.saturating_add(choices.saturating_mul(PER_CHOICE));
        let share = Share { room: self.clone(), bytes };
        let before = self.0.fetch_add(bytes, Ordering::Relaxed);
        // Dropping the share releases it.
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
    fn dropped_memory_is_free_again() {
        let room = Room::default();
        let most = room.take(LIMIT - PER_CHOICE, 1).unwrap();
        assert_eq!(room.take(0, 1).unwrap_err().status, 503);
        drop(most);
        assert!(room.take(0, 1).is_ok());
        assert_eq!(room.0.load(Ordering::Relaxed), 0);
    }
}
