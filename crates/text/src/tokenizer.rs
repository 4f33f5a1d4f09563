//! The tokenizer that all other code uses: loading, encoding, decoding, special tokens.

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use serde_json::Value;

use crate::byte_level::{ByteLevel, form};
use crate::hf::{General, USABLE};
use crate::{
    Error, TokenizerMode, builtin, charsmap, convert, sentencepiece::Bpe, settings::Settings, template::ChatTemplate,
};

/// Replacements that clean up decoded text, applied in this order.
const CLEAN_UP: [(&str, &str); 10] = [
    (" .", "."),
    (" ?", "?"),
    (" !", "!"),
    (" ,", ","),
    (" ' ", "'"),
    (" n't", "n't"),
    (" 'm", "'m"),
    (" 's", "'s"),
    (" 've", "'ve"),
    (" 're", "'re"),
];

/// A tokenizer; share it by reference or in an `Arc`.
pub struct Tokenizer {
    name: String,
    engine: Engine,
    special_ids: Vec<u32>,
    /// Whether only named tokens are special, as with Mistral's own files.
    all_special: bool,
    /// Whether IDs are decoded to the raw pieces of the vocabulary, including space marks and byte tokens, as Mistral's
    /// library does for a SentencePiece model if special tokens are kept.
    raw_pieces: bool,
    /// Encodes instead of the engine.
    encoder: Option<Bpe>,
    settings: Settings,
}

pub(crate) enum Engine {
    /// Byte-level BPE of GPT-2's form.
    ByteLevel(Arc<ByteLevel>),
    General(Box<General>),
}

impl Tokenizer {
    /// Loads a tokenizer from a directory that contains `tokenizer.json` or another vocabulary, or from a
    /// `tokenizer.json` file.
    pub fn load(path: &Path) -> Result<Tokenizer, Error> {
        Tokenizer::load_as(path, TokenizerMode::Auto)
    }

    /// Loads a tokenizer; `mode` selects among the files of a directory.
    pub fn load_as(path: &Path, mode: TokenizerMode) -> Result<Tokenizer, Error> {
        let loaded = if path.is_dir() { load_directory(path, mode)? } else { load_file(path)? };
        Ok(Tokenizer { name: path.to_string_lossy().into_owned(), ..loaded })
    }

    /// GPT-2's tokenizer, which is built into the binary. Its tables are unpacked once per process.
    pub fn builtin() -> Tokenizer {
        static TABLES: LazyLock<Arc<ByteLevel>> = LazyLock::new(|| Arc::new(ByteLevel::new(builtin::parts())));
        let engine = Engine::ByteLevel(Arc::clone(&TABLES));
        Tokenizer::new("gpt2".to_owned(), engine, Settings::new(&serde_json::Map::new(), Some("gpt2")))
    }

    fn new(name: String, engine: Engine, settings: Settings) -> Self {
        let mut special_ids: Vec<u32> =
            settings.named.iter().filter_map(|(_, token)| engine.token_to_id(token)).collect();
        special_ids.sort_unstable();
        special_ids.dedup();
        Tokenizer { name, engine, special_ids, all_special: false, raw_pieces: false, encoder: None, settings }
    }

    /// Encodes a text to IDs. Special tokens in the text are recognized in any case; `add_special` adds BOS and EOS
    /// around it.
    pub fn encode(&self, text: &str, add_special: bool) -> Vec<u32> {
        if let Some(encoder) = &self.encoder {
            return encoder.encode(text, add_special);
        }
        match &self.engine {
            Engine::ByteLevel(engine) => engine.encode(text, add_special),
            Engine::General(engine) => engine.encode(text, add_special),
        }
    }

    pub fn count(&self, text: &str, add_special: bool) -> usize {
        self.encode(text, add_special).len()
    }

    /// Decodes IDs and keeps special tokens.
    pub fn decode(&self, ids: &[u32]) -> String {
        match &self.engine {
            Engine::General(engine) if self.raw_pieces => engine.pieces(ids),
            Engine::ByteLevel(engine) => engine.decode(ids),
            Engine::General(engine) if self.settings.clean_up_spaces && !engine.is_bpe() => {
                clean_up(engine.decode(ids))
            }
            Engine::General(engine) => engine.decode(ids),
        }
    }

    /// Size of the model's vocabulary, without added tokens.
    pub fn vocab_size(&self) -> usize {
        match &self.engine {
            Engine::ByteLevel(engine) => engine.base_size(),
            Engine::General(engine) => engine.vocab_size(false),
        }
    }

