//! Steps that take longer or shorter than they should: each by itself, with the right mean, and all of a moment together
//! where the machine is slower then. What prepares them is another processor, with chances of its own.

use std::time::Duration;

use tacho_core::Stamp;
use tacho_pyrand::Generator;

use super::flight::Takes;

/// How many times as slow a machine is from one moment to the next.
#[derive(Debug, Clone, PartialEq)]
pub struct Pace {
    /// What it may be, each as likely.
    pub times: Vec<f64>,
    /// Seconds after which it is another, in the mean.
    pub seconds: f64,
}

/// Sets the draws of preparing apart from those of computing.
const PREPARES: u64 = 0x7072_6570_6172_6573;
const DRIFTS: u64 = 0x6472_6966_7473;

/// What disturbs steps.
#[derive(Debug)]
pub(super) struct Noise {
    compute: Chance,
    prepare: Chance,
    /// How many times as long as in other runs it takes to prepare.
    drifted: f64,
    moment: Option<Moment>,
}

impl Noise {
    /// Noise of these relative spreads on a machine of that pace; none where there is neither.
    pub(super) fn new(compute: f64, prepare: (f64, f64), pace: Option<&Pace>, seed: u64) -> Option<Self> {
        let moment = pace.map(|pace| Moment::new(pace.clone(), seed));
        let (spread, drift) = prepare;
        let own = |salt: u64| Generator::new(seed.rotate_left(32) ^ salt);
        (compute > 0.0 || spread > 0.0 || drift > 0.0 || moment.is_some()).then(|| Noise {
            compute: Chance { spread: compute, generator: Generator::new(seed) },
            prepare: Chance { spread, generator: own(PREPARES) },
            drifted: Chance { spread: drift, generator: own(DRIFTS) }.draw(),
            moment,
        })
    }

    /// The times with their noise of a step that begins now.
    pub(super) fn disturb(&mut self, takes: Takes, now: Stamp) -> Takes {
        let pace = self.moment.as_mut().map_or(1.0, |moment| moment.at(now));
        Takes {
            compute: times(takes.compute, self.compute.draw(), pace),
            // Most steps are prepared in no time, and need no draw.
            prepare: if takes.prepare.is_zero() {
                takes.prepare
            } else {
                times(takes.prepare, self.prepare.draw() * self.drifted, pace)
            },
            drain: times(takes.drain, 1.0, pace),
        }
    }
}

fn times(time: Duration, factor: f64, pace: f64) -> Duration {
    Duration::from_nanos((time.as_nanos() as f64 * factor * pace).round() as u64)
}

/// Draws of a lognormal distribution of mean one.
#[derive(Debug)]
struct Chance {
    spread: f64,
    generator: Generator,
}

impl Chance {
    fn draw(&mut self) -> f64 {
        // The polar form of a normal draw; the first number is never 0.
        let (one, other) = (1.0 - self.generator.random(), self.generator.random());
        let normal = (-2.0 * one.ln()).sqrt() * (std::f64::consts::TAU * other).cos();
        (self.spread * normal - self.spread * self.spread / 2.0).exp()
    }
}

/// The pace of a moment, and when it ends. Its draws are its own: a step more or less does not change what is to come.
#[derive(Debug)]
struct Moment {
    pace: Pace,
    generator: Generator,
    times: f64,
    until: Stamp,
}

impl Moment {
    fn new(pace: Pace, seed: u64) -> Self {
        let mut moment = Moment { pace, generator: Generator::new(!seed), times: 1.0, until: Stamp::ZERO };
        moment.next();
        moment
    }

    fn at(&mut self, now: Stamp) -> f64 {
        while self.until <= now {
            self.next();
        }
        self.times
    }

    fn next(&mut self) {
        let drawn = (self.generator.random() * self.pace.times.len() as f64) as usize;
        self.times = self.pace.times.get(drawn).copied().unwrap_or(1.0);
        let long = -self.pace.seconds * (1.0 - self.generator.random()).ln();
        // However short a moment is, it is over some time.
        self.until = self.until + Duration::from_secs_f64(long.clamp(1e-3, 1e6));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pace_lasts_for_moments_and_has_its_mean() {
        let pace = Pace { times: vec![1.0, 1.0, 1.0, 2.0], seconds: 2.0 };
        let mut noise = Noise::new(0.0, (0.0, 0.0), Some(&pace), 7).unwrap();
        let step = Takes { compute: Duration::from_millis(10), ..Takes::default() };
        let took: Vec<u64> =
            (0..400_000_u64).map(|at| noise.disturb(step, Stamp(at * 10_000_000)).compute.as_millis() as u64).collect();
        let mean = took.iter().sum::<u64>() as f64 / took.len() as f64;
        assert!((mean / 12.5 - 1.0).abs() < 0.1, "{mean}");
        let changes = took.windows(2).filter(|pair| pair[0] != pair[1]).count() as f64;
        // A moment of 2 s, in 4,000 s; three of eight changes are to another pace.
        assert!((changes / (2_000.0 * 0.375) - 1.0).abs() < 0.15, "{changes}");
        assert!(Noise::new(0.0, (0.0, 0.0), None, 1).is_none());
    }

    #[test]
    fn preparing_has_a_noise_of_its_own_and_its_mean() {
        let step = Takes { compute: Duration::from_millis(10), prepare: Duration::from_millis(30), ..Takes::default() };
        let draw = |compute: f64, prepare: f64| -> Vec<(f64, f64)> {
            let mut noise = Noise::new(compute, (prepare, 0.0), None, 3).unwrap();
            let mut took = || noise.disturb(step, Stamp::ZERO);
            (0..20_000).map(|_| took()).map(|took| (took.compute.as_secs_f64(), took.prepare.as_secs_f64())).collect()
        };
        let both = draw(0.1, 0.3);
        let mean = both.iter().map(|took| took.1).sum::<f64>() / both.len() as f64;
        assert!((mean / 0.03 - 1.0).abs() < 0.01, "{mean}");
        let together = both.iter().map(|took| (took.0 / 0.01 - 1.0) * (took.1 / 0.03 - 1.0)).sum::<f64>();
        // The correlation of 20,000 pairs that have nothing to do with each other.
        assert!((together / both.len() as f64 / (0.1 * 0.3)).abs() < 0.05, "{together}");
        let alone: Vec<f64> = draw(0.1, 0.0).into_iter().map(|took| took.0).collect();
        assert!(both.iter().map(|took| took.0).eq(alone), "what prepares takes no draw of what computes");
    }
}
