//! How a run is told to end early, and why.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// Why a run ended before its workload did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// A signal, or whoever called.
    Asked,
    /// Its time was over.
    Duration,
    /// Its answer was precise enough.
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
        StopReason::Asked,
        StopReason::Duration,
        StopReason::Precise,
        StopReason::Failures,
        StopReason::Overload,
        StopReason::Ranks,
    ];
}

/// Shared by whoever catches signals, the rules that end a run, and the workers; each asking asks for more.
#[derive(Debug, Clone, Default)]
pub struct StopSignal {
    own: Arc<State>,
    /// That of whoever runs several runs.
    outer: Option<Arc<State>>,
}

#[derive(Debug, Default)]
struct State {
    asked: AtomicU8,
    reason: AtomicU8,
}

impl State {
    fn asked(&self) -> u8 {
        self.asked.load(Ordering::Relaxed)
    }
}

impl StopSignal {
    /// A signal of one run among several: it stops with this one, and its own end stops nobody else.
    pub fn inner(&self) -> StopSignal {
        StopSignal { own: Arc::default(), outer: Some(self.own.clone()) }
    }

    /// Once: send nothing more and finish what is under way. Twice: end now.
    pub fn ask(&self) {
        let more = |asked: u8| Some(asked.saturating_add(1));
        let _ = self.own.asked.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
    }

    /// Send nothing more, for this reason. Said again it changes nothing.
    pub fn ask_because(&self, reason: StopReason) {
        if !self.draining() {
            let code = StopReason::ALL.iter().position(|one| *one == reason).unwrap_or(0) as u8;
            self.own.reason.store(code, Ordering::Relaxed);
            self.ask();
        }
    }

    fn asked(&self) -> u8 {
        self.own.asked().saturating_add(self.outer.as_ref().map_or(0, |outer| outer.asked()))
    }

    /// Whether to send nothing more.
    pub fn draining(&self) -> bool {
        self.asked() >= 1
    }

    /// Whether to end now.
    pub fn immediate(&self) -> bool {
        self.asked() >= 2
    }

    /// Why, if it was asked.
    pub fn reason(&self) -> Option<StopReason> {
        let own = || StopReason::ALL.get(usize::from(self.own.reason.load(Ordering::Relaxed))).copied();
        match self.own.asked() {
            0 => self.draining().then_some(StopReason::Asked),
            _ => own(),
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
        one.ask_because(StopReason::Duration);
        assert_eq!((one.reason(), two.reason(), outer.reason()), (Some(StopReason::Duration), None, None));
        assert!(one.draining() && !one.immediate());
        outer.ask();
        assert!(one.immediate() && two.draining() && !two.immediate());
        assert_eq!((one.reason(), two.reason()), (Some(StopReason::Duration), Some(StopReason::Asked)));
    }

    #[test]
    fn the_first_reason_stays() {
        let stop = StopSignal::default();
        stop.ask_because(StopReason::Failures);
        stop.ask_because(StopReason::Overload);
        assert_eq!(stop.reason(), Some(StopReason::Failures));
        assert!(!stop.immediate());
    }
}
