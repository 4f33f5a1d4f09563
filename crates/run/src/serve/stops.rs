//! Rules that end a run before its workload does, evaluated on rows as they arrive. The dispatcher itself enforces
//! the duration.

mod failures;
mod overload;
mod precision;
mod unreachable;

use tacho_core::{Clock, Observation, SystemClock, Timestamp, Watcher};
use tacho_loadgen::{StopReason, StopSignal, Timeline};

use crate::{plan::StopPlan, serve::prepare::identity::RunIdentity};
use failures::Failures;
use overload::Overload;
use precision::Precise;
use unreachable::Unreachable;

trait Rule {
    fn rows(&mut self, rows: &[Observation]);

    /// Returns whether the run should end, `seconds` after its start.
    fn is_broken(&mut self, seconds: f64) -> bool;
}

pub(crate) struct Stops<'a> {
    rules: Vec<(StopReason, Box<dyn Rule + 'a>)>,
    stop: &'a StopSignal,
    clock: SystemClock,
    origin: Timestamp,
}

impl<'a> Stops<'a> {
    pub(crate) fn new(
        plan: &'a StopPlan,
        timeline: &Timeline,
        identity: &'a RunIdentity,
        stop: &'a StopSignal,
        clock: SystemClock,
    ) -> Self {
        let mut rules: Vec<(StopReason, Box<dyn Rule + 'a>)> = Vec::new();
        if let Some(limit) = plan.failures {
            rules.push((StopReason::Failures, Box::new(Failures::new(limit))));
        }
        if plan.overload {
            rules.push((StopReason::Overload, Box::new(Overload::new(timeline))));
        }
        if let Some(wanted) = &plan.precision {
            rules.push((StopReason::Precise, Box::new(Precise::new(wanted, &identity.requests, &identity.setup))));
        }
        // vLLM sends its whole schedule even if the server is unreachable.
        if !timeline.is_at_once() && !identity.setup.strict_parity {
            rules.push((StopReason::Failures, Box::new(Unreachable::default())));
        }
        Stops { rules, stop, clock, origin: Timestamp::ZERO }
    }

    fn judge(&mut self) {
        let seconds = self.clock.now().secs_since(self.origin);
        for (reason, rule) in &mut self.rules {
            if rule.is_broken(seconds) {
                self.stop.stop_because(*reason);
            }
        }
    }
}

impl Watcher for Stops<'_> {
    fn began(&mut self, origin: Timestamp) {
        self.origin = origin;
    }

    fn rows(&mut self, rows: &[Observation]) {
        self.rules.iter_mut().for_each(|(_, rule)| rule.rows(rows));
        self.judge();
    }

    fn idle(&mut self) {
        self.judge();
    }
}
