//! Mistral's `tekken.json`: ranked byte strings after a block of special tokens.

use std::{collections::HashMap, path::Path};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::Value;

use super::added::{AddedTokens, frame, special};
use super::tiktoken::{as_text, cut, model};
use super::{Converted, read};
use crate::Error;

/// Whether special tokens are matched in text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Specials {
    /// Yes, as in Hugging Face's library; no special tokens are added.
    InText,
    /// No, as in Mistral's library; a text begins with BOS.
    NotInText,
}

/// The special tokens for files that do not list them.
const FIRST: [&str; 20] = [
    "<unk>",
    "<s>",
    "</s>",
    "[INST]",
    "[/INST]",
    "[AVAILABLE_TOOLS]",
    "[/AVAILABLE_TOOLS]",
    "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]",
    "[TOOL_CALLS]",
    "[IMG]",
    "<pad>",
    "[IMG_BREAK]",
    "[IMG_END]",
    "[PREFIX]",
    "[MIDDLE]",
    "[SUFFIX]",
    "[SYSTEM_PROMPT]",
    "[/SYSTEM_PROMPT]",
    "[TOOL_CONTENT]",
];

pub(super) fn convert(path: &Path, specials: Specials) -> Result<Converted, Error> {
    let file: Value =
        serde_json::from_slice(&read(path)?).map_err(|source| Error::NotJson { path: path.to_path_buf(), source })?;
    parts(&file, specials).ok_or_else(|| Error::NotVocabulary { path: path.to_path_buf(), kind: "a tekken vocabulary" })
}

fn parts(file: &Value, specials: Specials) -> Option<Converted> {
    let config = &file["config"];
    let number = |name: &str| config[name].as_u64().and_then(|number| usize::try_from(number).ok());
    let (size, reserved) = (number("default_vocab_size")?, number("default_num_special_tokens")?);
    let tokens = special_tokens(&file["special_tokens"], reserved);
    let entries = file["vocab"].as_array()?.iter().take(size.checked_sub(reserved)?);
    let ranks = entries.map(|entry| {
        let rank = u32::try_from(entry["rank"].as_u64()?).ok()?;
        Some((STANDARD.decode(entry["token_bytes"].as_str()?).ok()?, rank + reserved as u32))
    });
    let ranks: Vec<(Vec<u8>, u32)> = ranks.collect::<Option<_>>()?;
    let mut vocab: HashMap<String, u32> = ranks.iter().map(|(token, rank)| (as_text(token), *rank)).collect();
    vocab.extend(tokens.iter().enumerate().map(|(id, text)| (text.clone(), id as u32)));
    let mut added = AddedTokens::new(&vocab);
    if specials == Specials::InText {
        tokens.iter().for_each(|token| added.add(&special(token)));
    }
    let bos = tokens.iter().position(|text| text == "<s>").map(|id| ("<s>", id as u64));
    let post = if specials == Specials::NotInText { frame(bos, None) } else { Value::Null };
    let parts = [Value::Null, cut(config["pattern"].as_str()?), post, super::byte_decoder()];
    let json = super::file(parts, added, model(&ranks, &vocab));
    let named = if specials == Specials::NotInText { named(&tokens) } else { Vec::new() };
    Some(Converted { json, named, raw_pieces: false, encoder: None })
}

/// The names of all IDs in the block.
fn special_tokens(listed: &Value, reserved: usize) -> Vec<String> {
    let mut tokens: Vec<String> = (0..reserved).map(|id| format!("<SPECIAL_{id}>")).collect();
    let mut name = |id: usize, text: &str| {
        if let Some(token) = tokens.get_mut(id) {
            text.clone_into(token);
        }
    };
    match listed.as_array() {
        Some(listed) => {
            for (at, token) in listed.iter().enumerate() {
                let rank = token["rank"].as_u64().and_then(|rank| usize::try_from(rank).ok());
                name(rank.unwrap_or(at), token["token_str"].as_str().unwrap_or_default());
            }
        }
        None => FIRST.iter().enumerate().for_each(|(id, text)| name(id, text)),
    }
    tokens
}

fn named(tokens: &[String]) -> Vec<(String, String)> {
    let attribute = |text: &str| match text {
        "<s>" => "bos_token",
        "</s>" => "eos_token",
        "<unk>" => "unk_token",
        "<pad>" => "pad_token",
        _ => "",
    };
    tokens.iter().map(|text| (attribute(text).to_owned(), text.clone())).collect()
}
