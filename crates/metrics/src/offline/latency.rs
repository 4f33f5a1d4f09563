//! One batch, repeated.

use super::{Drift, percentiles};
use crate::Interval;
use crate::statistics::mean;

/// The iterations of one batch.
#[derive(Debug, Clone, PartialEq)]
pub struct Latency {
    /// Seconds of each iteration.
    pub latencies: Vec<f64>,
    /// Iterations that were to be measured.
    pub planned: u64,
}

impl Latency {
    /// The mean, seconds.
    pub fn average(&self) -> f64 {
        mean(&self.latencies)
    }

    /// Percent and seconds.
    pub fn percentiles(&self) -> Vec<(u32, f64)> {
        percentiles(&self.latencies)
    }

    /// Confidence interval of the mean.
    pub fn interval(&self) -> Option<Interval> {
        Interval::of_mean(&self.latencies)
    }

    /// Drift over the iterations.
    pub fn drift(&self) -> Option<Drift> {
        Drift::of(&self.latencies)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_numpys_to_the_last_bit() {
        let latencies = vec![0.06409892599981504, 0.08316190700020343, 0.06329391300005227, 0.0321315119999781];
        let record = Latency { latencies, planned: 4 };
        assert_eq!(record.average(), 0.06067156450001221);
        let values: Vec<f64> = record.percentiles().into_iter().map(|(_, value)| value).collect();
        let expected = [
            0.04148023230000035,
            0.05550331275003373,
            0.06369641949993365,
            0.06886467124991213,
            0.07744301270008691,
            0.08259001757019177,
        ];
        assert_eq!(values, expected);
    }
}
