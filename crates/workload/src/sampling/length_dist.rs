//! Distributions of prompt and output lengths. They are drawn from a separate generator, so vLLM's draws are the same
//! with and without them.

mod file;

use std::sync::Arc;

use tacho_core::Request;
use tacho_pyrand::RandomState;

use super::lengths::Lengths;
use crate::Error;

const MAX_TOKENS: f64 = 1e6;
/// Draws outside the bounds before the nearest bound is used.
const MAX_DRAWS: usize = 100;

/// The accepted forms, for messages.
const FORMS: &str =
    "normal(MEAN,STD), lognormal(MEAN,STD), uniform(LOW,HIGH), histogram(FILE), pairs(FILE) or a number of tokens";

#[derive(Debug, Clone, PartialEq)]
pub enum LengthDist {
    Fixed(i64),
    /// Normal, with the mean and standard deviation of the length.
    Normal(f64, f64),
    /// Log-normal, with the mean and standard deviation of the length, not of its logarithm.
    Lognormal(f64, f64),
    /// Uniform over whole numbers, bounds included.
    Uniform(i64, i64),
    /// Uniform within bins, whose last field is the cumulative weight.
    Histogram(Arc<[(i64, i64, f64)]>),
}

/// The distributions of the lengths of a request; `None` leaves the dataset's own lengths.
#[derive(Debug, Clone, PartialEq)]
pub enum RequestLengths {
    /// Independent lengths of prompts and outputs.
    Independent { input: Option<LengthDist>, output: Option<LengthDist> },
    /// Pairs of a prompt and an output length, whose last field is the cumulative weight.
    Pairs(Arc<[(i64, i64, f64)]>),
}

/// The lengths of consecutive parts of a workload: the number of requests of each, and their distributions. The last
/// part extends to the end.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LengthPlan(pub Vec<(usize, RequestLengths)>);

impl RequestLengths {
    /// Parses the distributions of prompts and outputs, and reads their files. Fails if a text is not a distribution,
    /// or its file cannot be read.
    pub fn parse(input: Option<&str>, output: Option<&str>) -> Result<Self, Error> {
        let pairs = |text: &str| call(text).filter(|(name, _)| *name == "pairs").map(|(_, path)| path.to_owned());
        match (input.and_then(pairs), output.and_then(pairs)) {
            (None, None) => Ok(RequestLengths::Independent {
                input: input.map(LengthDist::parse).transpose()?,
                output: output.map(LengthDist::parse).transpose()?,
            }),
            (Some(path), None) if output.is_none() => Ok(RequestLengths::Pairs(file::pairs(&path)?)),
            _ => Err(data!("pairs(FILE) sets both lengths: pass it alone, as the distribution of the input")),
        }
    }

    fn draw(&self, random: &mut RandomState, special: i64, input: &mut i64, output: &mut i64) {
        let (prompt, answer) = match self {
            RequestLengths::Independent { input, output } => {
                let mut draw = |dist: &LengthDist| dist.draw(random);
                (input.as_ref().map(&mut draw), output.as_ref().map(&mut draw))
            }
            RequestLengths::Pairs(pairs) => {
                let (input, output, _) = weighted(pairs, random);
                (Some(input), Some(output))
            }
        };
        if let Some(prompt) = prompt {
            *input = (prompt - special).max(1);
        }
        *output = answer.unwrap_or(*output);
    }
}

