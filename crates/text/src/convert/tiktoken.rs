//! tiktoken files: one base64-encoded byte string and its rank per line.

use std::{collections::HashMap, path::Path};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use super::added::{AddedTokens, declared_ids, frame_by_settings, special};
use super::{Converted, byte_decoder, file};
use crate::{Error, byte_level::char_of, settings::Settings};

/// The default word-splitting pattern.
const PATTERN: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
/// Pattern of the first Qwen models: digits are separate.
const QWEN: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
/// Kimi's pattern: Chinese characters are separate.
const KIMI: &str = concat!(
    r"[\p{Han}]+",
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);
/// IDs that Kimi reserves after its ranks for special tokens.
const KIMI_RESERVED: u64 = 256;

pub(super) fn convert(bytes: &[u8], path: &Path, settings: &Settings) -> Result<Converted, Error> {
    let broken = || Error::NotVocabulary { path: path.to_path_buf(), kind: "a SentencePiece model or tiktoken ranks" };
    let ranks = ranks(bytes).ok_or_else(broken)?;
    let class = settings.class.as_deref();
    let (pattern, specials) = match class {
        Some("QWenTokenizer") => (QWEN, qwen_specials()),
        Some("TikTokenTokenizer") => (KIMI, reserved(&ranks, settings, KIMI_RESERVED)),
        _ => (PATTERN, reserved(&ranks, settings, 0)),
    };
    let vocab: HashMap<String, u32> = ranks.iter().map(|(token, rank)| (as_text(token), *rank)).collect();
    let mut added = AddedTokens::new(&vocab);
    for token in &specials {
        added.add(&special(token));
    }
    let added = added.declared(settings, &[], &[]);
    let has_flag = ["add_bos_token", "add_eos_token"].iter().any(|flag| settings.config.contains_key(*flag));
    let post = if has_flag { frame_by_settings(settings, &[], |text| added.id(text)) } else { Value::Null };
    Ok(Converted::of(file([Value::Null, cut(pattern), post, byte_decoder()], added, model(&ranks, &vocab))))
}

/// The tokens after the ranks: those with IDs in the settings and placeholder names for the gaps, at least `min` in
/// total.
fn reserved(ranks: &[(Vec<u8>, u32)], settings: &Settings, min: u64) -> Vec<String> {
    let declared = declared_ids(&settings.config);
    let base = ranks.len() as u64;
    let end = declared.iter().map(|(id, _)| id + 1).max().unwrap_or(0).max(base + min);
    let name = |id: u64| {
        let token =
            declared.iter().find(|(known, _)| *known == id).and_then(|(_, token)| crate::settings::token_text(token));
        token.map_or_else(|| format!("<|reserved_token_{id}|>"), str::to_owned)
    };
    if end <= base { Vec::new() } else { (base..end).map(name).collect() }
}

fn qwen_specials() -> Vec<String> {
    let first = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"].map(str::to_owned);
    first.into_iter().chain((0..205).map(|number| format!("<|extra_{number}|>"))).collect()
}

/// Parses the tokens in the order of the file.
fn ranks(bytes: &[u8]) -> Option<Vec<(Vec<u8>, u32)>> {
    let text = std::str::from_utf8(bytes).ok()?;
    let entry = |line: &str| {
        let (token, rank) = line.split_once(' ')?;
        Some((STANDARD.decode(token).ok()?, rank.trim().parse().ok()?))
    };
    let ranks: Vec<(Vec<u8>, u32)> =
        text.lines().filter(|line| !line.trim().is_empty()).map(entry).collect::<Option<_>>()?;
    (!ranks.is_empty()).then_some(ranks)
}

pub(super) fn as_text(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| char_of(*byte)).collect()
}

/// A pre-tokenizer that splits text by a pattern and writes bytes as characters.
pub(super) fn cut(pattern: &str) -> Value {
    json!({"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false},
        {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false},
    ]})
}

/// BPE in which every split of a token is a merge of the token's rank.
pub(super) fn model(ranks: &[(Vec<u8>, u32)], vocab: &HashMap<String, u32>) -> Value {
    let by_bytes: HashMap<&[u8], u32> = ranks.iter().map(|(token, rank)| (token.as_slice(), *rank)).collect();
    let mut merges: Vec<(u32, u32, u32, String, String)> = Vec::with_capacity(ranks.len());
    for (token, rank) in ranks {
        for at in 1..token.len() {
            let (left, right) = token.split_at(at);
            if let (Some(&first), Some(&second)) = (by_bytes.get(left), by_bytes.get(right)) {
                merges.push((*rank, first, second, as_text(left), as_text(right)));
            }
        }
    }
    merges.sort_by_key(|merge| (merge.0, merge.1, merge.2));
    let merges: Vec<Value> = merges.into_iter().map(|(.., left, right)| json!([left, right])).collect();
    json!({
        "type": "BPE",
        "dropout": null,
        "unk_token": null,
        "continuing_subword_prefix": null,
        "end_of_word_suffix": null,
        "fuse_unk": false,
        "byte_fallback": false,
        "ignore_merges": true,
        "vocab": vocab,
        "merges": merges,
    })
}
