//! Due times, all computed before the first request leaves, with the draws `vllm bench` makes.

mod arrivals;
mod ramp;
mod timeline;

pub use ramp::{RampUp, RampUpStrategy, RpsChange};
pub use timeline::{Pace, Timeline};

use tacho_pyrand::randomstate::RandomState;

use crate::Error;

/// When requests are due.
#[derive(Debug, Clone, PartialEq)]
pub enum ScheduleSpec {
    /// At a steady mean rate; an infinite one sends everything at once.
    Rate {
        /// Requests per second.
        rate: f64,
        /// Shape of the gamma distribution of the gaps; infinite means even spacing.
        burstiness: f64,
    },
    /// At a rate that grows over the run.
    RampUp {
        /// From where to where, and along which curve.
        ramp: RampUp,
        /// As above.
        burstiness: f64,
    },
    /// At given seconds after the start, in the given order.
    Replay(Vec<f64>),
}

impl ScheduleSpec {
    /// The due times of `count` requests. Draws one gamma value per request, in order, from NumPy's global state.
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
        };
        Timeline::new(times, rates, self.pace())
    }

    /// What announcements, results and verdicts say of it.
    pub fn pace(&self) -> Pace {
        match *self {
            ScheduleSpec::Rate { rate, burstiness } => Pace { rate, burstiness, ..Pace::AT_ONCE },
            ScheduleSpec::RampUp { ramp, burstiness } => Pace { burstiness, ramp: Some(ramp), ..Pace::AT_ONCE },
            ScheduleSpec::Replay(_) => Pace { given: true, ..Pace::AT_ONCE },
        }
    }
}
