//! When the rate of a ramp-up reached each whole number: at the release of the request that it was reached with.

use tacho_core::{Observation, Stamp, Watcher};
use tacho_loadgen::{RpsChange, Timeline};
use tacho_metrics::RateChange;

use super::record::Moments;

/// Looks out for those requests.
#[derive(Default)]
pub(super) struct Ramp {
    /// In the order of the requests.
    steps: Vec<(RpsChange, Option<Stamp>)>,
}

impl Ramp {
    /// The steps of a timeline that has a ramp; none of any other.
    pub(super) fn of(timeline: &Timeline) -> Self {
        let Some(ramp) = timeline.pace().ramp else { return Ramp::default() };
        Ramp { steps: ramp.changes(timeline.rates()).into_iter().map(|step| (step, None)).collect() }
    }

    /// The steps that were reached, by the calendar.
    pub(super) fn changes(self, origin: Stamp, moments: &Moments) -> Vec<RateChange> {
        let stamped = self.steps.into_iter().filter_map(|(step, released)| {
            let moment = if step.index.is_none() { Some(origin) } else { released };
            let timestamp = moments.local(moment?).strftime("%Y-%m-%dT%H:%M:%S%.6f").to_string();
            Some(RateChange { rps: step.rps, timestamp })
        });
        stamped.collect()
    }
}

impl Watcher for Ramp {
    fn rows(&mut self, rows: &[Observation]) {
        if self.steps.is_empty() {
            return;
        }
        for row in rows {
            let first = self.steps.partition_point(|(step, _)| step.index < Some(row.index));
            let reached = self.steps[first..].iter_mut().take_while(|(step, _)| step.index == Some(row.index));
            reached.for_each(|(_, released)| *released = Some(row.released));
        }
    }
}
