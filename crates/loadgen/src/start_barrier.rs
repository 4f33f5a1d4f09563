//! All workers start at the same time, or none does.

use std::sync::{Condvar, PoisonError};
use std::time::Duration;

use tacho_core::{Clock, Mutex, Timestamp};

/// From the last worker's readiness to the start of the schedule.
const LEAD: Duration = Duration::from_millis(1);

/// A barrier that opens when the last worker is ready, and never if one of them fails.
#[derive(Debug)]
pub(crate) struct StartBarrier {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    missing: usize,
    failed: bool,
    origin: Option<Timestamp>,
}

impl StartBarrier {
    pub(crate) fn new(workers: usize) -> Self {
        let state = State { missing: workers, failed: false, origin: None };
        StartBarrier { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Marks a worker as ready. The last one sets the origin of the schedule, or calls `start` for it.
    pub(crate) fn ready(&self, clock: &dyn Clock, start: Option<&(dyn Fn() -> Timestamp + Sync)>) {
        let mut state = self.state.lock();
        state.missing -= 1;
        if state.missing == 0 {
            state.origin = Some(start.map_or_else(|| clock.now() + LEAD, |start| start()));
            self.changed.notify_all();
        }
    }

    /// Marks the start as failed: no worker begins.
    pub(crate) fn fail(&self) {
        self.state.lock().failed = true;
        self.changed.notify_all();
    }

    /// Waits for the origin; `None` if a worker failed.
    pub(crate) fn wait(&self) -> Option<Timestamp> {
        let state = self.state.lock();
        let waiting = |state: &mut State| state.origin.is_none() && !state.failed;
        let state = self.changed.wait_while(state, waiting).unwrap_or_else(PoisonError::into_inner);
        state.origin.filter(|_| !state.failed)
    }
}

#[cfg(test)]
mod tests {
    use tacho_core::ManualClock;

    use super::*;

    #[test]
    fn the_last_worker_sets_the_origin() {
        let clock = ManualClock::default();
        clock.set(Timestamp(7_000_000));
        let barrier = StartBarrier::new(2);
        barrier.ready(&clock, None);
        assert_eq!(barrier.state.lock().origin, None);
        barrier.ready(&clock, None);
        assert_eq!(barrier.wait(), Some(Timestamp(8_000_000)));
        let named = StartBarrier::new(1);
        named.ready(&clock, Some(&|| Timestamp(42)));
        assert_eq!(named.wait(), Some(Timestamp(42)));
    }

    #[test]
    fn one_failure_keeps_all_from_starting() {
        let barrier = StartBarrier::new(2);
        barrier.fail();
        assert_eq!(barrier.wait(), None);
        (0..2).for_each(|_| barrier.ready(&ManualClock::default(), None));
        assert_eq!(barrier.wait(), None, "also when the failure came before the last worker was ready");
    }
}
