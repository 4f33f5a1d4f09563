//! A request rate that changes from one value to another over the run.

use crate::Error;

tacho_core::named! {
    /// The curve of a ramp, by the values of `--ramp-up-strategy`.
    pub enum RampUpStrategy {
        /// In equal steps.
        Linear = "linear",
        /// By equal factors.
        Exponential = "exponential",
    }
}

/// A ramp of the request rate.
///
/// ```
/// use tacho_loadgen::{RampUp, RampUpStrategy};
///
/// let ramp = RampUp { strategy: RampUpStrategy::Linear, start_rps: 1, end_rps: 3 };
/// assert_eq!(ramp.rates(5)?, [1.0, 1.5, 2.0, 2.5, 3.0]);
/// # Ok::<(), tacho_loadgen::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RampUp {
    /// The curve.
    pub strategy: RampUpStrategy,
    /// Requests per second at the first request.
    pub start_rps: u32,
    /// Requests per second at the last request.
    pub end_rps: u32,
}

/// The request at which the integer part of the rate first reached a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RpsChange {
    /// Requests per second.
    pub rps: i64,
    /// The request that reached it; `None` for the start of the run.
    pub index: Option<usize>,
}

impl RampUp {
    /// The rate at each of `count` requests.
    pub fn rates(&self, count: usize) -> Result<Vec<f64>, Error> {
        if self.start_rps == 0 && count > 0 {
            return Err(Error::RampFromZero);
        }
        Ok((0..count).map(|index| self.rate_at(index as f64 / count.saturating_sub(1).max(1) as f64)).collect())
    }

    fn rate_at(&self, progress: f64) -> f64 {
        let (start, end) = (f64::from(self.start_rps), f64::from(self.end_rps));
        match self.strategy {
            RampUpStrategy::Linear => start + (end - start) * progress,
            RampUpStrategy::Exponential => start * (end / start).powf(progress),
        }
    }

    /// vLLM's change events: one per integer step of the rate, with the request that reached it.
    pub fn changes(&self, rates: &[f64]) -> Vec<RpsChange> {
        let mut last = i64::from(self.start_rps);
        let mut changes = vec![RpsChange { rps: last, index: None }];
        for (index, &rate) in rates.iter().enumerate() {
            for rps in last + 1..=rate as i64 {
                changes.push(RpsChange { rps, index: Some(index) });
                last = rps;
            }
        }
        changes
    }
}
