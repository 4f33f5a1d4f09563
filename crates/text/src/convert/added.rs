//! Tokens added to the vocabulary, and special tokens around a text.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use crate::settings::{Settings, token_text};

/// The tokens of a vocabulary, and those added to it so far.
pub(super) struct AddedTokens<'v> {
    vocab: &'v HashMap<String, u32>,
    tokens: Vec<Value>,
}

impl<'v> AddedTokens<'v> {
    pub(super) fn new(vocab: &'v HashMap<String, u32>) -> Self {
        AddedTokens { vocab, tokens: Vec::new() }
    }

    /// Adds all tokens that the settings declare, in the library's order: those with IDs, the named ones, the extra
    /// ones.
    pub(super) fn declared(mut self, settings: &Settings, own: &[(String, bool)], named: &[(String, String)]) -> Self {
        let is_own = |text: &str| own.iter().any(|(known, _)| known == text);
        for (_, token) in declared_ids(&settings.config) {
            self.add(&token);
        }
        let extra: Vec<&(String, String)> =
            settings.named.iter().filter(|(attribute, _)| attribute.is_empty()).collect();
        for (attribute, text) in settings.named.iter().chain(named).filter(|(attribute, _)| !attribute.is_empty()) {
            let written = settings.config.get(attribute).filter(|value| value.is_object() && !is_own(text));
            self.add(&written.map_or_else(|| special(text), as_special));
        }
        for (_, text) in &extra {
            self.add(&special(text));
        }
        if extra.is_empty() {
            for (text, control) in own {
                self.add(&token(text, *control));
            }
        }
        self
    }

    pub(super) fn add(&mut self, token: &Value) {
        let Some(text) = token_text(token).filter(|text| !text.is_empty()) else { return };
        if self.tokens.iter().any(|known| known["content"] == text) {
            return;
        }
        let size = self.vocab.len() as u64;
        let highest = self.tokens.iter().filter_map(|known| known["id"].as_u64()).max();
        let next = highest.filter(|highest| *highest >= size).map_or(size, |highest| highest + 1);
        let id = self.vocab.get(text).map_or(next, |id| u64::from(*id));
        let flag = |name: &str| token[name] == true;
        self.tokens.push(json!({
            "id": id,
            "content": text,
            "single_word": flag("single_word"),
            "lstrip": flag("lstrip"),
            "rstrip": flag("rstrip"),
            "normalized": flag("normalized"),
            "special": flag("special"),
        }));
    }

    pub(super) fn id(&self, text: &str) -> Option<u64> {
        let added = self.tokens.iter().find(|token| token["content"] == text).and_then(|token| token["id"].as_u64());
        added.or_else(|| self.vocab.get(text).map(|id| u64::from(*id)))
    }

    pub(super) fn into_json(mut self) -> Value {
        self.tokens.sort_by_key(|token| token["id"].as_u64());
        Value::Array(self.tokens)
    }
}

/// The tokens with IDs in the settings, by ID.
pub(super) fn declared_ids(config: &Map<String, Value>) -> Vec<(u64, Value)> {
    let entries = config.get("added_tokens_decoder").and_then(Value::as_object);
    let mut tokens: Vec<(u64, Value)> =
        entries.into_iter().flatten().filter_map(|(id, token)| Some((id.parse().ok()?, token.clone()))).collect();
    tokens.sort_by_key(|(id, _)| *id);
    tokens
}

pub(super) fn special(text: &str) -> Value {
    token(text, true)
}

fn token(text: &str, special: bool) -> Value {
    json!({"content": text, "special": special, "normalized": false})
}

fn as_special(value: &Value) -> Value {
    let mut token = value.clone();
    token["special"] = Value::Bool(true);
    token
}

/// A post-processor that adds tokens before and after a text.
pub(super) fn frame(before: Option<(&str, u64)>, after: Option<(&str, u64)>) -> Value {
    let special =
        |token: Option<(&str, u64)>| token.map(|(text, _)| json!({"SpecialToken": {"id": text, "type_id": 0}}));
    let sequence = |name: &str| Some(json!({"Sequence": {"id": name, "type_id": 0}}));
    let single: Vec<Value> = [special(before), sequence("A"), special(after)].into_iter().flatten().collect();
    let second: Vec<Value> = [special(before), sequence("B"), special(after)].into_iter().flatten().collect();
    let tokens = [before, after].into_iter().flatten();
    let tokens: Map<String, Value> =
        tokens.map(|(text, id)| (text.to_owned(), json!({"id": text, "ids": [id], "tokens": [text]}))).collect();
    let pair = [&single[..], &second].concat();
    json!({
        "type": "TemplateProcessing",
        "single": single,
        "pair": pair,
        "special_tokens": tokens,
    })
}

/// The post-processor for the settings.
pub(super) fn frame_by_settings(
    settings: &Settings,
    named: &[(String, String)],
    id: impl Fn(&str) -> Option<u64>,
) -> Value {
    let token = |flag: &str, attribute: &str| {
        let wanted = settings.config.get(flag).is_some_and(|value| value == true);
        let named = settings.named.iter().chain(named).find(|(known, _)| known == attribute);
        let (_, text) = named.filter(|_| wanted)?;
        Some((text.as_str(), id(text)?))
    };
    frame(token("add_bos_token", "bos_token"), token("add_eos_token", "eos_token"))
}
