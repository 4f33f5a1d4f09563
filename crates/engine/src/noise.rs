//! Random step times: independent lognormal noise of mean one per step, a slowdown that lasts for seconds (interference),
//! and separate noise for scheduling, which runs on the host.

use std::time::Duration;

use tacho_core::Timestamp;
use tacho_pyrand::Generator;

use crate::flight::Takes;

/// Slowdown over time: piecewise constant, with exponentially distributed durations.
#[derive(Debug, Clone, PartialEq)]
pub struct Slowdown {
    pub factors: Vec<f64>,
    /// Mean duration of one factor, seconds.
    pub seconds: f64,
}

/// Salts that separate the random streams of scheduling noise and drift from that of compute noise.
const SCHEDULES: u64 = 0x7072_6570_6172_6573;
const DRIFTS: u64 = 0x6472_6966_7473;

#[derive(Debug)]
pub(super) struct Noise {
    compute: Lognormal,
    schedule: Lognormal,
    /// Factor on all scheduling times of this run.
    drift: f64,
    slowdown: Option<SlowdownTrace>,
}

impl Noise {
    /// Noise of these relative spreads; `schedule` is the spread per step and between runs. `None` if all are zero.
    pub(super) fn new(compute: f64, schedule: (f64, f64), slowdown: Option<&Slowdown>, seed: u64) -> Option<Self> {
        let slowdown = slowdown.map(|slowdown| SlowdownTrace::new(slowdown.clone(), seed));
        let (spread, drift) = schedule;
        let own = |salt: u64| Generator::new(seed.rotate_left(32) ^ salt);
        (compute > 0.0 || spread > 0.0 || drift > 0.0 || slowdown.is_some()).then(|| Noise {
            compute: Lognormal { spread: compute, generator: Generator::new(seed) },
            schedule: Lognormal { spread, generator: own(SCHEDULES) },
            drift: Lognormal { spread: drift, generator: own(DRIFTS) }.draw(),
            slowdown,
        })
    }

    /// Applies the noise to a step that starts now.
    pub(super) fn apply(&mut self, takes: Takes, now: Timestamp) -> Takes {
        let slowdown = self.slowdown.as_mut().map_or(1.0, |slowdown| slowdown.at(now));
        Takes {
            compute: scaled(takes.compute, self.compute.draw() * slowdown),
            // Steps without scheduling time take no draw.
            schedule: if takes.schedule.is_zero() {
                takes.schedule
            } else {
                scaled(takes.schedule, self.schedule.draw() * self.drift * slowdown)
            },
            drain: scaled(takes.drain, slowdown),
        }
    }
}

fn scaled(time: Duration, factor: f64) -> Duration {
    Duration::from_nanos((time.as_nanos() as f64 * factor).round() as u64)
}

/// Draws of a lognormal distribution of mean one.
#[derive(Debug)]
struct Lognormal {
    spread: f64,
    generator: Generator,
}

impl Lognormal {
    fn draw(&mut self) -> f64 {
        // Box-Muller; the first uniform number is never 0.
        let (one, other) = (1.0 - self.generator.random(), self.generator.random());
        let normal = (-2.0 * one.ln()).sqrt() * (std::f64::consts::TAU * other).cos();
        (self.spread * normal - self.spread * self.spread / 2.0).exp()
    }
}

/// The current slowdown factor and when it ends. It has its own random stream, so that the number of steps does not change
/// it.
#[derive(Debug)]
struct SlowdownTrace {
    slowdown: Slowdown,
    generator: Generator,
    factor: f64,
    until: Timestamp,
}

impl SlowdownTrace {
    fn new(slowdown: Slowdown, seed: u64) -> Self {
        let mut trace =
            SlowdownTrace { slowdown, generator: Generator::new(!seed), factor: 1.0, until: Timestamp::ZERO };
        trace.next();
        trace
    }

    fn at(&mut self, now: Timestamp) -> f64 {
        while self.until <= now {
            self.next();
        }
        self.factor
    }

    fn next(&mut self) {
        let drawn = (self.generator.random() * self.slowdown.factors.len() as f64) as usize;
        self.factor = self.slowdown.factors.get(drawn).copied().unwrap_or(1.0);
        let long = -self.slowdown.seconds * (1.0 - self.generator.random()).ln();
        // Bounded, so that the time always advances.
        self.until = self.until + Duration::from_secs_f64(long.clamp(1e-3, 1e6));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slowdown_lasts_for_seconds_and_keeps_its_mean() {
        let slowdown = Slowdown { factors: vec![1.0, 1.0, 1.0, 2.0], seconds: 2.0 };
        let mut noise = Noise::new(0.0, (0.0, 0.0), Some(&slowdown), 7).unwrap();
        let step = Takes { compute: Duration::from_millis(10), ..Takes::default() };
        let took: Vec<u64> = (0..400_000_u64)
            .map(|at| noise.apply(step, Timestamp(at * 10_000_000)).compute.as_millis() as u64)
            .collect();
        let mean = took.iter().sum::<u64>() as f64 / took.len() as f64;
        assert!((mean / 12.5 - 1.0).abs() < 0.1, "{mean}");
        let changes = took.windows(2).filter(|pair| pair[0] != pair[1]).count() as f64;
        // Factors of 2 s in 4,000 s; three of eight changes are to another factor.
        assert!((changes / (2_000.0 * 0.375) - 1.0).abs() < 0.15, "{changes}");
        assert!(Noise::new(0.0, (0.0, 0.0), None, 1).is_none());
    }

    #[test]
    fn scheduling_noise_is_independent_and_keeps_its_mean() {
        let step =
            Takes { compute: Duration::from_millis(10), schedule: Duration::from_millis(30), ..Takes::default() };
        let draw = |compute: f64, schedule: f64| -> Vec<(f64, f64)> {
            let mut noise = Noise::new(compute, (schedule, 0.0), None, 3).unwrap();
            let mut took = || noise.apply(step, Timestamp::ZERO);
            (0..20_000).map(|_| took()).map(|took| (took.compute.as_secs_f64(), took.schedule.as_secs_f64())).collect()
        };
        let both = draw(0.1, 0.3);
        let mean = both.iter().map(|took| took.1).sum::<f64>() / both.len() as f64;
        assert!((mean / 0.03 - 1.0).abs() < 0.01, "{mean}");
        let covariance = both.iter().map(|took| (took.0 / 0.01 - 1.0) * (took.1 / 0.03 - 1.0)).sum::<f64>();
        // The correlation of 20,000 independent pairs.
        assert!((covariance / both.len() as f64 / (0.1 * 0.3)).abs() < 0.05, "{covariance}");
        let alone: Vec<f64> = draw(0.1, 0.0).into_iter().map(|took| took.0).collect();
        assert!(both.iter().map(|took| took.0).eq(alone), "the random streams are separate");
    }
}
