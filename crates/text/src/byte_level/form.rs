//! Recognizes a `tokenizer.json` of exactly GPT-2's form and splits it into its parts. Anything unusual is rejected:
//! the general library then handles it.

use std::borrow::{Borrow, Cow};
use std::{collections::HashMap, fmt};

use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::{Added, Parts, byte_of, char_of};
use crate::{convert, settings::Settings};

/// A `tokenizer.json` without a `Value` for each of its tokens and merges, which are most of the file.
#[derive(Deserialize)]
struct File<'a> {
    #[serde(borrow)]
    model: Model<'a>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

#[derive(Deserialize)]
struct Model<'a> {
    #[serde(borrow)]
    vocab: HashMap<Text<'a>, u32>,
    #[serde(borrow)]
    merges: Vec<Merge<'a>>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

#[derive(Deserialize, PartialEq, Eq, Hash)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl Borrow<str> for Text<'_> {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// The two halves of a merge, written as one text with a space or as a list.
struct Merge<'a>(Cow<'a, str>, Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Merge<'a> {
    fn deserialize<D: Deserializer<'de>>(file: D) -> Result<Self, D::Error> {
        file.deserialize_any(MergeVisitor)
    }
}

struct MergeVisitor;

impl<'de> Visitor<'de> for MergeVisitor {
    type Value = Merge<'de>;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("a merge")
    }

    fn visit_borrowed_str<E: Error>(self, both: &'de str) -> Result<Self::Value, E> {
        let (left, right) = both.split_once(' ').ok_or_else(|| E::custom("no space"))?;
        Ok(Merge(left.into(), right.into()))
    }

    fn visit_str<E: Error>(self, both: &str) -> Result<Self::Value, E> {
        let (left, right) = both.split_once(' ').ok_or_else(|| E::custom("no space"))?;
        Ok(Merge(left.to_owned().into(), right.to_owned().into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut half = || list.next_element::<Text<'_>>()?.ok_or_else(|| A::Error::invalid_length(0, &"two halves"));
        Ok(Merge(half()?.0, half()?.0))
    }
}

/// The parts of a file of this form; `None` for any other, and where the tokenizer's class changes the file.
pub(crate) fn read(bytes: &[u8], settings: &Settings) -> Option<Parts> {
    let File { model, mut rest } = serde_json::from_slice(bytes).ok()?;
    rest.insert("model".to_owned(), Value::Object(model.rest));
    let mut file = Value::Object(rest);
    // Without a post-processor, the class looks tokens up in the vocabulary.
    if file["post_processor"].is_null() || convert::rebuild(&mut file, settings) {
        return None;
    }
    parts(&file, &model.vocab, model.merges.iter().map(|Merge(left, right)| Some((&**left, &**right))))
}

/// The parts of a tokenizer of this form; `None` for any other.
pub(crate) fn recognize(file: &Value) -> Option<Parts> {
    let model = file["model"].as_object()?;
    let vocab = model.get("vocab")?.as_object()?.iter();
    let vocab: Option<_> =
        vocab.map(|(token, id)| Some((Text(token.into()), u32::try_from(id.as_u64()?).ok()?))).collect();
    parts(file, &vocab?, model.get("merges")?.as_array()?.iter().map(pair))
}

fn pair(entry: &Value) -> Option<(&str, &str)> {
    match entry {
        Value::String(both) => both.split_once(' '),
        Value::Array(pair) if pair.len() == 2 => pair[0].as_str().zip(pair[1].as_str()),
        _ => None,
    }
}

/// The parts of a file with this vocabulary and these merges.
fn parts<'a>(
    file: &Value,
    vocab: &HashMap<Text<'_>, u32>,
    merges: impl Iterator<Item = Option<(&'a str, &'a str)>>,
) -> Option<Parts> {
    let plain = file["normalizer"].is_null()
        && is_gpt2_pre_tokenizer(&file["pre_tokenizer"])
        && file["decoder"]["type"] == "ByteLevel";
    let model = file["model"].as_object().filter(|model| plain && is_plain_bpe(model))?;
    Some(Parts {
        tokens: tokens(vocab)?,
        byte_ids: byte_ids(vocab)?,
        merges: self::merges(merges, vocab)?,
        ignore_merges: model.get("ignore_merges").is_some_and(|flag| flag == true),
        frame: frame(&file["post_processor"])?,
        added: added(file["added_tokens"].as_array()?, vocab)?,
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

fn byte_ids(vocab: &HashMap<Text<'_>, u32>) -> Option<[u32; 256]> {
    let mut ids = [0; 256];
    let mut buffer = [0; 4];
    for byte in 0..=255_u8 {
        ids[usize::from(byte)] = *vocab.get(&*char_of(byte).encode_utf8(&mut buffer))?;
    }
    Some(ids)
}

/// The bytes of every token, by ID. Tokens that are not byte strings, or IDs far beyond the vocabulary's size, are
/// rejected.
fn tokens(vocab: &HashMap<Text<'_>, u32>) -> Option<Vec<Option<Vec<u8>>>> {
    let highest = *vocab.values().max()? as usize;
    if highest > vocab.len() * 4 {
        return None;
    }
    let mut tokens = vec![None; highest + 1];
    for (token, &id) in vocab {
        let bytes = token.0.chars().map(byte_of).collect::<Option<Vec<u8>>>()?;
        if tokens[id as usize].replace(bytes).is_some() {
            return None;
        }
    }
    Some(tokens)
}

fn merges<'a>(
    pairs: impl Iterator<Item = Option<(&'a str, &'a str)>>,
    vocab: &HashMap<Text<'_>, u32>,
) -> Option<Vec<(u32, u32, u32)>> {
    let mut joined = String::new();
    pairs
        .map(|pair| {
            let (left, right) = pair?;
            joined.clear();
            joined.push_str(left);
            joined.push_str(right);
            Some((*vocab.get(left)?, *vocab.get(right)?, *vocab.get(joined.as_str())?))
        })
        .collect()
}

/// The added tokens, if they are matched by their text only and have the IDs that the library would assign.
fn added(entries: &[Value], vocab: &HashMap<Text<'_>, u32>) -> Option<Vec<Added>> {
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

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tacho_testkit::golden_path;

    use super::*;

    #[test]
    fn a_file_is_read_as_its_value_is_recognized() {
        let bytes = std::fs::read(golden_path("tokenizers/gpt2/tokenizer.json")).unwrap();
        let file: Value = serde_json::from_slice(&bytes).unwrap();
        let read_of = |file: &Value| read(file.to_string().as_bytes(), &Settings::default());
        let expected = recognize(&file).unwrap();
        let mut joined = file.clone();
        for merge in joined["model"]["merges"].as_array_mut().unwrap() {
            let (left, right) = pair(merge).unwrap();
            *merge = format!("{left} {right}").into();
        }
        for written in [&file, &joined] {
            let found = read_of(written).unwrap();
            assert!(found.tokens == expected.tokens && found.merges == expected.merges);
            assert_eq!((found.byte_ids, found.frame), (expected.byte_ids, expected.frame.clone()));
            assert_eq!(found.added.len(), expected.added.len());
        }
        for (place, other) in [
            ("/post_processor", Value::Null),
            ("/model/merges", json!([["a", "b", "c"]])),
            ("/model/merges", json!(["ab"])),
            ("/model/vocab", json!([["a", 0.5]])),
        ] {
            let mut unlike = file.clone();
            *unlike.pointer_mut(place).unwrap() = other;
            assert!(read_of(&unlike).is_none(), "{place}");
        }
    }
}
