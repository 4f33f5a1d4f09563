//! Requests to stop a run early, and their reason.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// Why a run ended before its workload did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// Interrupted by a signal or the caller.
    Interrupted,
    /// The time limit was reached.
    Duration,
    /// The result was precise enough.
    Precise,
    /// Too many requests failed.
    Failures,
    /// The server could not keep up.
    Overload,
    /// Another rank of the run was lost, or rank 0 ended it.
    Ranks,
}

impl StopReason {
    const ALL: [StopReason; 6] = [
        StopReason::Interrupted,
        StopReason::Duration,
        StopReason::Precise,
        StopReason::Failures,
        StopReason::Overload,
        StopReason::Ranks,
    ];
}

/// A stop signal shared by the signal handler, the stop rules and the workers. The first request drains the run, the
/// second ends it at once.
///
/// ```
/// use tacho_loadgen::{StopReason, StopSignal};
///
/// let series = StopSignal::default();
/// let run = series.inner();
/// run.stop_because(StopReason::Precise);
/// assert!(run.draining() && !run.immediate());
/// assert!(!series.draining());
/// series.request_stop();
/// assert_eq!(run.reason(), Some(StopReason::Precise));
/// ```
#[derive(Debug, Clone, Default)]
pub struct StopSignal {
    local: Arc<State>,
    /// The signal of the series that this run is part of.
    outer: Option<Arc<State>>,
}

#[derive(Debug, Default)]
struct State {
    requests: AtomicU8,
    reason: AtomicU8,
}

impl State {
    fn requests(&self) -> u8 {
        self.requests.load(Ordering::Relaxed)
    }
}

impl StopSignal {
    /// The signal of one run in a series: it stops with the series, but does not stop the series.
    pub fn inner(&self) -> StopSignal {
        StopSignal { local: Arc::default(), outer: Some(self.local.clone()) }
    }

    /// Requests a stop. The first call drains the requests in flight, the second ends the run at once.
    pub fn request_stop(&self) {
        let more = |requests: u8| Some(requests.saturating_add(1));
        let _ = self.local.requests.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
    }

    /// Drains the run for this reason; has no effect if the run is already stopping.
    pub fn stop_because(&self, reason: StopReason) {
        if !self.draining() {
            let code = StopReason::ALL.iter().position(|one| *one == reason).unwrap_or(0) as u8;
            self.local.reason.store(code, Ordering::Relaxed);
            self.request_stop();
        }
    }

    fn requests(&self) -> u8 {
        self.local.requests().saturating_add(self.outer.as_ref().map_or(0, |outer| outer.requests()))
    }

    /// Whether the run sends no more requests.
    pub fn draining(&self) -> bool {
        self.requests() >= 1
    }

    /// Whether the run ends without waiting for the requests in flight.
    pub fn immediate(&self) -> bool {
        self.requests() >= 2
    }

    /// The reason of the first stop request.
    pub fn reason(&self) -> Option<StopReason> {
        let local = || StopReason::ALL.get(usize::from(self.local.reason.load(Ordering::Relaxed))).copied();
        match self.local.requests() {
            0 => self.draining().then_some(StopReason::Interrupted),
            _ => local(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inner_signal_stops_with_the_outer_one_and_not_the_other_way_round() {
        let outer = StopSignal::default();
        let (one, two) = (outer.inner(), outer.inner());
        one.stop_because(StopReason::Duration);
        assert_eq!((one.reason(), two.reason(), outer.reason()), (Some(StopReason::Duration), None, None));
        assert!(one.draining() && !one.immediate());
        outer.request_stop();
        assert!(one.immediate() && two.draining() && !two.immediate());
        assert_eq!((one.reason(), two.reason()), (Some(StopReason::Duration), Some(StopReason::Interrupted)));
    }

    #[test]
    fn the_first_reason_stays() {
        let stop = StopSignal::default();
        stop.stop_because(StopReason::Failures);
        stop.stop_because(StopReason::Overload);
        assert_eq!(stop.reason(), Some(StopReason::Failures));
        assert!(!stop.immediate());
    }
}
