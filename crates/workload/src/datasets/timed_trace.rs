//! `timed_trace`: recorded lengths, times and shared blocks, with tokens made up for each block.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use tacho_core::json::{Dict, Value};
use tacho_core::{Content, Counters, Request};
use tacho_pyrand::{Globals, HashKey, Random};
use tacho_text::Tokenizer;

use crate::Error;
use crate::lengths::python_float;
use crate::selection::Selection;
use crate::sources::jsonl::parse_object;
use crate::sources::read_text;
use crate::spec::Sampled;

/// Settings of the dataset.
#[derive(Debug, Clone, PartialEq)]
pub struct TimedTraceSpec {
    /// The JSON lines.
    pub path: PathBuf,
    /// Which rows: the first ones; the seed is not used.
    pub selection: Selection,
    /// Tokens of a block.
    pub chunk_size: i64,
    /// What makes seconds of the file's times.
    pub sec_multiplier: f64,
    /// Field of the arrival time.
    pub timestamp_label: String,
    /// Field of the prompt's tokens.
    pub input_length_label: String,
    /// Field of the tokens to generate.
    pub output_length_label: String,
    /// Field of the blocks' ids.
    pub hash_ids_label: String,
    /// `PYTHONHASHSEED`, on which the tokens of a block depend.
    pub hash_seed: u32,
}

/// Makes the requests; both global generators are left seeded with 0.
pub(crate) fn sample(
    spec: &TimedTraceSpec,
    tokenizer: Option<&Tokenizer>,
    globals: &mut Globals,
    counters: &Counters,
) -> Result<Sampled, Error> {
    let tokenizer = tokenizer.ok_or(Error::NoTokenizer { dataset: "timed_trace" })?;
    globals.seed(0);
    let special = tokenizer.special_ids();
    let vocabulary: Vec<u32> = tokenizer.all_ids().into_iter().filter(|id| !special.contains(id)).collect();
    if vocabulary.is_empty() {
        return Err(Error::NoAllowedTokens { vocab_size: tokenizer.vocab_size() });
    }
    let mut blocks = Blocks { key: HashKey::from_seed(spec.hash_seed), vocabulary, known: HashMap::new() };
    let text = read_text(&spec.path)?;
    // A last line end is no line of its own.
    let lines = text.strip_suffix('\n').unwrap_or(&text).split('\n');
    let lines = lines.enumerate().take(if text.is_empty() { 0 } else { spec.selection.wanted() });
    let mut requests = Vec::new();
    for (index, line) in lines {
        let object = parse_object(&spec.path, index + 1, line)?.object;
        let request = spec.request(&object, index + 1, &mut blocks)?;
        requests.push(Request { id: spec.selection.id(index), ..request });
        counters.finished.fetch_add(1, Ordering::Relaxed);
    }
    Ok(Sampled { requests, notices: Vec::new() })
}

impl TimedTraceSpec {
    fn request(&self, object: &Dict, line: usize, blocks: &mut Blocks) -> Result<Request, Error> {
        let length = self.length(object, line, &self.input_length_label, "input-length")?;
        let output = self.length(object, line, &self.output_length_label, "output-length")?;
        let time = self.field(object, line, &self.timestamp_label, "timestamp")?;
        let seconds = match time {
            Value::Str(text) => python_float(text),
            other => other.as_f64(),
        };
        let seconds = seconds.ok_or_else(|| self.wrong(line, &self.timestamp_label, "a number"))?;
        let ids = self.prompt(object, line, length, blocks)?;
        let timestamp = Some(seconds * self.sec_multiplier);
        let len = ids.len() as u64;
        Ok(Request { content: Content::Ids(ids), timestamp, ..Request::text("", len, output) })
    }

    fn prompt(&self, object: &Dict, line: usize, length: u64, blocks: &mut Blocks) -> Result<Vec<u32>, Error> {
        let expected = "a list of whole numbers";
        let hashes = match object.get(&self.hash_ids_label) {
            None => &[],
            Some(hashes) => hashes.as_list().ok_or_else(|| self.wrong(line, &self.hash_ids_label, expected))?,
        };
        let chunk = usize::try_from(self.chunk_size).unwrap_or(0);
        let mut rest = usize::try_from(length).unwrap_or(usize::MAX);
        let mut ids = Vec::with_capacity(rest.min(1 << 20));
        for hash in hashes {
            if rest == 0 {
                break;
            }
            let name = match hash {
                Value::Int(hash) => hash.to_string(),
                Value::BigInt(hash) => hash.clone(),
                Value::Str(hash) => hash.clone(),
                _ => return Err(self.wrong(line, &self.hash_ids_label, expected)),
            };
            let count = rest.min(chunk);
            ids.extend_from_slice(blocks.tokens(&name, count));
            rest -= count;
        }
        Ok(ids)
    }

    fn length(&self, object: &Dict, line: usize, label: &str, flag: &'static str) -> Result<u64, Error> {
        let value = self.field(object, line, label, flag)?;
        let whole = match value {
            Value::Float(number) if number.fract() == 0.0 => Some(*number as i64),
            other => other.as_i64(),
        };
        whole
            .and_then(|number| u64::try_from(number).ok())
            .ok_or_else(|| self.wrong(line, label, "a whole number that is not negative"))
    }

    fn field<'o>(&self, object: &'o Dict, line: usize, label: &str, flag: &'static str) -> Result<&'o Value, Error> {
        object.get(label).ok_or_else(|| Error::TraceField {
            path: self.path.clone(),
            line,
            field: label.to_owned(),
            found: object.iter().map(|(key, _)| key.to_owned()).collect(),
            flag,
        })
    }

    fn wrong(&self, line: usize, field: &str, expected: &'static str) -> Error {
        Error::LineField { path: self.path.clone(), line, field: field.to_owned(), expected }
    }
}

/// The tokens of each block, made once: equal ids give equal tokens.
struct Blocks {
    key: HashKey,
    vocabulary: Vec<u32>,
    known: HashMap<String, Vec<u32>>,
}

impl Blocks {
    fn tokens(&mut self, name: &str, count: usize) -> &[u32] {
        let key = format!("{name}:{count}");
        let (hash_key, vocabulary) = (self.key, &self.vocabulary);
        self.known.entry(key).or_insert_with_key(|key| {
            let seed = hash_key.hash(key.as_bytes()) as u64 & 0xffff_ffff;
            let places = Random::new(seed).choices_indices(vocabulary.len(), count);
            places.into_iter().map(|place| vocabulary[place]).collect()
        })
    }
}
