//! Rebuilds a `tokenizer.json` whose class has its own pipeline: the library takes the vocabulary, the added tokens and
//! the special tokens from the file, and the rest from the class.

use serde_json::{Value, json};

use super::{added::frame_by_settings, plain, sentencepiece};
use crate::settings::Settings;

/// Replaces the file's parts by the class's; returns whether that changed anything.
pub(crate) fn rebuild(file: &mut Value, settings: &Settings) -> bool {
    let kind = file["model"]["type"].as_str().unwrap_or_default().to_owned();
    let parts = match (settings.class.as_deref(), kind.as_str()) {
        (Some("LlamaTokenizer"), "BPE") => sentencepiece::llama_parts(settings),
        (Some("GemmaTokenizer"), "BPE") => sentencepiece::gemma_parts(settings),
        (Some("Qwen2Tokenizer"), "BPE") => plain::qwen_parts(settings),
        (Some("GPT2Tokenizer" | "RobertaTokenizer"), "BPE") => plain::byte_level_parts(settings),
        (Some("BertTokenizer"), "WordPiece") => plain::bert_parts(settings),
        _ => Vec::new(),
    };
    let mut changed = false;
    for (place, value) in parts {
        let old = file.pointer_mut(place);
        match old {
            Some(old) if same(old, &value) => {}
            Some(old) => {
                *old = value;
                changed = true;
            }
            None if value.is_null() || value == false || value == "" => {}
            None => changed |= insert(file, place, value),
        }
    }
    if file["post_processor"].is_null() {
        let added = file["added_tokens"].as_array().cloned().unwrap_or_default();
        let id = |text: &str| {
            let token = added.iter().find(|token| token["content"] == text).and_then(|token| token["id"].as_u64());
            token.or_else(|| file["model"]["vocab"].get(text).and_then(Value::as_u64))
        };
        let frame = frame_by_settings(settings, &[], id);
        if frame["special_tokens"] != json!({}) {
            file["post_processor"] = frame;
            changed = true;
        }
    }
    changed
}

/// Whether two values are equivalent: null, false and an empty string are.
fn same(old: &Value, new: &Value) -> bool {
    let nothing = |value: &Value| value.is_null() || value == false || value == "";
    old == new || (nothing(old) && nothing(new))
}

fn insert(file: &mut Value, place: &str, value: Value) -> bool {
    let Some((directory, name)) = place.rsplit_once('/') else { return false };
    match file.pointer_mut(directory).and_then(Value::as_object_mut) {
        Some(object) => object.insert(name.to_owned(), value).is_none(),
        None => false,
    }
}
