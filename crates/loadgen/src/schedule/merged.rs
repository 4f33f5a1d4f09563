//! Several independent arrival processes in one run, as one timeline.

use std::sync::Arc;

use tacho_pyrand::randomstate::RandomState;

use super::{ArrivalProcess, ScheduleSpec};
use crate::Error;

/// The arrivals of several processes in the order of their times.
///
/// ```
/// use tacho_loadgen::{Merged, ScheduleSpec};
///
/// let even = |rate| ScheduleSpec::Rate { rate, burstiness: f64::INFINITY };
/// let merged = Merged::new(&[(even(2.0), 4), (even(1.0), 2)], 0)?;
/// assert_eq!(merged.sources(), [0, 0, 1, 0, 0, 1]);
/// # Ok::<(), tacho_loadgen::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Merged {
    pub(super) times: Arc<[f64]>,
    sources: Arc<[u16]>,
    processes: usize,
    /// Mean rate while a process lasts.
    rate: f64,
}

impl Merged {
    /// Merges processes, each with its number of requests. Process `k` draws from a generator of its own, seeded by
    /// `seed` and `k`: its times do not depend on the other processes. Of equal times the first process comes first.
    /// Fails if a process has no possible times.
    pub fn new(processes: &[(ScheduleSpec, usize)], seed: u32) -> Result<Self, Error> {
        let mut arrivals = Vec::new();
        for (source, (spec, count)) in (0_u16..).zip(processes) {
            // Not the generator that samples the prompts of process `k`.
            let mut random = RandomState::new(!seed.wrapping_add(u32::from(source)));
            let timeline = spec.plan(*count, &mut random)?;
            arrivals.extend(timeline.eligible().iter().map(|&seconds| (seconds, source)));
        }
        arrivals.sort_by(|one, other| one.0.total_cmp(&other.0));
        let longest = processes.iter().map(|(spec, count)| *count as f64 / spec.arrivals().rate).fold(0.0, f64::max);
        Ok(Merged {
            times: arrivals.iter().map(|arrival| arrival.0).collect(),
            sources: arrivals.iter().map(|arrival| arrival.1).collect(),
            processes: processes.len(),
            rate: arrivals.len() as f64 / longest,
        })
    }

    /// The process of each request.
    pub fn sources(&self) -> &[u16] {
        &self.sources
    }

    pub(super) fn arrivals(&self) -> ArrivalProcess {
        ArrivalProcess { rate: self.rate, processes: self.processes, ..ArrivalProcess::ALL_AT_ONCE }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Curve, Stage, StageLength, StageLoad, Stages};

    fn poisson(rate: f64) -> ScheduleSpec {
        ScheduleSpec::Rate { rate, burstiness: 1.0 }
    }

    fn times_of(merged: &Merged, source: u16) -> Vec<f64> {
        let all = merged.times.iter().zip(merged.sources());
        all.filter(|(_, of)| **of == source).map(|(seconds, _)| *seconds).collect()
    }

    #[test]
    fn each_process_keeps_its_times_beside_others() {
        let stage = |name: &str, from, to| Stage {
            name: name.to_owned(),
            length: StageLength::Seconds(10.0),
            load: StageLoad::Rate(Curve::Linear { from, to }),
            burstiness: 1.0,
        };
        let stages = Stages::new(vec![stage("low", 1.0, 1.0), stage("high", 9.0, 9.0)]).unwrap();
        let staged = (ScheduleSpec::Stages(stages), 100);
        let both = Merged::new(&[(poisson(5.0), 100), staged.clone()], 7).unwrap();
        assert!(both.times.is_sorted() && both.times.len() == 200);
        assert_eq!(times_of(&both, 0), *Merged::new(&[(poisson(5.0), 100)], 7).unwrap().times);
        let second = times_of(&both, 1);
        assert_eq!(second, times_of(&Merged::new(&[(poisson(99.0), 3), staged], 7).unwrap(), 1));
        assert_eq!(second.iter().filter(|seconds| **seconds < 10.0).count(), 10);
        assert_ne!(both.times, Merged::new(&[(poisson(5.0), 200)], 7).unwrap().times);
        assert!((both.arrivals().rate - 10.0).abs() < 1e-9 && both.arrivals().processes == 2);
    }

    #[test]
    fn equal_processes_do_not_send_at_equal_times() {
        let both = Merged::new(&[(poisson(5.0), 50), (poisson(5.0), 50)], 0).unwrap();
        assert_ne!(times_of(&both, 0)[..49], times_of(&both, 1)[..49]);
    }
}
