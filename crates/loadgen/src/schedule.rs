//! Scheduled times, all computed before the first request leaves, with the draws of `vllm bench`.

mod arrivals;
mod merged;
mod ramp;
mod stages;
mod timeline;

pub use merged::Merged;
pub use ramp::{RampUp, RampUpStrategy, RpsChange};
pub use stages::{Curve, Stage, StageLength, StageLoad, Stages};
pub use timeline::{ArrivalProcess, Timeline};

use tacho_pyrand::randomstate::RandomState;

use crate::Error;

/// When requests are scheduled.
///
/// ```
/// use tacho_loadgen::ScheduleSpec;
/// use tacho_pyrand::RandomState;
///
/// let poisson = ScheduleSpec::Rate { rate: 10.0, burstiness: 1.0 };
/// let timeline = poisson.plan(100, &mut RandomState::new(0))?;
/// assert_eq!(timeline.len(), 100);
/// // As in vLLM, the last request is scheduled at exactly count / rate.
/// assert!((timeline.scheduled()[99] - 10.0).abs() < 1e-9);
/// # Ok::<(), tacho_loadgen::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub enum ScheduleSpec {
    /// At a constant mean rate; an infinite one sends everything at once.
    Rate {
        /// Requests per second.
        rate: f64,
        /// Shape of the gamma distribution of the gaps; infinite means even spacing.
        burstiness: f64,
    },
    /// At a rate that changes over the run.
    RampUp {
        /// The ramp.
        ramp: RampUp,
        /// Shape of the gamma distribution of the gaps.
        burstiness: f64,
    },
    /// At these seconds after the start, in this order.
    Replay(Vec<f64>),
    /// In stages, each with its own rate or concurrency limit.
    Stages(Stages),
    /// As several independent processes do together.
    Merged(Merged),
}

impl Default for ScheduleSpec {
    /// Everything at once.
    fn default() -> Self {
        ScheduleSpec::Rate { rate: f64::INFINITY, burstiness: 1.0 }
    }
}

impl ScheduleSpec {
    /// Computes the scheduled times of `count` requests. Draws one gamma value per request, in order, from NumPy's
    /// global state.
    pub fn plan(&self, count: usize, np: &mut RandomState) -> Result<Timeline, Error> {
        let (times, rates) = match self {
            ScheduleSpec::Rate { rate, burstiness } => {
                let rates = vec![*rate; count];
                let mut times = arrivals::cumulative(&rates, *burstiness, np)?;
                arrivals::stretch_to_rate(&mut times, *rate);
                (times, Vec::new())
            }
            ScheduleSpec::RampUp { ramp, burstiness } => {
                let rates = ramp.rates(count)?;
                (arrivals::cumulative(&rates, *burstiness, np)?, rates)
            }
            ScheduleSpec::Replay(times) => (times.clone(), Vec::new()),
            ScheduleSpec::Stages(stages) => {
                let (times, indices) = stages.plan(count, np)?;
                let timeline = Timeline::new(times, Vec::new(), self.arrivals())?;
                return Ok(timeline.in_stages(stages.shared_spans(), indices));
            }
            ScheduleSpec::Merged(merged) if merged.times.len() != count => {
                return Err(Error::StageRequests { needed: merged.times.len(), found: count });
            }
            ScheduleSpec::Merged(merged) => (merged.times.to_vec(), Vec::new()),
        };
        Timeline::new(times, rates, self.arrivals())
    }

    /// The parameters of the arrival process.
    pub fn arrivals(&self) -> ArrivalProcess {
        match *self {
            ScheduleSpec::Rate { rate, burstiness } => {
                ArrivalProcess { rate, burstiness, ..ArrivalProcess::ALL_AT_ONCE }
            }
            ScheduleSpec::RampUp { ramp, burstiness } => {
                ArrivalProcess { burstiness, ramp: Some(ramp), ..ArrivalProcess::ALL_AT_ONCE }
            }
            ScheduleSpec::Replay(_) => ArrivalProcess { replayed: true, ..ArrivalProcess::ALL_AT_ONCE },
            ScheduleSpec::Stages(ref stages) => stages.arrivals(),
            ScheduleSpec::Merged(ref merged) => merged.arrivals(),
        }
    }
}
