//! Memory budget of waiting requests: beyond it a request is refused with a retryable error.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::request::problem::Problem;

const LIMIT: usize = 2 << 30;
/// Bytes of a choice in addition to its prompt, running or waiting.
const PER_CHOICE: usize = 1024;
const EXHAUSTED: &str = "the requests that wait take all the memory they may; send fewer at a time";

#[derive(Debug, Clone, Default)]
pub(crate) struct MemoryBudget(Arc<AtomicUsize>);

/// One request's memory; released on drop.
#[derive(Debug)]
pub(crate) struct Reserved {
    budget: MemoryBudget,
    bytes: usize,
}

impl MemoryBudget {
    /// Reserves memory for this many choices with `bytes` of prompts.
    pub(crate) fn reserve(&self, bytes: usize, choices: usize) -> Result<Reserved, Problem> {
        let bytes = bytes.saturating_add(choices.saturating_mul(PER_CHOICE));
        let reserved = Reserved { budget: self.clone(), bytes };
        let before = self.0.fetch_add(bytes, Ordering::Relaxed);
        // Dropping it releases the memory.
        if before.saturating_add(bytes) > LIMIT { Err(Problem::unavailable(EXHAUSTED)) } else { Ok(reserved) }
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.budget.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropped_memory_is_free_again() {
        let budget = MemoryBudget::default();
        let max = budget.reserve(LIMIT - PER_CHOICE, 1).unwrap();
        assert_eq!(budget.reserve(0, 1).unwrap_err().status, 503);
        drop(max);
        assert!(budget.reserve(0, 1).is_ok());
        assert_eq!(budget.0.load(Ordering::Relaxed), 0);
    }
}
