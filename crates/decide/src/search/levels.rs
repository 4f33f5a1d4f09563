//! The candidate loads of a search.

/// The candidate loads, and how the load grows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Levels {
    /// The first load.
    pub first: f64,
    /// The smallest load.
    pub min: f64,
    /// The largest load.
    pub max: f64,
    /// The loads between two others.
    pub spacing: Spacing,
    /// How the load grows while it passes.
    pub growth: Growth,
}

/// The loads between two others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spacing {
    /// Integers.
    Whole,
    /// Request rates: integers from 100 on, tenths from 10 on, two significant digits below.
    Rates,
    /// All numbers; bisected at the geometric mean.
    Geometric,
}

/// How the load grows while it passes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Growth {
    /// By this factor.
    Factor(f64),
    /// From a load, by a step that doubles each time.
    Steps {
        /// The load.
        from: f64,
        /// The first step.
        step: f64,
    },
}

/// A server with a lower throughput in requests per second is searched in fractions of one.
const SLOW: f64 = 10.0;
/// The fraction of the capacity at which there is no queue.
const ZERO_LOAD: f64 = 0.02;

/// Rounds a rate to two significant digits below 10 requests per second, to tenths below 100, to an integer above.
pub fn rate_step(rate: f64) -> f64 {
    let digits = rate_digits(rate);
    (rate * digits).round() / digits
}

fn rate_digits(rate: f64) -> f64 {
    match rate {
        ..SLOW => 10_f64.powf((1.0 - rate.log10().floor()).clamp(0.0, 6.0)),
        ..100.0 => 10.0,
        _ => 1.0,
    }
}

impl Levels {
    /// Request rates of a server that completes `first` requests per second under unlimited load.
    pub fn rates(first: f64, max: f64) -> Self {
        let min = rate_step(ZERO_LOAD * first).min(1.0);
        Levels { first, min, max, spacing: Spacing::Rates, growth: Growth::Factor(2.0) }
    }

    /// Like [`Levels::rates`] in integers, as in vLLM, unless the server is slow.
    pub fn whole_rates(first: f64, max: f64) -> Self {
        if first < SLOW { Self::rates(first, max) } else { Self::users(first, max) }
    }

    /// Numbers of users.
    pub fn users(first: f64, max: f64) -> Self {
        Levels { first, min: 1.0, max, spacing: Spacing::Whole, growth: Growth::Factor(2.0) }
    }

    pub(super) fn nearest(&self, load: f64) -> f64 {
        let load = match self.spacing {
            Spacing::Whole => load.round(),
            Spacing::Rates => rate_step(load),
            Spacing::Geometric => load,
        };
        load.clamp(self.min, self.max.max(self.min))
    }

    /// The next larger load while all pass; `None` beyond the largest.
    pub(super) fn above(&self, largest: f64) -> Option<f64> {
        if largest >= self.max {
            return None;
        }
        let grown = match self.growth {
            Growth::Factor(factor) => largest * factor,
            Growth::Steps { from, step } => {
                let doublings = ((largest - from).max(0.0) / step + 1.0).log2().floor() + 1.0;
                from + step * (doublings.exp2() - 1.0)
            }
        };
        let grown = if self.spacing == Spacing::Whole { grown.max(largest + 1.0) } else { grown };
        Some(self.nearest(grown))
    }

    /// A load that halves the range between a passing and a failing one; `None` if there is none between.
    pub(super) fn between(&self, passing: f64, failing: f64) -> Option<f64> {
        let middle = f64::midpoint(passing, failing);
        let middle = match self.spacing {
            Spacing::Whole => middle.floor(),
            Spacing::Rates => (middle * rate_digits(middle)).floor() / rate_digits(middle),
            Spacing::Geometric => (passing * failing).sqrt(),
        };
        Some(middle.max(self.min)).filter(|middle| *middle > passing && *middle < failing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_two_or_three_digits() {
        assert_eq!([0.0123, 0.7049, 7.34, 9.99, 10.44, 104.6].map(rate_step), [0.012, 0.7, 7.3, 10.0, 10.4, 105.0]);
    }

    #[test]
    fn only_slow_servers_are_searched_in_fractions() {
        let min = |first: f64| Levels::whole_rates(first, 100.0).min;
        assert_eq!([min(21.0), min(0.7)], [1.0, 0.014]);
    }

    #[test]
    fn no_load_is_above_the_largest() {
        let levels = Levels::users(7.0, 20.0);
        assert_eq!([14.0, 19.0, 20.0].map(|load| levels.above(load)), [Some(20.0), Some(20.0), None]);
        assert_eq!([levels.between(3.0, 4.0), levels.between(3.0, 6.0)], [None, Some(4.0)]);
    }
}
