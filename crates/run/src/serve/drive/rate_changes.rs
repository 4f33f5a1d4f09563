//! The times at which a ramp-up reached each integer request rate: the dispatch of the first request at that rate.

use tacho_core::{Observation, Timestamp, Watcher};
use tacho_loadgen::{RpsChange, Timeline};
use tacho_metrics::RateChange;

use crate::serve::finish::record::WallClock;

/// Watches for these requests.
#[derive(Default)]
pub(crate) struct RateChanges {
    /// In the order of the requests.
    steps: Vec<(RpsChange, Option<Timestamp>)>,
}

impl RateChanges {
    /// The rate steps of a timeline with a ramp; empty for any other.
    pub(crate) fn of(timeline: &Timeline) -> Self {
        let Some(ramp) = timeline.arrivals().ramp else { return RateChanges::default() };
        RateChanges { steps: ramp.changes(timeline.rates()).into_iter().map(|step| (step, None)).collect() }
    }

    /// The rate steps that were reached, in local time.
    pub(crate) fn reached(self, origin: Timestamp, wall: &WallClock) -> Vec<RateChange> {
        let timestamped = self.steps.into_iter().filter_map(|(step, released)| {
            let reached = if step.index.is_none() { Some(origin) } else { released };
            let timestamp = wall.local(reached?).strftime("%Y-%m-%dT%H:%M:%S%.6f").to_string();
            Some(RateChange { rps: step.rps, timestamp })
        });
        timestamped.collect()
    }
}

impl Watcher for RateChanges {
    fn rows(&mut self, rows: &[Observation]) {
        if self.steps.is_empty() {
            return;
        }
        for row in rows {
            let first = self.steps.partition_point(|(step, _)| step.index < Some(row.index));
            let reached = self.steps[first..].iter_mut().take_while(|(step, _)| step.index == Some(row.index));
            reached.for_each(|(_, released)| *released = Some(row.dispatched));
        }
    }
}
