//! `timed_trace`: recorded lengths, times and shared blocks, with synthetic tokens for each block.

use std::{collections::HashMap, path::PathBuf};
use tacho_core::bounded::{ScheduledTime, TokenCount};

use tacho_core::json::{Value, float_repr, python_float};
use tacho_core::{Content, Request};
use tacho_pyrand::{HashKey, Random};
use tacho_text::Tokenizer;

use crate::sources::jsonl::{Line, parse_object};
use crate::{
    Error, limits::LENGTH, sampling::context::SampleContext, sampling::sampled::Sampled,
    sampling::selection::Selection, sources::cell::Cell, sources::read_rows,
};

#[derive(Debug, Clone, PartialEq)]
pub struct TimedTraceSpec {
    pub path: PathBuf,
    /// The selected rows: the first ones; the seed is not used.
    pub selection: Selection,
    pub chunk_size: i64,
    /// Factor from the file's time unit to seconds.
    pub sec_multiplier: f64,
    pub timestamp_label: String,
    pub input_length_label: String,
    pub output_length_label: String,
    pub hash_ids_label: String,
    /// `PYTHONHASHSEED`, on which the tokens of a block depend.
    pub hash_seed: u32,
}

/// Generates the requests; leaves both global generators seeded with 0.
pub(crate) fn sample(spec: &TimedTraceSpec, context: &mut SampleContext<'_>) -> Result<Sampled, Error> {
    let tokenizer = context.tokenizer_of("timed_trace")?;
    context.globals.seed(0);
    let mut blocks = Blocks::new(tokenizer, spec.hash_seed)?;
    let text = read_rows(&spec.path)?;
    let mut requests = Vec::new();
    for (index, row) in spec.rows(&text).take(spec.selection.wanted()).enumerate() {
        let request = spec.request(&row?, &mut blocks, false)?;
        requests.push(Request { id: spec.selection.id(index), ..request });
        context.counters.finish_one();
    }
    Ok(Sampled::of(requests))
}

impl TimedTraceSpec {
    /// vLLM's status line about the settings.
    pub fn headline(&self) -> String {
        format!(
            "timed-trace: chunk_size: {}, sec_multiplier: {}, label_ts: \"{}\", label_input_length: \"{}\", \
             label_output_length: \"{}\", label_hash_ids: \"{}\"",
            self.chunk_size,
            float_repr(self.sec_multiplier),
            self.timestamp_label,
            self.input_length_label,
            self.output_length_label,
            self.hash_ids_label
        )
    }

    /// The lines of a trace. A trailing line end does not start another line.
    pub(crate) fn rows<'t>(&'t self, text: &'t str) -> impl Iterator<Item = Result<Line, Error>> + 't {
        let lines =
            text.strip_suffix('\n').unwrap_or(text).split('\n').take(if text.is_empty() { 0 } else { usize::MAX });
        lines.enumerate().map(|(index, line)| parse_object(&self.path, index + 1, line))
    }

    /// The scheduled time of a line's request.
    pub(crate) fn seconds(&self, row: &Line) -> Result<f64, Error> {
        let seconds = match self.field(row, &self.timestamp_label, "timestamp")? {
            Value::Str(text) => python_float(text),
            other => other.as_f64(),
        };
        let seconds =
            seconds.map(|seconds| seconds * self.sec_multiplier).filter(|seconds| ScheduledTime::holds(seconds.abs()));
        seconds.ok_or_else(|| self.wrong(row, &self.timestamp_label, "a time, and no more than ten years in seconds"))
    }

    /// The request of a line. A prompt with too few blocks stays short, unless it is to be filled.
    pub(crate) fn request(&self, row: &Line, blocks: &mut Blocks, fill: bool) -> Result<Request, Error> {
        let length = self.length(row, &self.input_length_label, "input-length")?;
        let output = self.whole(row, &self.output_length_label, "output-length")?;
        let timestamp = Some(self.seconds(row)?);
        let mut ids = self.prompt(row, length, blocks)?;
        if fill && ids.len() < length {
            // No other line has a block with this name.
            ids.extend_from_slice(blocks.tokens(&format!("line {}", row.number), length - ids.len()));
        }
        let len = ids.len() as u64;
        Ok(Request { content: Content::Ids(ids), timestamp, ..Request::text("", len, output) })
    }

