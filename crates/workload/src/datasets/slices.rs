//! Slices of a plain text, as a file for the `custom` dataset.

use std::fmt::Write;

use tacho_core::json::Value;
use tacho_pyrand::{Generator, Random};
use tacho_text::{Tokenizer, unicode_text};

use crate::Error;
use crate::sampling::lengths::{LengthRange, RangeRatio, checked_count, checked_seed};

#[derive(Debug, Clone, PartialEq)]
pub struct SlicesSpec {
    /// Seed of lengths and positions.
    pub seed: i64,
    pub num_prompts: i64,
    pub input_len: i64,
    pub output_len: i64,
    pub range_ratio: RangeRatio,
}

/// The lines of the file: objects with `prompt` and `output_tokens`.
pub fn slices(spec: &SlicesSpec, text: &str, tokenizer: &Tokenizer) -> Result<String, Error> {
    let (seed, count) = (checked_seed(spec.seed)?, checked_count(spec.num_prompts)?);
    let tokens = tokenizer.encode(text, false);
    if tokens.is_empty() {
        return Err(data!("the text has no tokens"));
    }
    let range = LengthRange::of(tokenizer, spec.range_ratio, spec.input_len, spec.output_len);
    let lengths = range.draw(&mut Generator::new(seed), count)?;
    let mut positions = Random::new(seed);
    let mut out = String::new();
    for (input, output) in lengths.inputs.iter().zip(&lengths.outputs) {
        let start = positions.randint(0, tokens.len() as i64 - 1) as usize;
        let ids: Vec<u32> = tokens.iter().copied().cycle().skip(start).take(*input as usize).collect();
        let prompt = unicode_text(&tokenizer.decode(&ids));
        let tokens = tacho_core::json::dumps(&Value::Int(*output));
        writeln!(out, "{{\"prompt\": {prompt}, \"output_tokens\": {tokens}}}").expect("a text can be written to");
    }
    Ok(out)
}
