//! Prompt and output lengths of the random datasets, and the range ratio of their distribution.

use tacho_core::json::{self, Value, python_float};
use tacho_pyrand::Generator;
use tacho_text::Tokenizer;

use crate::Error;

/// Maximum deviation of lengths from their nominal value, as a fraction of it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct RangeRatio {
    pub input: f64,
    pub output: f64,
}

/// The lengths of a workload, one entry per prompt, and the vocabulary offset of each prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lengths {
    pub(crate) inputs: Vec<i64>,
    pub(crate) outputs: Vec<i64>,
    pub(crate) offsets: Vec<i64>,
}

pub(crate) struct LengthRange {
    pub(crate) ratio: RangeRatio,
    pub(crate) input_len: i64,
    pub(crate) output_len: i64,
    pub(crate) num_special: usize,
    pub(crate) vocab_size: usize,
}

impl RangeRatio {
    /// The same ratio for prompts and outputs.
    pub fn both(ratio: f64) -> Self {
        RangeRatio { input: ratio, output: ratio }
    }

    /// Parses a flag: a number as in Python's `float`, or a JSON object with `input` and `output`.
    pub fn parse(text: &str) -> Result<Self, Error> {
        if let Some(ratio) = python_float(text) {
            return Ok(RangeRatio::both(ratio));
        }
        let value = json::parse(text).map_err(|source| Error::RatioNotJson { text: text.to_owned(), source })?;
        let Some(dict) = value.as_dict() else {
            return Ok(RangeRatio::both(ratio_of(&value)?));
        };
        match (dict.get("input"), dict.get("output")) {
            (Some(input), Some(output)) => Ok(RangeRatio { input: ratio_of(input)?, output: ratio_of(output)? }),
            _ => {
                let found: Vec<&str> = dict.iter().map(|(key, _)| key).collect();
                Err(usage!(
                    "--random-range-ratio must contain 'input' and 'output' when it is an object, got {found:?}"
                ))
            }
        }
    }
}

/// A seed as numpy takes it.
pub(crate) fn checked_seed(seed: i64) -> Result<u64, Error> {
    u64::try_from(seed).map_err(|_| Error::NegativeSeed { seed })
}

/// How many prompts there are to be.
pub(crate) fn checked_count(count: i64) -> Result<usize, Error> {
    usize::try_from(count).map_err(|_| Error::NegativeCount { count })
}

impl LengthRange {
    /// Lengths of prompts and outputs that a tokenizer can make.
    pub(crate) fn of(tokenizer: &Tokenizer, ratio: RangeRatio, input_len: i64, output_len: i64) -> Self {
        let (num_special, vocab_size) = (tokenizer.num_special(), tokenizer.vocab_size());
        LengthRange { ratio, input_len, output_len, num_special, vocab_size }
    }

    /// Draws all prompt lengths, then all output lengths, then all offsets; a range of one value draws nothing.
    pub(crate) fn draw(&self, generator: &mut Generator, count: usize) -> Result<Lengths, Error> {
        in_range("input_range_ratio", self.ratio.input)?;
        in_range("output_range_ratio", self.ratio.output)?;
        let (low, high) = self.input_bounds();
        let inputs = generator.integers_vec(low, high + 1, count);
        let output = self.output_len as f64;
        let low = ((output * (1.0 - self.ratio.output)).floor() as i64).max(1);
        let high = ((output * (1.0 + self.ratio.output)).ceil() as i64).max(1);
        let outputs = generator.integers_vec(low, high + 1, count);
        let offsets = generator.integers_vec(0, self.vocab_size as i64, count);
        Ok(Lengths { inputs, outputs, offsets })
    }

    /// The minimum prompt length, computed before the ratio is validated.
    pub(crate) fn shortest_input(&self) -> Result<i64, Error> {
        let shortest = (self.real_input() * (1.0 - self.ratio.input)).floor();
        let problem = || usage!("--random-range-ratio is {}: cannot convert it to a length", self.ratio.input);
        shortest.is_finite().then_some(shortest as i64).ok_or_else(problem)
    }

