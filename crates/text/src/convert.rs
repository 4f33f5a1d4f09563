//! Converts other vocabulary formats to `tokenizer.json`, as Hugging Face's library does on loading, so that a single
//! engine handles them all.

mod added;
mod plain;
mod proto;
mod rebuild;
mod sentencepiece;
mod tekken;
mod tiktoken;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::{Error, sentencepiece::Bpe, settings::Settings};
use added::AddedTokens;

pub(crate) use rebuild::rebuild;

pub(crate) struct Converted {
    pub(crate) json: Value,
    /// Special tokens that the vocabulary itself names, as (attribute, token).
    pub(crate) named: Vec<(String, String)>,
    /// Whether text with special tokens is decoded from the raw pieces.
    pub(crate) raw_pieces: bool,
    /// An encoder used instead of the file's pipeline.
    pub(crate) encoder: Option<Bpe>,
}

impl Converted {
    fn of(json: Value) -> Self {
        Converted { json, named: Vec::new(), raw_pieces: false, encoder: None }
    }

    /// The file with other parts than its own.
    fn with(mut self, parts: Vec<sentencepiece::Part>) -> Self {
        for (place, value) in parts {
            *self.json.pointer_mut(place).expect("a file has every part") = value;
        }
        self
    }
}

fn byte_decoder() -> Value {
    json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true})
}

/// A `tokenizer.json` with a normalizer, a pre-tokenizer, a post-processor and a decoder.
fn file([normalizer, cut, post, decoder]: [Value; 4], added: AddedTokens<'_>, model: Value) -> Value {
    json!({
        "version": "1.0",
        "normalizer": normalizer,
        "pre_tokenizer": cut,
        "post_processor": post,
        "decoder": decoder,
        "added_tokens": added.into_json(),
        "model": model,
    })
}

/// SentencePiece files, in the order of lookup.
const SENTENCEPIECE: [&str; 4] = ["tokenizer.model", "spiece.model", "sentencepiece.bpe.model", "spm.model"];

/// The vocabulary of a directory without `tokenizer.json`; `None` if there is none.
pub(crate) fn vocabulary(directory: &Path, settings: &Settings) -> Result<Option<Converted>, Error> {
    let file = |name: &str| Some(directory.join(name)).filter(|path| path.is_file());
    if let Some(path) = SENTENCEPIECE.into_iter().find_map(file) {
        let bytes = read(&path)?;
        return match proto::Model::parse(&bytes) {
            Some(model) => Ok(Some(sentencepiece::convert(&model, settings))),
            None => tiktoken::convert(&bytes, &path, settings).map(Some),
        };
    }
    if let Some(path) = file("tiktoken.model").or_else(|| ending(directory, ".tiktoken")) {
        return tiktoken::convert(&read(&path)?, &path, settings).map(Some);
    }
    if let (Some(vocab), Some(merges)) = (file("vocab.json"), file("merges.txt")) {
        return plain::byte_level(&vocab, &merges, settings).map(Some);
    }
    if let Some(path) = file("vocab.txt") {
        return plain::word_piece(&path, settings).map(Some);
    }
    match file("tekken.json") {
        Some(path) => tekken::convert(&path, tekken::Specials::InText).map(Some),
        None => Ok(None),
    }
}

/// Mistral's own vocabulary in a directory, the newest if there are several.
pub(crate) fn mistral(directory: &Path) -> Result<Option<Converted>, Error> {
    let tekken = directory.join("tekken.json");
    if tekken.is_file() {
        return tekken::convert(&tekken, tekken::Specials::NotInText).map(Some);
    }
    let Some(path) =
        numbered(directory).or_else(|| Some(directory.join("tokenizer.model")).filter(|path| path.is_file()))
    else {
        return Ok(None);
    };
    match proto::Model::parse(&read(&path)?) {
        Some(model) => Ok(Some(sentencepiece::mistral(&model))),
        None => Err(Error::NotVocabulary { path, kind: "a SentencePiece model" }),
    }
}

/// Whether a directory has Mistral's form, in which its own vocabulary is preferred.
pub(crate) fn is_mistral(directory: &Path) -> bool {
    let weights = names(directory).any(|name| name.starts_with("consolidated") && name.ends_with(".safetensors"));
    (weights || directory.join("params.json").is_file())
        && (directory.join("tekken.json").is_file() || numbered(directory).is_some())
}

/// The highest version of `tokenizer.model.v7` and similar files.
fn numbered(directory: &Path) -> Option<PathBuf> {
    names(directory).filter(|name| name.starts_with("tokenizer.model.v")).max().map(|name| directory.join(name))
}

fn ending(directory: &Path, suffix: &str) -> Option<PathBuf> {
    names(directory).filter(|name| name.ends_with(suffix)).min().map(|name| directory.join(name))
}

fn names(directory: &Path) -> impl Iterator<Item = String> {
    let entries = std::fs::read_dir(directory).into_iter().flatten();
    entries.filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()))
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    std::fs::read(path).map_err(|source| Error::Read { path: path.to_path_buf(), source })
}
