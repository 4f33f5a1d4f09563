//! Steps that take longer or shorter than they should, with the right mean.

use std::time::Duration;

use tacho_pyrand::Generator;

/// Draws of a lognormal distribution of mean one.
#[derive(Debug)]
pub(super) struct Noise {
    spread: f64,
    generator: Generator,
}

impl Noise {
    /// Noise of this relative spread; none where there is none.
    pub(super) fn new(spread: f64, seed: u64) -> Option<Self> {
        (spread > 0.0).then(|| Noise { spread, generator: Generator::new(seed) })
    }

    /// A time with its noise.
    pub(super) fn disturb(&mut self, time: Duration) -> Duration {
        // The polar form of a normal draw; the first number is never 0.
        let (one, other) = (1.0 - self.generator.random(), self.generator.random());
        let normal = (-2.0 * one.ln()).sqrt() * (std::f64::consts::TAU * other).cos();
        let factor = (self.spread * normal - self.spread * self.spread / 2.0).exp();
        Duration::from_nanos((time.as_nanos() as f64 * factor).round() as u64)
    }
}
