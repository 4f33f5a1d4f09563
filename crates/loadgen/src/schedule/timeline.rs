//! The schedule of a run: when each request is scheduled, in seconds after the start, and the arrival process.

use std::sync::Arc;
use tacho_core::{StageSpan, bounded::ScheduledTime};

use super::RampUp;
use crate::Error;

/// The arrival process of a timeline, as reports state it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ArrivalProcess {
    /// Requested requests per second; infinite where there is no single rate.
    pub rate: f64,
    /// Shape of the gamma distribution of the gaps.
    pub burstiness: f64,
    /// The ramp of a growing rate.
    pub ramp: Option<RampUp>,
    /// Whether the times are recorded ones, as in a trace.
    pub replayed: bool,
    /// Number of independent processes.
    pub processes: usize,
}

impl ArrivalProcess {
    pub(super) const ALL_AT_ONCE: ArrivalProcess =
        ArrivalProcess { rate: f64::INFINITY, burstiness: 1.0, ramp: None, replayed: false, processes: 1 };
}

/// Scheduled times of all requests, in request order.
///
/// ```
/// use tacho_loadgen::ScheduleSpec;
/// use tacho_pyrand::RandomState;
///
/// let trace = ScheduleSpec::Replay(vec![0.0, 2.0, 1.5]);
/// let timeline = trace.plan(3, &mut RandomState::new(0))?;
/// assert_eq!(timeline.scheduled(), [0.0, 2.0, 1.5]);
/// // Requests are sent in order: the last one waits for the one before it.
/// assert_eq!(*timeline.eligible(), [0.0, 2.0, 2.0]);
/// // The part that another process sends, shifted to its first request.
/// assert_eq!(timeline.part(&[1, 2]).scheduled(), [0.5, 0.0]);
/// # Ok::<(), tacho_loadgen::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Timeline {
    // Shared, because a run and its stop rules read the same times.
    scheduled: Arc<[f64]>,
    rates: Arc<[f64]>,
    arrivals: ArrivalProcess,
    stages: Arc<[StageSpan]>,
    /// The stage of each request; empty if its send time determines it.
    stage_indices: Arc<[u16]>,
}

impl Timeline {
    pub(super) fn new(scheduled: Vec<f64>, rates: Vec<f64>, arrivals: ArrivalProcess) -> Result<Self, Error> {
        if let Some(index) = scheduled.iter().position(|seconds| !seconds.is_finite()) {
            return Err(Error::BadTime { index, seconds: scheduled[index] });
        }
        if let Some(index) = scheduled.iter().position(|&seconds| !ScheduledTime::holds(seconds.max(0.0))) {
            return Err(Error::TooFar { index, seconds: scheduled[index] });
        }
        let (stages, stage_indices) = ([].into(), [].into());
        Ok(Timeline { scheduled: scheduled.into(), rates: rates.into(), arrivals, stages, stage_indices })
    }

    pub(super) fn in_stages(self, stages: Arc<[StageSpan]>, stage_indices: Vec<u16>) -> Self {
        Timeline { stages, stage_indices: stage_indices.into(), ..self }
    }

    /// The stages of the run; empty without stages.
    pub fn stages(&self) -> &[StageSpan] {
        &self.stages
    }

    /// The stage that a request was scheduled in; `None` without stages, and if its send time determines the stage.
    pub fn stage_of(&self, index: usize) -> Option<usize> {
        self.stage_indices.get(index).map(|&stage| usize::from(stage))
    }

    /// The start and the concurrency limit of each stage of a closed loop.
    pub fn limits(&self) -> Vec<(f64, usize)> {
        self.stages.iter().filter_map(|stage| Some((stage.start, stage.limit?))).collect()
    }

    /// The arrival process.
    pub fn arrivals(&self) -> &ArrivalProcess {
        &self.arrivals
    }

    /// Whether all requests are scheduled at the start, by an infinite rate or by recorded times.
    pub fn is_at_once(&self) -> bool {
        self.scheduled.iter().all(|&seconds| seconds <= 0.0)
    }

    /// When each request is scheduled, in seconds after the start; not necessarily ascending.
    pub fn scheduled(&self) -> &[f64] {
        &self.scheduled
    }