    /// The order of floating-point operations is part of the definition: ten percent above 100 is 111.
    fn input_bounds(&self) -> (i64, i64) {
        let real = self.real_input();
        ((real * (1.0 - self.ratio.input)).floor() as i64, (real * (1.0 + self.ratio.input)).ceil() as i64)
    }

    fn real_input(&self) -> f64 {
        self.input_len.saturating_sub(self.num_special as i64).max(0) as f64
    }
}

fn in_range(name: &'static str, value: f64) -> Result<(), Error> {
    match (0.0..1.0).contains(&value) {
        true => Ok(()),
        false => Err(usage!("{name} must be in [0, 1), not {value}: it is given by --random-range-ratio")),
    }
}

/// Python's `float(value)` of a JSON value.
fn ratio_of(value: &Value) -> Result<f64, Error> {
    let number = match value {
        Value::Bool(flag) => Some(f64::from(u8::from(*flag))),
        Value::Str(text) => python_float(text),
        other => other.as_f64(),
    };
    number.ok_or_else(|| usage!("--random-range-ratio must be numbers, got {}", json::dumps(value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(ratio: f64) -> LengthRange {
        let ratio = RangeRatio::both(ratio);
        LengthRange { ratio, input_len: 50, output_len: 20, num_special: 0, vocab_size: 50_257 }
    }

    #[test]
    fn lengths_are_three_vectors_in_order() {
        let lengths = range(0.3).draw(&mut Generator::new(0), 5).unwrap();
        assert_eq!(lengths.inputs, [61, 54, 50, 43, 44]);
        assert_eq!(lengths.outputs, [14, 14, 14, 16, 24]);
        assert_eq!(lengths.offsets, [32637, 45872, 25310, 30487, 48786]);
    }

    #[test]
    fn ratio_zero_draws_only_offsets() {
        let lengths = range(0.0).draw(&mut Generator::new(0), 5).unwrap();
        assert_eq!((lengths.inputs, lengths.outputs), (vec![50; 5], vec![20; 5]));
        assert_eq!(lengths.offsets, [42749, 32011, 25688, 13558, 15470]);
    }

    #[test]
    fn bounds_are_double_arithmetic() {
        let range = LengthRange { input_len: 100, ..range(0.1) };
        assert_eq!(range.input_bounds(), (90, 111));
        let range = LengthRange { input_len: 1, num_special: 2, ..range };
        assert_eq!(range.input_bounds(), (0, 0));
    }

    #[test]
    fn ratios_are_numbers_or_objects() {
        let parse = |text| RangeRatio::parse(text).unwrap();
        assert_eq!(parse(" 0.2_5 "), RangeRatio::both(0.25));
        assert_eq!(parse("\"0.5\""), RangeRatio::both(0.5));
        assert_eq!(parse(r#"{"input": 0.1, "output": "0.2", "x": 1}"#), RangeRatio { input: 0.1, output: 0.2 });
        assert!(parse("nan").input.is_nan());
        assert!(matches!(RangeRatio::parse("abc"), Err(Error::RatioNotJson { .. })));
        assert!(matches!(RangeRatio::parse("1__0"), Err(Error::RatioNotJson { .. })));
        let error = |text| RangeRatio::parse(text).unwrap_err().to_string();
        assert!(error("[0.1, 0.2]").ends_with("must be numbers, got [0.1, 0.2]"));
        assert!(error("null").ends_with("must be numbers, got null"));
        assert!(error(r#"{"input": 0.1}"#).ends_with(r#"when it is an object, got ["input"]"#));
    }

    #[test]
    fn ratios_outside_the_range_are_named() {
        for value in [-0.1, 1.0, 1.5] {
            let input = LengthRange { ratio: RangeRatio { input: value, output: 0.0 }, ..range(0.0) };
            let error = input.draw(&mut Generator::new(0), 1).unwrap_err().to_string();
            assert!(error.contains("input_range_ratio"), "{error}");
            let output = LengthRange { ratio: RangeRatio { input: 0.0, output: value }, ..range(0.0) };
            let error = output.draw(&mut Generator::new(0), 1).unwrap_err().to_string();
            assert!(error.contains("output_range_ratio"), "{error}");
        }
    }
}
