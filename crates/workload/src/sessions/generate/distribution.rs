//! The distributions of a generator's configuration, drawn with NumPy's legacy generator.

use std::fmt;

use tacho_core::json::{Value, dumps};
use tacho_pyrand::RandomState;

use crate::{sessions::error::TraceError, sessions::row::Row};

#[derive(Debug, Clone, PartialEq)]
pub enum Distribution {
    Constant(Number),
    /// Uniform between two bounds, both inclusive if they are integers.
    Uniform(Number, Number),
    /// Zipf, with an optional maximum.
    Zipf(f64, Value, Option<f64>),
    /// Poisson, with an optional maximum.
    Poisson(f64, Value, Option<f64>),
    /// Log-normal with a given average, which each sample matches exactly, and the ratio of the median to it.
    Average(f64, f64, Option<f64>, [Value; 3]),
    /// Log-normal with the mean and sigma of the logarithm.
    Lognormal(f64, f64, Option<f64>, [Value; 3]),
}

/// A number that remembers whether it was written as an integer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    /// Without a fraction.
    Whole(i64),
    /// With one, even if it is zero.
    Real(f64),
}

#[derive(Debug, Clone, PartialEq)]
pub enum Drawn {
    Whole(Vec<i64>),
    Real(Vec<f64>),
}

impl Drawn {
    pub fn values(self) -> Vec<f64> {
        match self {
            Drawn::Whole(values) => values.into_iter().map(|value| value as f64).collect(),
            Drawn::Real(values) => values,
        }
    }
}

impl Distribution {
    pub fn sample(&self, random: &mut RandomState, count: usize) -> Drawn {
        match self {
            Distribution::Constant(Number::Whole(value)) => Drawn::Whole(vec![*value; count]),
            Distribution::Constant(Number::Real(value)) => Drawn::Real(vec![*value; count]),
            Distribution::Uniform(Number::Whole(low), Number::Whole(high)) => {
                Drawn::Whole(random.randint_vec(*low, high + 1, count))
            }
            Distribution::Uniform(low, high) => {
                Drawn::Real((0..count).map(|_| random.uniform(low.real(), high.real())).collect())
            }
            Distribution::Zipf(alpha, _, cap) => {
                Drawn::Whole((0..count).map(|_| capped(random.zipf(*alpha), *cap)).collect())
            }
            Distribution::Poisson(alpha, _, cap) => {
                Drawn::Whole((0..count).map(|_| capped(random.poisson(*alpha), *cap)).collect())
            }
            Distribution::Average(average, ratio, cap, _) => {
                let (mean, sigma) = ((average * ratio).ln(), (2.0 * (1.0 / ratio).ln()).sqrt());
                let values: Vec<f64> = (0..count).map(|_| random.lognormal(mean, sigma)).collect();
                let factor = average / (pairwise_sum(&values) / count as f64);
                Drawn::Whole(values.into_iter().map(|value| rounded(value * factor, *cap)).collect())
            }
            Distribution::Lognormal(mean, sigma, cap, _) => {
                Drawn::Whole((0..count).map(|_| rounded(random.lognormal(*mean, *sigma), *cap)).collect())
            }
        }
    }

