//! SentencePiece models. As in the library, the pipeline around the vocabulary depends on the tokenizer's class.

use std::collections::HashMap;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use super::added::{AddedTokens, frame, frame_by_settings};
use super::proto::{Model, PieceKind};
use super::{Converted, file};
use crate::{sentencepiece::Bpe, settings::Settings};

/// The character that represents a space.
const SPACE: &str = "▁";

/// Converts a model for its tokenizer class.
pub(super) fn convert(model: &Model, settings: &Settings) -> Converted {
    let declared: Vec<(String, bool)> = model
        .pieces
        .iter()
        .filter(|piece| matches!(piece.kind, PieceKind::Control | PieceKind::UserDefined))
        .map(|piece| (piece.text.clone(), piece.kind == PieceKind::Control))
        .collect();
    let mut converted = match settings.class.as_deref() {
        Some("LlamaTokenizer" | "CodeLlamaTokenizer") => with_parts(llama_parts(settings), model, settings, &declared),
        Some("GemmaTokenizer") => with_parts(gemma_parts(settings), model, settings, &declared),
        Some("T5Tokenizer") => t5(model, settings, declared.clone()),
        Some("XLMRobertaTokenizer") => xlm_roberta(model, settings, &declared),
        _ => generic(model, settings, &declared),
    };
    if !settings.named.iter().any(|(attribute, _)| attribute.is_empty()) {
        converted.named.extend(declared.into_iter().map(|(text, _)| (String::new(), text)));
    }
    converted
}

/// The encoder of Mistral's library; `None` for a unigram model.
pub(super) fn bpe_encoder(model: &Model) -> Option<Bpe> {
    let pieces = || model.pieces.iter().zip(0..);
    let of_kind = |kind| pieces().filter(move |(piece, _)| piece.kind == kind);
    let scored = |kind| of_kind(kind).map(|(piece, id)| (piece.text.clone(), (id, piece.score))).collect();
    let bytes: Vec<u32> = (0..256)
        .filter_map(|byte| {
            let text = format!("<0x{byte:02X}>");
            of_kind(PieceKind::Byte).find(|(piece, _)| piece.text == text).map(|(_, id)| id)
        })
        .collect();
    (!model.unigram).then(|| Bpe {
        pieces: scored(PieceKind::Normal),
        user_defined: of_kind(PieceKind::UserDefined).map(|(piece, id)| (piece.text.clone(), id)).collect(),
        unused: scored(PieceKind::Unused),
        bytes: Some(bytes).filter(|bytes| model.byte_fallback && bytes.len() == 256),
        unk: u32::try_from(model.unk.1).unwrap_or(0),
        bos: u32::try_from(model.bos.1).ok(),
        whitespace: model.whitespace,
    })
}

/// Converts as Mistral's library does: control tokens are never matched in text, and all of them are special.
pub(super) fn mistral(model: &Model) -> Converted {
    let vocab = ids(model);
    let bos = (model.bos.0.as_str(), u64::try_from(model.bos.1).unwrap_or(1));
    let mut added = AddedTokens::new(&vocab);
    for piece in model.pieces.iter().filter(|piece| piece.kind == PieceKind::UserDefined) {
        added.add(&json!({"content": piece.text}));
    }
    let normalizer = json!({"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": SPACE}, spaces()]});
    let parts = [normalizer, Value::Null, frame(Some(bos), None), decoder(true)];
    let json = file(parts, added, bpe(&vocab, model, true, Some(&model.unk.0)));
    let special = model.pieces.iter().filter(|piece| piece.kind == PieceKind::Control).map(|piece| &piece.text);
    let named = [("bos_token", &model.bos.0), ("eos_token", &model.eos.0)];
    let named = named.map(|(attribute, text)| (attribute.to_owned(), text.clone())).into_iter();
    let named = named.chain(special.map(|text| (String::new(), text.clone()))).collect();
    Converted { json, named, raw_pieces: true, encoder: bpe_encoder(model) }
}

/// The vocabulary of a model in a class's pipeline.
fn with_parts(parts: Vec<Part>, model: &Model, settings: &Settings, declared: &[(String, bool)]) -> Converted {
    let vocab = ids(model);
    let added = AddedTokens::new(&vocab).declared(settings, declared, &[]);
    let post = frame_by_settings(settings, &[], |text| added.id(text));
    let model = bpe(&vocab, model, true, None);
    Converted::of(file([Value::Null, Value::Null, post, Value::Null], added, model)).with(parts)
}

