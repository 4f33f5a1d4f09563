//! Recognizes a `tokenizer.json` of exactly GPT-2's form and splits it into its parts. Anything unusual is rejected:
//! the general library then handles it.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::{Added, Parts, byte_of, char_of};

/// The parts of a tokenizer of this form; `None` for any other.
pub(crate) fn recognize(file: &Value) -> Option<Parts> {
    let plain = file["normalizer"].is_null()
        && is_gpt2_pre_tokenizer(&file["pre_tokenizer"])
        && file["decoder"]["type"] == "ByteLevel";
    let model = file["model"].as_object().filter(|model| plain && is_plain_bpe(model))?;
    let vocab = vocab(model)?;
    let byte_ids = byte_ids(&vocab)?;
    let added = added(file["added_tokens"].as_array()?, &vocab)?;
    Some(Parts {
        tokens: tokens(&vocab)?,
        byte_ids,
        merges: merges(model.get("merges")?.as_array()?, &vocab)?,
        ignore_merges: model.get("ignore_merges").is_some_and(|flag| flag == true),
        frame: frame(&file["post_processor"])?,
        added,
    })
}

fn is_gpt2_pre_tokenizer(value: &Value) -> bool {
    value["type"] == "ByteLevel" && value["add_prefix_space"] == false && (value["use_regex"] != false)
}

fn is_plain_bpe(model: &Map<String, Value>) -> bool {
    let absent = |name: &str| model.get(name).is_none_or(|value| value.is_null() || value == "");
    let off = |name: &str| model.get(name).is_none_or(|value| value == false || value.is_null());
    model.get("type").is_some_and(|kind| kind == "BPE")
        && model.get("dropout").is_none_or(|dropout| dropout.is_null() || dropout == 0.0)
        && absent("continuing_subword_prefix")
        && absent("end_of_word_suffix")
        && off("byte_fallback")
}

fn vocab(model: &Map<String, Value>) -> Option<HashMap<&str, u32>> {
    let entries = model.get("vocab")?.as_object()?;
    entries.iter().map(|(token, id)| Some((token.as_str(), u32::try_from(id.as_u64()?).ok()?))).collect()
}

fn byte_ids(vocab: &HashMap<&str, u32>) -> Option<[u32; 256]> {
    let mut ids = [0; 256];
    let mut buffer = [0; 4];
    for byte in 0..=255_u8 {
        ids[usize::from(byte)] = *vocab.get(&*char_of(byte).encode_utf8(&mut buffer))?;
    }
    Some(ids)
}

/// The bytes of every token, by ID. Tokens that are not byte strings, or IDs far beyond the vocabulary's size, are
/// rejected.
fn tokens(vocab: &HashMap<&str, u32>) -> Option<Vec<Option<Vec<u8>>>> {
    let highest = *vocab.values().max()? as usize;
    if highest > vocab.len() * 4 {
        return None;
    }
    let mut tokens = vec![None; highest + 1];
    for (token, &id) in vocab {
        let bytes = token.chars().map(byte_of).collect::<Option<Vec<u8>>>()?;
        if tokens[id as usize].replace(bytes).is_some() {
            return None;
        }
    }
    Some(tokens)
}

fn merges(entries: &[Value], vocab: &HashMap<&str, u32>) -> Option<Vec<(u32, u32, u32)>> {
    let mut joined = String::new();
    entries
        .iter()
        .map(|entry| {
            let (left, right) = match entry {
                Value::String(both) => both.split_once(' ')?,
                Value::Array(pair) if pair.len() == 2 => (pair[0].as_str()?, pair[1].as_str()?),
                _ => return None,
            };
            joined.clear();
            joined.push_str(left);
            joined.push_str(right);
            Some((*vocab.get(left)?, *vocab.get(right)?, *vocab.get(joined.as_str())?))
        })
        .collect()
}

/// The added tokens, if they are matched by their text only and have the IDs that the library would assign.
fn added(entries: &[Value], vocab: &HashMap<&str, u32>) -> Option<Vec<Added>> {
    let mut next = u32::try_from(vocab.len()).ok()?;
    let mut tokens: Vec<Added> = Vec::with_capacity(entries.len());
    for entry in entries {
        let content = entry["content"].as_str().filter(|content| !content.is_empty())?;
        let id = u32::try_from(entry["id"].as_u64()?).ok()?;
        let expected = vocab.get(content).copied().unwrap_or(next);
        let plain = ["single_word", "lstrip", "rstrip"].iter().all(|option| entry[option] == false);
        if !plain || id != expected || tokens.iter().any(|token| token.content == content) {
            return None;
        }
        next = next.max(id + 1);
        let (special, normalized) = (entry["special"].as_bool()?, entry["normalized"].as_bool()?);
        tokens.push(Added { id, content: content.to_owned(), special, normalized });
    }
    Some(tokens)
}

/// The IDs that the post-processor adds before and after a text.
fn frame(processor: &Value) -> Option<(Vec<u32>, Vec<u32>)> {
    match processor["type"].as_str() {
        None if processor.is_null() => Some((Vec::new(), Vec::new())),
        Some("ByteLevel") => Some((Vec::new(), Vec::new())),
        Some("TemplateProcessing") => template_frame(processor),
        Some("Sequence") => {
            let mut frames = processor["processors"].as_array()?.iter().map(frame).collect::<Option<Vec<_>>>()?;
            frames.retain(|(before, after)| !before.is_empty() || !after.is_empty());
            if frames.len() > 1 { None } else { Some(frames.pop().unwrap_or_default()) }
        }
        _ => None,
    }
}

fn template_frame(processor: &Value) -> Option<(Vec<u32>, Vec<u32>)> {
    let mut frame = (Vec::new(), Vec::new());
    let mut sequences = 0;
    for part in processor["single"].as_array()? {
        if let Some(name) = part["SpecialToken"]["id"].as_str() {
            let ids = processor["special_tokens"][name]["ids"].as_array()?;
            let side = if sequences == 0 { &mut frame.0 } else { &mut frame.1 };
            for id in ids {
                side.push(u32::try_from(id.as_u64()?).ok()?);
            }
        } else if part["Sequence"]["id"] == "A" {
            sequences += 1;
        } else {
            return None;
        }
    }
    (sequences == 1).then_some(frame)
}