    /// The scheduled times as a shared slice.
    pub fn shared_schedule(&self) -> Arc<[f64]> {
        self.scheduled.clone()
    }

    /// The rate at each request; empty if it is constant or the times were given rather than drawn.
    pub fn rates(&self) -> &[f64] {
        &self.rates
    }

    /// Number of requests.
    pub fn len(&self) -> usize {
        self.scheduled.len()
    }

    /// Whether there are no requests.
    pub fn is_empty(&self) -> bool {
        self.scheduled.is_empty()
    }

    /// The timeline of a subset of the requests, in ascending order, at their scheduled times.
    pub fn some(&self, requests: &[usize]) -> Timeline {
        Timeline {
            scheduled: pick(&self.scheduled, requests),
            rates: pick(&self.rates, requests),
            stage_indices: pick(&self.stage_indices, requests),
            ..self.clone()
        }
    }

    /// The timeline of a subset of the requests, in ascending order, shifted so that the first is scheduled at 0.
    pub fn part(&self, requests: &[usize]) -> Timeline {
        let mut part = self.some(requests);
        let first = part.scheduled.iter().copied().reduce(f64::min).unwrap_or(0.0).max(0.0);
        part.scheduled = part.scheduled.iter().map(|seconds| seconds - first).collect();
        part
    }

    /// When each request becomes eligible: requests are sent in order, so never before its predecessors.
    pub fn eligible(&self) -> Arc<[f64]> {
        let mut latest = 0.0_f64;
        if self.scheduled.is_sorted() && self.scheduled.first().is_none_or(|first| *first >= 0.0) {
            return self.shared_schedule();
        }
        self.scheduled
            .iter()
            .map(|&seconds| {
                latest = latest.max(seconds);
                latest
            })
            .collect()
    }
}

fn pick<T: Copy>(from: &[T], requests: &[usize]) -> Arc<[T]> {
    requests.iter().filter_map(|&request| from.get(request).copied()).collect()
}

#[cfg(test)]
mod tests {
    use tacho_pyrand::randomstate::RandomState;

    use crate::{ArrivalProcess, Error, ScheduleSpec};

    #[test]
    fn a_timeline_states_its_arrival_process() {
        let plan = |spec: ScheduleSpec, count| spec.plan(count, &mut RandomState::new(0)).unwrap();
        let at_once = plan(ScheduleSpec::Rate { rate: f64::INFINITY, burstiness: 1.0 }, 3);
        assert!(at_once.is_at_once() && *at_once.arrivals() == ArrivalProcess::ALL_AT_ONCE);
        let paced = plan(ScheduleSpec::Rate { rate: 2.0, burstiness: 1.0 }, 3);
        assert!(!paced.is_at_once() && paced.arrivals().rate == 2.0);
        let given = plan(ScheduleSpec::Replay(vec![0.0, 0.5]), 2);
        assert!(!given.is_at_once() && given.arrivals().replayed);
        // A workload saved by a run at infinite rate.
        assert!(plan(ScheduleSpec::Replay(vec![0.0, 0.0]), 2).is_at_once());
    }

    #[test]
    fn a_part_begins_at_once_and_keeps_its_gaps() {
        let whole = ScheduleSpec::Replay(vec![0.0, 1.0, 2.5, 4.0]).plan(4, &mut RandomState::new(0)).unwrap();
        let part = whole.part(&[1, 2, 3]);
        assert_eq!((part.scheduled(), part.arrivals()), (&[0.0, 1.5, 3.0][..], whole.arrivals()));
        assert_eq!(whole.part(&[0, 2]).scheduled(), [0.0, 2.5]);
    }

    #[test]
    fn times_that_never_come_are_refused() {
        let slow = ScheduleSpec::Rate { rate: 1e-30, burstiness: 1.0 };
        assert!(matches!(slow.plan(2, &mut RandomState::new(0)), Err(Error::TooFar { .. })));
        let given = ScheduleSpec::Replay(vec![0.0, 1e30]);
        assert!(matches!(given.plan(2, &mut RandomState::new(0)), Err(Error::TooFar { index: 1, .. })));
    }
}
