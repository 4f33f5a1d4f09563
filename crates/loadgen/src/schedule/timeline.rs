//! The plan of a run: when each request is due, as seconds after the start, and how that came about.

use std::sync::Arc;

use super::RampUp;
use crate::Error;

/// A due time beyond this is a mistake: some thirty years.
const FARTHEST: f64 = 1e9;

/// How the requests of a timeline are paced, as it is told; the times themselves are the timeline's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pace {
    /// Requests per second that were asked for; infinite where no one rate was.
    pub rate: f64,
    /// Shape of the gaps' distribution.
    pub burstiness: f64,
    /// From where to where the rate grows, where it does.
    pub ramp: Option<RampUp>,
    /// Whether the times were given, as those of a trace.
    pub given: bool,
}

impl Pace {
    pub(super) const AT_ONCE: Pace = Pace { rate: f64::INFINITY, burstiness: 1.0, ramp: None, given: false };
}

/// Due times of all requests, in request order.
#[derive(Debug, Clone, PartialEq)]
pub struct Timeline {
    // Shared, since a run and its rules look at the same times.
    due: Arc<[f64]>,
    rates: Arc<[f64]>,
    pace: Pace,
}

impl Timeline {
    pub(super) fn new(due: Vec<f64>, rates: Vec<f64>, pace: Pace) -> Result<Self, Error> {
        if let Some(index) = due.iter().position(|seconds| !seconds.is_finite()) {
            return Err(Error::BadTime { index, seconds: due[index] });
        }
        if let Some(index) = due.iter().position(|&seconds| seconds > FARTHEST) {
            return Err(Error::TooFar { index, seconds: due[index] });
        }
        Ok(Timeline { due: due.into(), rates: rates.into(), pace })
    }

    /// How the requests are paced.
    pub fn pace(&self) -> &Pace {
        &self.pace
    }

    /// Whether all requests are due at the start, whoever said so.
    pub fn is_at_once(&self) -> bool {
        self.due.iter().all(|&due| due <= 0.0)
    }

    /// When each request is due, in seconds after the start; not necessarily ascending.
    pub fn due(&self) -> &[f64] {
        &self.due
    }

    /// The same to be kept.
    pub fn shared_due(&self) -> Arc<[f64]> {
        self.due.clone()
    }

    /// The rate in force for each request; empty where it never changes, or times were given rather than drawn.
    pub fn rates(&self) -> &[f64] {
        &self.rates
    }

    /// How many requests there are.
    pub fn len(&self) -> usize {
        self.due.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.due.is_empty()
    }

    /// The timeline of some of the requests, in ascending order, at their own times.
    pub fn some(&self, places: &[usize]) -> Timeline {
        let pick = |from: &[f64]| places.iter().filter_map(|&place| from.get(place).copied()).collect::<Arc<[_]>>();
        Timeline { due: pick(&self.due), rates: pick(&self.rates), pace: self.pace }
    }

    /// The timeline of some of the requests, in ascending order; the first of them is due at once.
    pub fn part(&self, places: &[usize]) -> Timeline {
        let mut part = self.some(places);
        let first = part.due.iter().copied().reduce(f64::min).unwrap_or(0.0).max(0.0);
        part.due = part.due.iter().map(|due| due - first).collect();
        part
    }

    /// When each request is let go: in order, so never before the ones in front of it.
    pub fn releases(&self) -> Arc<[f64]> {
        let mut latest = 0.0_f64;
        if self.due.is_sorted() && self.due.first().is_none_or(|first| *first >= 0.0) {
            return self.shared_due();
        }
        self.due
            .iter()
            .map(|&due| {
                latest = latest.max(due);
                latest
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use tacho_pyrand::randomstate::RandomState;

    use crate::{Error, Pace, ScheduleSpec};

    #[test]
    fn a_timeline_knows_its_pace() {
        let plan = |spec: ScheduleSpec, count| spec.plan(count, &mut RandomState::new(0)).unwrap();
        let at_once = plan(ScheduleSpec::Rate { rate: f64::INFINITY, burstiness: 1.0 }, 3);
        assert!(at_once.is_at_once() && *at_once.pace() == Pace::AT_ONCE);
        let paced = plan(ScheduleSpec::Rate { rate: 2.0, burstiness: 1.0 }, 3);
        assert!(!paced.is_at_once() && paced.pace().rate == 2.0);
        let given = plan(ScheduleSpec::Replay(vec![0.0, 0.5]), 2);
        assert!(!given.is_at_once() && given.pace().given);
        // A workload saved by a run at infinite rate.
        assert!(plan(ScheduleSpec::Replay(vec![0.0, 0.0]), 2).is_at_once());
    }

    #[test]
    fn a_part_begins_at_once_and_keeps_its_gaps() {
        let whole = ScheduleSpec::Replay(vec![0.0, 1.0, 2.5, 4.0]).plan(4, &mut RandomState::new(0)).unwrap();
        let part = whole.part(&[1, 2, 3]);
        assert_eq!((part.due(), part.pace()), (&[0.0, 1.5, 3.0][..], whole.pace()));
    }

    #[test]
    fn times_that_never_come_are_refused() {
        let slow = ScheduleSpec::Rate { rate: 1e-30, burstiness: 1.0 };
        assert!(matches!(slow.plan(2, &mut RandomState::new(0)), Err(Error::TooFar { .. })));
        let given = ScheduleSpec::Replay(vec![0.0, 1e30]);
        assert!(matches!(given.plan(2, &mut RandomState::new(0)), Err(Error::TooFar { index: 1, .. })));
    }
}
