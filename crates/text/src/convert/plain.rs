//! Vocabularies in plain files: GPT-2's two files, BERT's one.

use std::{collections::HashMap, path::Path};

use serde_json::{Value, json};

use super::added::{AddedTokens, frame, frame_by_settings};
use super::{Converted, byte_decoder, file, read, sentencepiece::Part};
use crate::{Error, settings::Settings};

const QWEN: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// `vocab.json` and `merges.txt`.
pub(super) fn byte_level(vocab: &Path, merges: &Path, settings: &Settings) -> Result<Converted, Error> {
    let not_json = |source| Error::NotJson { path: vocab.to_path_buf(), source };
    let ids: HashMap<String, u32> = serde_json::from_slice(&read(vocab)?).map_err(not_json)?;
    let text = String::from_utf8_lossy(&read(merges)?).into_owned();
    let lines = text.lines().filter(|line| !line.starts_with("#version") && !line.trim().is_empty());
    let pair = |line: &str| line.trim_end().split_once(' ').map(|(left, right)| json!([left, right]));
    let pairs: Option<Vec<Value>> = lines.map(pair).collect();
    let pairs = pairs.ok_or_else(|| Error::NotVocabulary { path: merges.to_path_buf(), kind: "a list of merges" })?;
    let class = settings.class.as_deref();
    let added = AddedTokens::new(&ids).declared(settings, &[], &[]);
    let id = |attribute: &str| {
        let text = settings.token(attribute)?;
        Some((text, added.id(text)?))
    };
    let post = match class {
        Some("RobertaTokenizer" | "BartTokenizer") => frame(id("cls_token"), id("sep_token")),
        _ => frame_by_settings(settings, &[], |text| added.id(text)),
    };
    let model = json!({
        "type": "BPE",
        "dropout": null,
        "unk_token": null,
        "continuing_subword_prefix": "",
        "end_of_word_suffix": "",
        "fuse_unk": false,
        "byte_fallback": false,
        "ignore_merges": false,
        "vocab": ids,
        "merges": pairs,
    });
    let parts = if class == Some("Qwen2Tokenizer") { qwen_parts(settings) } else { byte_level_parts(settings) };
    Ok(Converted::of(file([Value::Null, Value::Null, post, Value::Null], added, model)).with(parts))
}

/// The pipeline of GPT-2's class.
pub(super) fn byte_level_parts(settings: &Settings) -> Vec<Part> {
    let around = [("/normalizer", Value::Null), ("/pre_tokenizer", bytes(settings, true))];
    around.into_iter().chain(plain_model()).collect()
}

pub(super) fn qwen_parts(settings: &Settings) -> Vec<Part> {
    let split = json!({"type": "Split", "pattern": {"Regex": QWEN}, "behavior": "Isolated", "invert": false});
    let cut = json!({"type": "Sequence", "pretokenizers": [split, bytes(settings, false)]});
    let around = [("/normalizer", json!({"type": "NFC"})), ("/pre_tokenizer", cut)];
    around.into_iter().chain(plain_model()).collect()
}

fn bytes(settings: &Settings, regex: bool) -> Value {
    let prefix = settings.config.get("add_prefix_space").is_some_and(|value| value == true);
    json!({"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": true, "use_regex": regex})
}

fn plain_model() -> [Part; 5] {
    [
        ("/decoder", byte_decoder()),
        ("/model/unk_token", Value::Null),
        ("/model/fuse_unk", json!(false)),
        ("/model/byte_fallback", json!(false)),
        ("/model/ignore_merges", json!(false)),
    ]
}

pub(super) fn bert_parts(settings: &Settings) -> Vec<Part> {
    let flag = |name: &str, default: bool| settings.config.get(name).and_then(Value::as_bool).unwrap_or(default);
    let normalizer = json!({
        "type": "BertNormalizer",
        "clean_text": true,
        "handle_chinese_chars": flag("tokenize_chinese_chars", true),
        "strip_accents": settings.config.get("strip_accents").and_then(Value::as_bool),
        "lowercase": flag("do_lower_case", true),
    });
    vec![
        ("/normalizer", normalizer),
        ("/pre_tokenizer", json!({"type": "BertPreTokenizer"})),
        ("/decoder", json!({"type": "WordPiece", "prefix": "##", "cleanup": true})),
    ]
}

/// `vocab.txt`: one token per line.
pub(super) fn word_piece(path: &Path, settings: &Settings) -> Result<Converted, Error> {
    let text = String::from_utf8(read(path)?);
    let text = text.map_err(|_| Error::NotVocabulary { path: path.to_path_buf(), kind: "a list of tokens" })?;
    let ids: HashMap<String, u32> =
        text.lines().enumerate().map(|(id, token)| (token.trim_end_matches('\r').to_owned(), id as u32)).collect();
    let added = AddedTokens::new(&ids).declared(settings, &[], &[]);
    let named = |attribute, default| settings.token(attribute).unwrap_or(default);
    let (cls, sep, unk) = (named("cls_token", "[CLS]"), named("sep_token", "[SEP]"), named("unk_token", "[UNK]"));
    let post = frame(added.id(cls).map(|id| (cls, id)), added.id(sep).map(|id| (sep, id)));
    let model = json!({
        "type": "WordPiece",
        "unk_token": unk,
        "continuing_subword_prefix": "##",
        "max_input_chars_per_word": 100,
        "vocab": ids,
    });
    Ok(Converted::of(file([Value::Null, Value::Null, post, Value::Null], added, model)).with(bert_parts(settings)))
}
