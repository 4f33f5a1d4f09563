//! Think times: pauses between turns that are drawn rather than read.

use tacho_core::bounded::Pause;
use tacho_pyrand::RandomState;

use super::{error::TraceError, model::Trace};

/// The distribution of think times, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ThinkTime {
    Constant(f64),
    Uniform(f64, f64),
    Exponential(f64),
    /// Log-normal with this median and the standard deviation of the logarithm.
    Lognormal(f64, f64),
    /// Normal with this mean and standard deviation; negative values become 0.
    Normal(f64, f64),
}

impl ThinkTime {
    /// The accepted forms, for messages.
    pub const FORMS: &'static str =
        "SECONDS, uniform:LOW:HIGH, exponential:MEAN, lognormal:MEDIAN:SIGMA or normal:MEAN:DEVIATION";

    /// Parses such a text; `None` if it has none of the forms, or invalid numbers.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(':').map(str::trim);
        let (name, rest) = (parts.next()?, parts.map(|part| part.parse::<f64>().ok()).collect::<Option<Vec<f64>>>()?);
        let good = rest.iter().all(|number| Pause::holds(*number));
        let found = match (name, &rest[..]) {
            ("constant", [seconds]) => ThinkTime::Constant(*seconds),
            ("uniform", [low, high]) if low <= high => ThinkTime::Uniform(*low, *high),
            ("exponential", [mean]) => ThinkTime::Exponential(*mean),
            ("lognormal", [median, sigma]) if *median > 0.0 && *sigma <= 10.0 => ThinkTime::Lognormal(*median, *sigma),
            ("normal", [mean, deviation]) => ThinkTime::Normal(*mean, *deviation),
            (seconds, []) => {
                let seconds = seconds.parse::<f64>().ok().filter(|seconds| Pause::holds(*seconds))?;
                ThinkTime::Constant(seconds)
            }
            _ => return None,
        };
        good.then_some(found)
    }

    pub fn draw(&self, random: &mut RandomState) -> f64 {
        match *self {
            ThinkTime::Constant(seconds) => seconds,
            ThinkTime::Uniform(low, high) => random.uniform(low, high),
            ThinkTime::Exponential(mean) => random.gamma(1.0, mean),
            ThinkTime::Lognormal(median, sigma) => random.lognormal(median.ln(), sigma),
            ThinkTime::Normal(mean, deviation) => (mean + deviation * random.standard_normal()).max(0.0),
        }
    }
}

impl Trace {
    /// Draws a think time before each turn that follows another of its session; other pauses, such as those before a
    /// join, stay. Recorded times of later turns are dropped.
    pub fn think(&mut self, time: &ThinkTime, seed: u32) -> Result<(), TraceError> {
        let mut random = RandomState::new(seed);
        let mut drawn = 0;
        for index in 0..self.steps.len() {
            let session = self.steps[index].session.clone();
            let own = self.steps[index].parents.iter().position(|edge| self.steps[edge.parent].session == session);
            let Some(own) = own.filter(|_| self.steps[index].sends()) else { continue };
            let step = &mut self.steps[index];
            step.parents[own].after_ms = time.draw(&mut random) * 1000.0;
            step.at_ms = None;
            drawn += 1;
        }
        if drawn == 0 {
            let problem = format!("no turn of {} follows another", self.file);
            return Err(TraceError::Setting { flag: "--think-time", problem });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_read_and_others_refused() {
        assert_eq!(ThinkTime::parse("2.5"), Some(ThinkTime::Constant(2.5)));
        assert_eq!(ThinkTime::parse("uniform:1:5"), Some(ThinkTime::Uniform(1.0, 5.0)));
        assert_eq!(ThinkTime::parse("exponential: 2"), Some(ThinkTime::Exponential(2.0)));
        assert_eq!(ThinkTime::parse("lognormal:4:0.5"), Some(ThinkTime::Lognormal(4.0, 0.5)));
        for bad in ["", "-1", "nan", "inf", "uniform:5:1", "uniform:1", "lognormal:0:1", "gauss:1:2", "exponential:-1"]
        {
            assert_eq!(ThinkTime::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn draws_have_the_mean_that_was_asked_for() {
        let mut random = RandomState::new(1);
        for (time, expected) in [
            (ThinkTime::Uniform(1.0, 3.0), 2.0),
            (ThinkTime::Exponential(2.0), 2.0),
            (ThinkTime::Lognormal(2.0, 0.5), 2.0 * 0.125_f64.exp()),
            (ThinkTime::Normal(2.0, 0.1), 2.0),
        ] {
            let mean = (0..20_000).map(|_| time.draw(&mut random)).sum::<f64>() / 20_000.0;
            assert!((mean / expected - 1.0).abs() < 0.03, "{time:?}: {mean}");
        }
    }
}