impl LengthDist {
    /// Parses a distribution, and reads its file. Fails if the text is not a distribution, or its file cannot be read.
    fn parse(text: &str) -> Result<Self, Error> {
        let invalid = |problem: &str| data!("{text:?} is not a distribution of lengths: {problem}");
        let length = |number: f64| (1.0..=MAX_TOKENS).contains(&number);
        if let Ok(tokens) = text.trim().parse::<i64>() {
            let fits = length(tokens as f64);
            return fits.then_some(LengthDist::Fixed(tokens)).ok_or_else(|| invalid("use 1 to 1000000 tokens"));
        }
        let unknown = || invalid(&format!("use {FORMS}"));
        let (name, inside) = call(text).ok_or_else(unknown)?;
        if name == "histogram" {
            return Ok(LengthDist::Histogram(file::histogram(inside)?));
        }
        let numbers: Option<Vec<f64>> = inside.split(',').map(|part| part.trim().parse().ok()).collect();
        let Some([first, second]) = numbers.as_deref().and_then(|list| <[f64; 2]>::try_from(list).ok()) else {
            return Err(unknown());
        };
        match name {
            "uniform" if length(first) && length(second) && first <= second => {
                Ok(LengthDist::Uniform(first.ceil() as i64, second.floor().max(first.ceil()) as i64))
            }
            "uniform" => Err(invalid("use two lengths from 1 to 1000000, the smaller first")),
            "normal" | "lognormal" if !(length(first) && (0.0..=MAX_TOKENS).contains(&second)) => {
                Err(invalid("use a mean from 1 to 1000000 and a standard deviation from 0 to 1000000 tokens"))
            }
            "normal" => Ok(LengthDist::Normal(first, second)),
            "lognormal" => Ok(LengthDist::Lognormal(first, second)),
            _ => Err(unknown()),
        }
    }

    fn draw(&self, random: &mut RandomState) -> i64 {
        match self {
            LengthDist::Fixed(tokens) => *tokens,
            LengthDist::Normal(mean, std) => bounded(|| mean + std * random.standard_normal()),
            LengthDist::Lognormal(mean, std) => {
                let variance = (std / mean).powi(2).ln_1p();
                bounded(|| random.lognormal(mean.ln() - variance / 2.0, variance.sqrt()))
            }
            LengthDist::Uniform(low, high) => random.randint(*low, high + 1),
            LengthDist::Histogram(bins) => {
                let (low, high, _) = weighted(bins, random);
                random.randint(low, high + 1)
            }
        }
    }
}

impl LengthPlan {
    pub(crate) fn apply(&self, seed: u64, num_special: usize, lengths: &mut Lengths) {
        let each = lengths.inputs.iter_mut().zip(&mut lengths.outputs);
        self.draw(seed, num_special as i64, each);
    }

    pub(crate) fn apply_to_outputs(&self, seed: u64, requests: &mut [Request]) {
        let mut inputs = vec![0; requests.len()];
        let outputs = requests.iter_mut().map(|request| &mut request.output_len);
        self.draw(seed, 0, inputs.iter_mut().zip(outputs));
    }

    fn draw<'l>(&self, seed: u64, special: i64, lengths: impl Iterator<Item = (&'l mut i64, &'l mut i64)>) {
        let mut random = RandomState::new((seed as u32) ^ 0x6c65_6e73);
        let (mut part, mut left) = (0, self.0.first().map_or(0, |part| part.0));
        for (input, output) in lengths {
            while left == 0 && part + 1 < self.0.len() {
                part += 1;
                left = self.0[part].0;
            }
            left = left.saturating_sub(1);
            let Some((_, dists)) = self.0.get(part) else { return };
            dists.draw(&mut random, special, input, output);
        }
    }
}

/// The name and the inside of `name(inside)`.
fn call(text: &str) -> Option<(&str, &str)> {
    let (name, rest) = text.trim().split_once('(')?;
    Some((name.trim(), rest.strip_suffix(')')?.trim()))
}

/// A draw that is a valid length, rounded.
fn bounded(mut draw: impl FnMut() -> f64) -> i64 {
    let drawn = (0..MAX_DRAWS).map(|_| draw().round()).find(|tokens| (1.0..=MAX_TOKENS).contains(tokens));
    drawn.unwrap_or(1.0) as i64
}

fn weighted(rows: &[(i64, i64, f64)], random: &mut RandomState) -> (i64, i64, f64) {
    let whole = rows.last().map_or(0.0, |row| row.2);
    let drawn = random.random_sample() * whole;
    rows[rows.partition_point(|row| row.2 <= drawn).min(rows.len() - 1)]
}

#[cfg(test)]
mod tests;
