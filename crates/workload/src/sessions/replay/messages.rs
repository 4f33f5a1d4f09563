//! Chat messages, and the new messages of a request.

use tacho_core::json::{Dict, Value};
use tacho_core::{Content, Request};

pub(super) fn chat_message(role: &str, content: impl Into<Value>) -> Value {
    let mut dict = Dict::new();
    dict.set("role", role);
    dict.set("content", content);
    dict.into()
}

/// The messages of a request, or its text as a user message.
pub(super) fn own_messages(request: &Request) -> Vec<Value> {
    match &request.chat_messages {
        Some(Value::List(messages)) => messages.clone(),
        _ => vec![chat_message("user", content_text(request))],
    }
}

pub(super) fn content_text(request: &Request) -> &str {
    if let Content::Text(text) = &request.content { text } else { "" }
}
