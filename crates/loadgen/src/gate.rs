//! How all workers begin at one moment, or none does.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tacho_core::{Clock, Stamp};

/// From the last worker's readiness to the first due time.
const LEAD: Duration = Duration::from_millis(1);

/// Opens when the last worker is ready; stays shut for good when one of them never will be.
#[derive(Debug)]
pub(crate) struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    missing: usize,
    shut: bool,
    origin: Option<Stamp>,
}

impl Gate {
    /// A gate for so many workers.
    pub(crate) fn new(workers: usize) -> Self {
        Gate { state: Mutex::new(State { missing: workers, shut: false, origin: None }), changed: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A worker is ready; the last one sets the moment from which due times count, or asks for it.
    pub(crate) fn ready(&self, clock: &dyn Clock, start: Option<&(dyn Fn() -> Stamp + Sync)>) {
        let mut state = self.state();
        state.missing -= 1;
        if state.missing == 0 {
            state.origin = Some(start.map_or_else(|| clock.now() + LEAD, |start| start()));
            self.changed.notify_all();
        }
    }

    /// A worker could not be made: nobody begins.
    pub(crate) fn shut(&self) {
        self.state().shut = true;
        self.changed.notify_all();
    }

    /// Waits for that moment; none when there will be none.
    pub(crate) fn wait(&self) -> Option<Stamp> {
        let state = self.state();
        let waiting = |state: &mut State| state.origin.is_none() && !state.shut;
        let state = self.changed.wait_while(state, waiting).unwrap_or_else(PoisonError::into_inner);
        state.origin.filter(|_| !state.shut)
    }
}