    /// Parses the object of a configuration.
    pub(crate) fn read(row: &Row<'_>) -> Result<Self, TraceError> {
        let real = |name: &str| row.need(name, Row::number);
        let cap = || Ok::<_, TraceError>(row.number("max")?.filter(|cap| *cap != 0.0));
        let shown = |name: &str| row.get(name).cloned().unwrap_or(Value::Null);
        match row.need("distribution", Row::text)? {
            "constant" => Ok(Distribution::Constant(number(row, "value")?)),
            "uniform" => {
                let (low, high) = (number(row, "min")?, number(row, "max")?);
                if low.real() <= 0.0 || low.real() > high.real() {
                    return Err(row.wrong("min", "must be above 0 and at most max"));
                }
                Ok(Distribution::Uniform(low, high))
            }
            "zipf" => match real("alpha")? {
                alpha if alpha > 1.0 => Ok(Distribution::Zipf(alpha, shown("alpha"), cap()?)),
                _ => Err(row.wrong("alpha", "must be above 1")),
            },
            "poisson" => match real("alpha")? {
                alpha if alpha >= 0.0 => Ok(Distribution::Poisson(alpha, shown("alpha"), cap()?)),
                _ => Err(row.wrong("alpha", "must not be negative")),
            },
            "lognormal" if row.has("average") => {
                let (average, ratio) = (real("average")?, row.number("median_ratio")?.unwrap_or(0.85));
                if average < 1.0 {
                    return Err(row.wrong("average", "must be at least 1"));
                }
                if ratio <= 0.0 || ratio >= 1.0 {
                    return Err(row.wrong("median_ratio", "must be between 0 and 1, both excluded"));
                }
                let ratio_shown = row.get("median_ratio").cloned().unwrap_or(Value::Float(0.85));
                Ok(Distribution::Average(average, ratio, cap()?, [shown("average"), ratio_shown, shown("max")]))
            }
            "lognormal" => {
                let (mean, sigma) = (real("mean")?, real("sigma")?);
                if mean <= 0.0 || sigma < 0.0 {
                    return Err(row.wrong("mean", "must be above 0, and sigma not negative"));
                }
                Ok(Distribution::Lognormal(mean, sigma, cap()?, [shown("mean"), shown("sigma"), shown("max")]))
            }
            other => Err(row.wrong("distribution", format!("{other:?} is not known"))),
        }
    }
}

/// The format of vLLM's script.
impl fmt::Display for Distribution {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let python = |value: &Value| if *value == Value::Null { "None".to_owned() } else { dumps(value) };
        match self {
            Distribution::Constant(value) => write!(out, "Constant[{value}]"),
            Distribution::Uniform(low, high) => write!(out, "UniformDistribution[{low}, {high}]"),
            Distribution::Zipf(_, alpha, _) => write!(out, "ZipfDistribution[{}]", dumps(alpha)),
            Distribution::Poisson(_, alpha, _) => write!(out, "PoissonDistribution[{}]", dumps(alpha)),
            Distribution::Average(.., [first, second, max]) | Distribution::Lognormal(.., [first, second, max]) => {
                write!(out, "LognormalDistribution[{}, {}, {}]", python(first), python(second), python(max))
            }
        }
    }
}

impl Number {
    fn real(self) -> f64 {
        match self {
            Number::Whole(value) => value as f64,
            Number::Real(value) => value,
        }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Number::Whole(value) => write!(out, "{value}"),
            Number::Real(value) => write!(out, "{}", dumps(&Value::Float(*value))),
        }
    }
}

/// A number in the file; a string of digits counts too, as in upstream.
fn number(row: &Row<'_>, name: &str) -> Result<Number, TraceError> {
    match row.get(name).ok_or_else(|| row.missing(name))? {
        Value::Int(value) => Ok(Number::Whole(*value)),
        Value::Float(value) if value.is_finite() => Ok(Number::Real(*value)),
        Value::Str(text) => text.trim().parse().map(Number::Whole).map_err(|_| row.wrong(name, "must be a number")),
        _ => Err(row.wrong(name, "must be a number")),
    }
}

fn capped(value: i64, cap: Option<f64>) -> i64 {
    cap.map_or(value, |cap| if (value as f64) < cap { value } else { cap as i64 })
}

fn rounded(value: f64, cap: Option<f64>) -> i64 {
    cap.map_or(value, |cap| value.min(cap)).round_ties_even() as i64
}

/// NumPy's pairwise sum, whose rounding affects the mean of a sample.
fn pairwise_sum(values: &[f64]) -> f64 {
    if values.len() < 8 {
        return values.iter().sum();
    }
    if values.len() > 128 {
        let half = values.len() / 2;
        let half = half - half % 8;
        return pairwise_sum(&values[..half]) + pairwise_sum(&values[half..]);
    }
    let mut sums = [0.0; 8];
    let chunks = values.chunks_exact(8);
    let rest = chunks.remainder();
    for (at, chunk) in chunks.enumerate() {
        for (sum, value) in sums.iter_mut().zip(chunk) {
            *sum = if at == 0 { *value } else { *sum + value };
        }
    }
    let [a, b, c, d, e, f, g, h] = sums;
    rest.iter().fold(((a + b) + (c + d)) + ((e + f) + (g + h)), |sum, value| sum + value)
}
