//! Where the true value of a number lies, from one run alone. The bounds hold for what varies within a run; what differs
//! from run to run (placement, other load on the machine) shows only in repeated runs.

mod distribution;
mod memory;
mod rows;
mod spread;

pub use self::distribution::{at_least, student};
pub use self::rows::{Recorded, Row, Rows, rate, values};
pub use self::spread::{Spread, Values};

/// How sure the intervals of reports are.
pub const CONFIDENCE: f64 = 0.95;

/// The bounds of a number; the upper one is infinite where the run is too short to tell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// The lower bound.
    pub low: f64,
    /// The upper bound.
    pub high: f64,
}

/// How far the mean of some repeats may lie from the true one, either way; nothing of fewer than two.
pub fn half_width(repeats: &[f64]) -> Option<f64> {
    let count = repeats.len() as f64;
    let mean = repeats.iter().sum::<f64>() / count;
    let variance = repeats.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
    (repeats.len() > 1).then(|| student(CONFIDENCE, count - 1.0) * (variance / count).sqrt())
}

#[cfg(test)]
mod coverage;
