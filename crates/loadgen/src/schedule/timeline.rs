//! The plan of a run: when each request is due, as seconds after the start.

use crate::Error;

/// Due times of all requests, in request order.
#[derive(Debug, Clone, PartialEq)]
pub struct Timeline {
    due: Vec<f64>,
    rates: Vec<f64>,
}

impl Timeline {
    pub(super) fn new(due: Vec<f64>, rates: Vec<f64>) -> Result<Self, Error> {
        if let Some(index) = due.iter().position(|seconds| !seconds.is_finite()) {
            return Err(Error::BadTime { index, seconds: due[index] });
        }
        Ok(Timeline { due, rates })
    }

    /// When each request is due, in seconds after the start; not necessarily ascending.
    pub fn due(&self) -> &[f64] {
        &self.due
    }

    /// The rate in force for each request; empty when times were given rather than drawn.
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

    /// When each request is let go: in order, so never before the ones in front of it.
    pub fn releases(&self) -> Vec<f64> {
        let mut latest = 0.0_f64;
        self.due
            .iter()
            .map(|&due| {
                latest = latest.max(due);
                latest
            })
            .collect()
    }
}