/// A path in `tokenizer.json` and its value.
pub(super) type Part = (&'static str, Value);

pub(super) fn llama_parts(settings: &Settings) -> Vec<Part> {
    let flag = |name: &str| settings.config.get(name);
    let prefix = flag("add_prefix_space").is_none_or(|value| value != false);
    let legacy = flag("legacy").is_some_and(|value| value == true);
    let scheme = match (prefix, legacy) {
        (false, _) => "never",
        (true, true) => "always",
        (true, false) => "first",
    };
    let around = [
        ("/normalizer", Value::Null),
        ("/pre_tokenizer", metaspace(scheme, false)),
        ("/decoder", decoder(prefix)),
        ("/model/unk_token", Value::Null),
    ];
    around.into_iter().chain(fallback()).collect()
}

pub(super) fn gemma_parts(settings: &Settings) -> Vec<Part> {
    let pieces =
        json!({"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": false});
    let around = [
        ("/normalizer", spaces()),
        ("/pre_tokenizer", pieces),
        ("/decoder", decoder(false)),
        ("/model/unk_token", json!(settings.token("unk_token"))),
    ];
    around.into_iter().chain(fallback()).collect()
}

fn fallback() -> [Part; 3] {
    [("/model/fuse_unk", json!(true)), ("/model/byte_fallback", json!(true)), ("/model/ignore_merges", json!(false))]
}

/// T5: the sentinels follow the pieces, in reverse order.
fn t5(model: &Model, settings: &Settings, mut declared: Vec<(String, bool)>) -> Converted {
    let count = settings.config.get("extra_ids").and_then(Value::as_u64).unwrap_or(100);
    let sentinel = |number: u64| format!("<extra_id_{number}>");
    let mut pieces = scored(model);
    pieces.extend((0..count).rev().map(|number| (sentinel(number), 0.0)));
    let vocab = index(pieces.iter().map(|(text, _)| text));
    declared.extend((0..count).map(|number| (sentinel(number), true)));
    let added = AddedTokens::new(&vocab).declared(settings, &declared, &[]);
    let eos = added.id("</s>").map(|id| ("</s>", id));
    let parts = [charsmap(model), words("always"), frame(None, eos), metaspace("always", true)];
    let json = file(parts, added, unigram(&pieces, 2, false));
    let sentinels = (0..count).map(|number| (String::new(), sentinel(number)));
    Converted { json, named: sentinels.collect(), raw_pieces: false, encoder: None }
}

/// XLM-RoBERTa: the first pieces are in another order than in the model, and a mask comes last.
fn xlm_roberta(model: &Model, settings: &Settings, declared: &[(String, bool)]) -> Converted {
    let name = |attribute, default: &str| settings.token(attribute).unwrap_or(default).to_owned();
    let first = [("bos_token", "<s>"), ("pad_token", "<pad>"), ("eos_token", "</s>"), ("unk_token", "<unk>")];
    let mut pieces: Vec<(String, f64)> = first.map(|(attribute, default)| (name(attribute, default), 0.0)).into();
    pieces.extend(scored(model).into_iter().skip(3));
    pieces.push((name("mask_token", "<mask>"), 0.0));
    let vocab = index(pieces.iter().map(|(text, _)| text));
    let added = AddedTokens::new(&vocab).declared(settings, declared, &[]);
    let (bos, eos) = (name("bos_token", "<s>"), name("eos_token", "</s>"));
    let prefix = settings.config.get("add_prefix_space").is_none_or(|value| value != false);
    let scheme = if prefix { "always" } else { "never" };
    let post = frame(added.id(&bos).map(|id| (bos.as_str(), id)), added.id(&eos).map(|id| (eos.as_str(), id)));
    let parts = [charsmap(model), words(scheme), post, metaspace(scheme, true)];
    Converted::of(file(parts, added, unigram(&pieces, 3, false)))
}

/// Without a specific class: as the model specifies.
fn generic(model: &Model, settings: &Settings, declared: &[(String, bool)]) -> Converted {
    let specials = [("bos_token", &model.bos), ("eos_token", &model.eos), ("unk_token", &model.unk)];
    let specials =
        specials.into_iter().filter(|(attribute, (_, id))| *id >= 0 && !settings.config.contains_key(*attribute));
    let named: Vec<(String, String)> =
        specials.map(|(attribute, (text, _))| (attribute.to_owned(), text.clone())).collect();
    let vocab = ids(model);
    let added = AddedTokens::new(&vocab).declared(settings, declared, &named);
    let mut normalizers = vec![spaces()];
    if !model.charsmap.is_empty() {
        normalizers.insert(0, charsmap(model));
    }
    let mut decoders = vec![json!({"type": "Replace", "pattern": {"String": SPACE}, "content": " "})];
    if model.byte_fallback {
        decoders.extend([json!({"type": "ByteFallback"}), json!({"type": "Fuse"})]);
    }
    let unk = u64::try_from(model.unk.1).unwrap_or(0);
    let parts = [
        json!({"type": "Sequence", "normalizers": normalizers}),
        Value::Null,
        frame_by_settings(settings, &named, |text| added.id(text)),
        json!({"type": "Sequence", "decoders": decoders}),
    ];
    let model = match model.unigram {
        true => unigram(&scored(model), unk, model.byte_fallback),
        false => bpe(&vocab, model, model.byte_fallback, Some(&model.unk.0)),
    };
    let json = file(parts, added, model);
    Converted { json, named, raw_pieces: false, encoder: None }
}

fn scored(model: &Model) -> Vec<(String, f64)> {
    model.pieces.iter().map(|piece| (piece.text.clone(), f64::from(piece.score))).collect()
}

fn ids(model: &Model) -> HashMap<String, u32> {
    index(model.pieces.iter().map(|piece| &piece.text))
}

fn index<'p>(pieces: impl Iterator<Item = &'p String>) -> HashMap<String, u32> {
    pieces.enumerate().map(|(id, text)| (text.clone(), id as u32)).collect()
}