    /// Size of the vocabulary, including added tokens.
    pub fn full_vocab_size(&self) -> usize {
        match &self.engine {
            Engine::ByteLevel(engine) => engine.full_size(),
            Engine::General(engine) => engine.vocab_size(true),
        }
    }

    /// All used IDs, including added tokens, ascending.
    pub fn all_ids(&self) -> Vec<u32> {
        let mut ids = match &self.engine {
            Engine::ByteLevel(engine) => engine.ids(),
            Engine::General(engine) => engine.ids(),
        };
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// Number of special tokens added to a text.
    pub fn num_special(&self) -> usize {
        match &self.engine {
            Engine::ByteLevel(engine) => engine.frame_len(),
            Engine::General(engine) => engine.num_special(),
        }
    }

    /// IDs of the named special tokens (`bos_token` and similar), ascending; not all added tokens are named.
    pub fn special_ids(&self) -> Vec<u32> {
        self.special_ids.clone()
    }

    /// IDs of all added tokens that are marked special, ascending.
    pub fn added_special_ids(&self) -> Vec<u32> {
        if self.all_special {
            return self.special_ids.clone();
        }
        let mut ids = match &self.engine {
            Engine::ByteLevel(engine) => {
                engine.added().iter().filter(|token| token.special).map(|token| token.id).collect()
            }
            Engine::General(engine) => engine.added_special_ids(),
        };
        ids.sort_unstable();
        ids
    }

    /// The ID of the end-of-sequence token, if one is named.
    pub fn eos_id(&self) -> Option<u32> {
        let (_, token) = self.settings.named.iter().find(|(attribute, _)| attribute == "eos_token")?;
        self.engine.token_to_id(token)
    }

    pub fn has_chat_template(&self) -> bool {
        !self.settings.templates.is_empty()
    }

    /// Its chat template, for requests with or without tools.
    pub fn chat_template(&self, with_tools: bool) -> Result<ChatTemplate, Error> {
        self.settings.templates.compile(with_tools, &self.settings.named)
    }

    /// Sets the name that the user knows it by.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        Tokenizer { name: name.to_owned(), ..self }
    }

    /// Its name or the path it was loaded from.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The Python class of the tokenizer, without `Fast`, if known.
    pub fn class(&self) -> Option<&str> {
        self.settings.named_class.as_deref().or(self.settings.class.as_deref())
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }
}

impl std::fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tokenizer").field("name", &self.name).field("vocab_size", &self.vocab_size()).finish()
    }
}

impl Engine {
    fn token_to_id(&self, token: &str) -> Option<u32> {
        match self {
            Engine::ByteLevel(engine) => engine.token_to_id(token),
            Engine::General(engine) => engine.token_to_id(token),
        }
    }
}

const TOKENIZER_FILES: &str = "tokenizer.json, a SentencePiece model (tokenizer.model), tiktoken ranks (*.tiktoken), tekken.json, \
                          vocab.json with merges.txt, vocab.txt";

fn load_directory(directory: &Path, mode: TokenizerMode) -> Result<Tokenizer, Error> {
    if mode == TokenizerMode::Mistral || (mode == TokenizerMode::Auto && convert::is_mistral(directory)) {
        let looked_for = "tekken.json or tokenizer.model.v*";
        let mut found =
            convert::mistral(directory)?.ok_or(Error::Missing { path: directory.to_path_buf(), looked_for })?;
        let (raw_pieces, encoder) = (found.raw_pieces, found.encoder.take());
        let mut tokenizer = converted(directory, found, Settings::default())?;
        (tokenizer.all_special, tokenizer.raw_pieces, tokenizer.encoder) = (true, raw_pieces, encoder);
        return Ok(tokenizer);
    }
    let mut tokenizer = load_hf(directory)?;
    if mode == TokenizerMode::CodedChat {
        tokenizer.settings.templates = crate::template::Templates::default();
    }
    Ok(tokenizer)
}

fn load_hf(directory: &Path) -> Result<Tokenizer, Error> {
    let file = directory.join("tokenizer.json");
    if file.is_file() {
        return load_file(&file);
    }
    let settings = Settings::read(directory)?;
    match convert::vocabulary(directory, &settings)? {
        Some(found) => converted(directory, found, settings),
        None => match settings.remote_class() {
            Some(class) => Err(Error::RemoteCode { path: directory.to_path_buf(), class }),
            None => Err(Error::Missing { path: directory.to_path_buf(), looked_for: TOKENIZER_FILES }),
        },
    }
}