    fn prompt(&self, row: &Line, length: usize, blocks: &mut Blocks) -> Result<Vec<u32>, Error> {
        let expected = "a list of ids";
        let hashes = match row.object.get(&self.hash_ids_label) {
            None => &[],
            Some(hashes) => hashes.as_list().ok_or_else(|| self.wrong(row, &self.hash_ids_label, expected))?,
        };
        let chunk = usize::try_from(self.chunk_size).unwrap_or(0);
        let mut rest = length;
        let mut ids = Vec::with_capacity(rest.min(1 << 20));
        for hash in hashes {
            if rest == 0 {
                break;
            }
            // Python's `str` of the ID is part of the seed of its tokens.
            let name = Cell::from(hash.clone()).python_str();
            let name = name.ok_or_else(|| self.wrong(row, &self.hash_ids_label, expected))?;
            let count = rest.min(chunk);
            ids.extend_from_slice(blocks.tokens(&name, count));
            rest -= count;
        }
        Ok(ids)
    }

    fn length(&self, row: &Line, label: &str, flag: &'static str) -> Result<usize, Error> {
        Ok(self.whole(row, label, flag)?.unsigned_abs() as usize)
    }

    fn whole(&self, row: &Line, label: &str, flag: &'static str) -> Result<i64, Error> {
        let whole = match self.field(row, label, flag)? {
            Value::Float(number) if number.fract() == 0.0 => Some(*number as i64),
            other => other.as_i64(),
        };
        whole.filter(|tokens| TokenCount::holds(*tokens)).ok_or_else(|| self.wrong(row, label, LENGTH))
    }

    fn field<'o>(&self, row: &'o Line, label: &str, flag: &'static str) -> Result<&'o Value, Error> {
        row.object.get(label).ok_or_else(|| {
            let (path, line) = (self.path.display(), row.number);
            let found = row.object.iter().map(|(key, _)| key).collect::<Vec<_>>().join(", ");
            data!(
                "{path}, line {line}: no field {label:?}, only {found}; pass --timed-trace-label-{flag} with its name"
            )
        })
    }

    fn wrong(&self, row: &Line, field: &str, expected: &'static str) -> Error {
        Error::LineField { path: self.path.clone(), line: row.number, field: field.to_owned(), expected }
    }
}

/// The tokens of each block, generated once: equal IDs give equal tokens.
pub(crate) struct Blocks {
    key: HashKey,
    vocabulary: Vec<u32>,
    known: HashMap<String, Vec<u32>>,
}

impl Blocks {
    /// Draws from the vocabulary without special tokens.
    pub(crate) fn new(tokenizer: &Tokenizer, hash_seed: u32) -> Result<Self, Error> {
        let special = tokenizer.special_ids();
        let vocabulary: Vec<u32> = tokenizer.all_ids().into_iter().filter(|id| !special.contains(id)).collect();
        if vocabulary.is_empty() {
            return Err(Error::NoAllowedTokens { vocab_size: tokenizer.vocab_size() });
        }
        Ok(Blocks { key: HashKey::from_seed(hash_seed), vocabulary, known: HashMap::new() })
    }

    pub(crate) fn tokens(&mut self, name: &str, count: usize) -> &[u32] {
        let key = format!("{name}:{count}");
        let (hash_key, vocabulary) = (self.key, &self.vocabulary);
        self.known.entry(key).or_insert_with_key(|key| {
            let seed = hash_key.hash(key) as u64 & 0xffff_ffff;
            let positions = Random::new(seed).choices_indices(vocabulary.len(), count);
            positions.into_iter().map(|position| vocabulary[position]).collect()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_headline_is_vllms() {
        let spec = TimedTraceSpec {
            path: PathBuf::new(),
            selection: Selection::default(),
            chunk_size: 16,
            sec_multiplier: 0.001,
            timestamp_label: "timestamp".into(),
            input_length_label: "input_length".into(),
            output_length_label: "output_length".into(),
            hash_ids_label: "hash_ids".into(),
            hash_seed: 0,
        };
        let line = "timed-trace: chunk_size: 16, sec_multiplier: 0.001, label_ts: \"timestamp\", label_input_length: \
                    \"input_length\", label_output_length: \"output_length\", label_hash_ids: \"hash_ids\"";
        assert_eq!(spec.headline(), line);
    }
}
