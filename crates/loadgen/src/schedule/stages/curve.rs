//! Request rates over the time of a stage, with their integral and its inverse.

use std::f64::consts::TAU;

/// Bisection steps: more than a double has bits of precision.
const STEPS: usize = 64;
/// Most steps of a stage; more are a ramp.
const MAX_STEPS: u32 = 10_000;

/// A request rate over the time of a stage, in requests per second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Curve {
    /// From one rate to another on a straight line; equal ones are a constant rate.
    Linear {
        /// At the start.
        from: f64,
        /// At the end.
        to: f64,
    },
    /// From one rate to another in steps of equal length and height.
    Steps {
        /// Of the first step.
        from: f64,
        /// Of the last step.
        to: f64,
        /// Number of steps, at least 2.
        count: u32,
    },
    /// `mean + amplitude * sin(2 pi t / period)`.
    Sine {
        /// The mean over a period.
        mean: f64,
        /// The largest deviation from the mean, at most the mean.
        amplitude: f64,
        /// Seconds.
        period: f64,
    },
}

impl std::fmt::Display for Curve {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            Curve::Linear { from, to } if from == to => write!(f, "{from} req/s"),
            Curve::Linear { from, to } => write!(f, "{from} to {to} req/s"),
            Curve::Steps { from, to, count } => write!(f, "{from} to {to} req/s in {count} steps"),
            Curve::Sine { mean, amplitude, period } => write!(f, "{mean} ± {amplitude} req/s, period {period} s"),
        }
    }
}

impl Curve {
    /// Why the curve is not a rate.
    pub(super) fn problem(&self) -> Option<&'static str> {
        let rate = |rate: f64| rate >= 0.0 && rate.is_finite();
        match *self {
            Curve::Linear { from, to } | Curve::Steps { from, to, .. } if !(rate(from) && rate(to)) => {
                Some("its rate is not a number of requests/s from 0 on")
            }
            Curve::Steps { count, .. } if !(2..=MAX_STEPS).contains(&count) => Some("it needs 2 to 10,000 steps"),
            Curve::Sine { mean, amplitude, .. } if !(rate(mean) && (0.0..=mean).contains(&amplitude)) => {
                Some("the amplitude of its sine is above its mean: the rate would be negative")
            }
            Curve::Sine { period, .. } if !(period > 0.0 && period.is_finite()) => {
                Some("the period of its sine is not above 0 s")
            }
            _ => None,
        }
    }

    /// Expected requests in the first `time` of a stage of `seconds`.
    pub(super) fn integral(&self, time: f64, seconds: f64) -> f64 {
        match *self {
            Curve::Linear { from, to } => time * (from + (to - from) * time / seconds / 2.0),
            Curve::Steps { from, to, count } => {
                let (step, level) = (seconds / f64::from(count), |at: u32| level(from, to, count, at));
                let whole = ((time / step) as u32).min(count - 1);
                // The levels before this one are an arithmetic series.
                let before = f64::from(whole) * (from + level(whole.saturating_sub(1))) / 2.0 * step;
                before + level(whole) * (time - f64::from(whole) * step)
            }
            Curve::Sine { mean, amplitude, period } => {
                mean * time + amplitude * period / TAU * (1.0 - (TAU * time / period).cos())
            }
        }
    }

    /// The time at which the integral reaches `sum`, which is below that of the whole stage.
    pub(super) fn inverse(&self, sum: f64, seconds: f64) -> f64 {
        match *self {
            Curve::Linear { from, to } => {
                let root = (from * from + 2.0 * (to - from) / seconds * sum).max(0.0).sqrt();
                if sum > 0.0 { (2.0 * sum / (from + root)).min(seconds) } else { 0.0 }
            }
            _ => bisect(0.0, seconds, |time| self.integral(time, seconds) < sum),
        }
    }

    /// The duration in which `count` requests are expected; infinite at rate 0.
    pub(super) fn seconds_of(&self, count: f64) -> f64 {
        match *self {
            Curve::Linear { from, to } | Curve::Steps { from, to, .. } => count / ((from + to) / 2.0),
            Curve::Sine { mean, amplitude, period } => {
                let latest = (count + amplitude * period) / mean;
                if latest.is_finite() {
                    bisect(0.0, latest, |time| self.integral(time, latest) < count)
                } else {
                    latest
                }
            }
        }
    }
}

/// The rate of a step.
fn level(from: f64, to: f64, count: u32, at: u32) -> f64 {
    from + (to - from) * f64::from(at) / f64::from(count - 1)
}

/// The time between `low` and `high` at which `before` becomes false.
fn bisect(mut low: f64, mut high: f64, before: impl Fn(f64) -> bool) -> f64 {
    for _ in 0..STEPS {
        let middle = low + (high - low) / 2.0;
        if before(middle) { low = middle } else { high = middle }
    }
    high
}