fn load_file(file: &Path) -> Result<Tokenizer, Error> {
    if !file.is_file() {
        return Err(Error::Missing { path: file.to_path_buf(), looked_for: TOKENIZER_FILES });
    }
    let bytes = std::fs::read(file).map_err(|source| Error::Read { path: file.to_path_buf(), source })?;
    let directory = file.parent().map_or_else(PathBuf::new, Path::to_path_buf);
    let settings = Settings::read(&directory)?;
    let engine = match form::read(&bytes, &settings) {
        Some(parts) => Engine::ByteLevel(Arc::new(ByteLevel::new(parts))),
        None => engine(&bytes, file, &settings)?,
    };
    Ok(Tokenizer::new(String::new(), engine, settings))
}

/// Builds a tokenizer from a vocabulary of another format.
fn converted(directory: &Path, found: convert::Converted, mut settings: Settings) -> Result<Tokenizer, Error> {
    settings.named.extend(found.named);
    let bytes = serde_json::to_vec(&found.json).expect("a JSON value can be written");
    let engine = engine_of(&found.json, &bytes, directory)?;
    Ok(Tokenizer::new(String::new(), engine, settings))
}

/// The engine of a `tokenizer.json`, after the tokenizer's class has replaced parts of the file.
fn engine(bytes: &[u8], file: &Path, settings: &Settings) -> Result<Engine, Error> {
    let mut json =
        serde_json::from_slice(bytes).map_err(|source| Error::NotJson { path: file.to_path_buf(), source })?;
    if !convert::rebuild(&mut json, settings) {
        return engine_of(&json, bytes, file);
    }
    let bytes = serde_json::to_vec(&json).expect("a JSON value can be written");
    engine_of(&json, &bytes, file)
}

fn engine_of(json: &Value, bytes: &[u8], file: &Path) -> Result<Engine, Error> {
    if let Some(parts) = form::recognize(json) {
        return Ok(Engine::ByteLevel(Arc::new(ByteLevel::new(parts))));
    }
    if let Some(normalizer) = json.get("normalizer") {
        charsmap::check(normalizer)
            .map_err(|source| Error::NotTokenizer { path: file.to_path_buf(), source: source.into() })?;
    }
    if ["normalizer", "pre_tokenizer", "decoder"].iter().filter_map(|part| json.get(part)).any(is_excessive) {
        return Err(Error::NotVocabulary { path: file.to_path_buf(), kind: USABLE });
    }
    Ok(Engine::General(Box::new(General::new(bytes, file)?)))
}

fn clean_up(text: String) -> String {
    CLEAN_UP.iter().fold(text, |text, (from, to)| text.replace(from, to))
}

/// Maximum growth factor; the rules of published tokenizers lengthen a text by a small factor.
const MAX_GROWTH: f64 = 1024.0;

/// Whether rules, including nested ones, can lengthen a text by more than any tokenizer needs.
fn is_excessive(rules: &Value) -> bool {
    growth(rules) > MAX_GROWTH
}

/// The maximum growth factor; the rules of a sequence multiply.
fn growth(rules: &Value) -> f64 {
    let own = match rules.get("type").and_then(Value::as_str) {
        Some("Replace") => rules.get("content").and_then(Value::as_str).map_or(1, |content| content.chars().count()),
        // A byte becomes a character of up to two bytes.
        Some("ByteLevel") => 2,
        _ => 1,
    };
    let parts = ["normalizers", "pretokenizers", "decoders"].iter().filter_map(|name| rules.get(name)?.as_array());
    parts.flatten().map(growth).product::<f64>() * own.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn clean_up_removes_spaces_before_punctuation() {
        assert_eq!(clean_up("it 's , n't ' x ' ! ok .".to_owned()), "it's,n't'x '! ok.");
    }

    #[test]
    fn rules_in_sequence_multiply() {
        let twice = json!({"type": "Replace", "pattern": {"String": "a"}, "content": "aa"});
        let of = |count: usize| json!({"type": "Sequence", "normalizers": vec![twice.clone(); count]});
        assert!(!is_excessive(&of(10)) && is_excessive(&of(11)));
        let nested = json!({"type": "Sequence", "normalizers": [of(6), of(6)]});
        assert!(is_excessive(&nested));
        let bytes = json!({"type": "Sequence", "pretokenizers": vec![json!({"type": "ByteLevel"}); 40]});
        assert!(is_excessive(&bytes));
        let usual = json!({"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": "\u{2581}"},
            {"type": "Replace", "pattern": {"String": " "}, "content": "\u{2581}"},
        ]});
        assert_eq!(growth(&usual), 1.0);
        assert!(!is_excessive(&Value::Null));
    }
}
