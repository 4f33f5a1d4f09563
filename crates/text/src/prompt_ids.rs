//! The token IDs of a request's prompt.

use std::sync::Arc;

use tacho_core::{Content, Request, json::Value};

use crate::Tokenizer;

/// The token IDs of a request's prompt; for messages, of their texts.
pub fn prompt_ids(request: &Request, tokenizer: &Tokenizer) -> Arc<[u32]> {
    if let Some(messages) = &request.chat_messages {
        return tokenizer.encode(&texts(messages), true).into();
    }
    match &request.content {
        Content::Ids(ids) => ids.clone().into(),
        Content::Text(text) => tokenizer.encode(text, true).into(),
        other => tokenizer.encode(&texts(&other.to_json()), true).into(),
    }
}

/// All texts inside chat messages.
fn texts(value: &Value) -> String {
    match value {
        Value::Str(text) => text.clone(),
        Value::List(items) => items.iter().map(texts).collect::<Vec<_>>().join(" "),
        Value::Dict(dict) => match (dict.get("content"), dict.get("text")) {
            (Some(content), _) => texts(content),
            (None, Some(text)) => texts(text),
            (None, None) => String::new(),
        },
        _ => String::new(),
    }
}