fn unigram(pieces: &[(String, f64)], unk: u64, byte_fallback: bool) -> Value {
    json!({"type": "Unigram", "unk_id": unk, "vocab": pieces, "byte_fallback": byte_fallback})
}

/// Every split of a piece into two pieces is a merge: earlier pieces first, then shorter left parts.
fn bpe(vocab: &HashMap<String, u32>, model: &Model, byte_fallback: bool, unk: Option<&str>) -> Value {
    let mut merges = Vec::with_capacity(vocab.len());
    // A duplicate piece has the later ID, and so its merges.
    let last = |id: usize, text: &str| vocab.get(text) == Some(&(id as u32));
    for (_, piece) in model.pieces.iter().enumerate().filter(|(id, piece)| last(*id, &piece.text)) {
        for (at, _) in piece.text.char_indices().skip(1) {
            let (left, right) = piece.text.split_at(at);
            if vocab.contains_key(left) && vocab.contains_key(right) {
                merges.push(json!([left, right]));
            }
        }
    }
    json!({
        "type": "BPE",
        "dropout": null,
        "unk_token": unk,
        "continuing_subword_prefix": null,
        "end_of_word_suffix": null,
        "fuse_unk": true,
        "byte_fallback": byte_fallback,
        "ignore_merges": false,
        "vocab": vocab,
        "merges": merges,
    })
}

fn spaces() -> Value {
    json!({"type": "Replace", "pattern": {"String": " "}, "content": SPACE})
}

fn charsmap(model: &Model) -> Value {
    if model.charsmap.is_empty() {
        return Value::Null;
    }
    json!({"type": "Precompiled", "precompiled_charsmap": STANDARD.encode(&model.charsmap)})
}

fn metaspace(scheme: &str, split: bool) -> Value {
    json!({"type": "Metaspace", "replacement": SPACE, "prepend_scheme": scheme, "split": split})
}

fn words(scheme: &str) -> Value {
    json!({"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, metaspace(scheme, true)]})
}

fn decoder(strips: bool) -> Value {
    let mut decoders = vec![
        json!({"type": "Replace", "pattern": {"String": SPACE}, "content": " "}),
        json!({"type": "ByteFallback"}),
        json!({"type": "Fuse"}),
    ];
    if strips {
        decoders.push(json!({"type": "Strip", "content": " ", "start": 1, "stop": 0}));
    }
    json!({"type": "Sequence", "decoders": decoders})
}
