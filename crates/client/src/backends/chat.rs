//! `/v1/chat/completions`: the body, and the messages that other bodies use too.

use tacho_core::Request;
use tacho_core::dict;
use tacho_core::json::{Dict, Value};

use super::PayloadSpec;
use super::completions::include_usage;

/// Position of media in a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MediaPlace {
    BeforeText,
    AfterText,
}

/// The body, before the fields that all backends share.
pub(super) fn body(payload: &PayloadSpec, request: &Request) -> Result<Dict, &'static str> {
    Ok(dict! {
        "model": payload.model_for(request),
        "messages": match &request.chat_messages {
            Some(messages) => messages.clone(),
            None => messages(request.content.to_json(), request.media.as_ref(), MediaPlace::AfterText)?,
        },
        "temperature"?: payload.chat_temperature,
        "max_completion_tokens": request.output_len,
        "stream": true,
        "stream_options": include_usage(),
    })
}

/// The messages of a prompt: the prompt's own, or one user message.
pub(super) fn messages(prompt: Value, media: Option<&Value>, place: MediaPlace) -> Result<Value, &'static str> {
    if is_list_of(&prompt, is_message) {
        return Ok(prompt);
    }
    let mut parts = match prompt {
        parts if is_list_of(&parts, is_part) => parts.as_list().unwrap_or_default().to_vec(),
        other => vec![text_part(other)],
    };
    let media = match media.filter(|media| media.truthy()) {
        None => &[][..],
        Some(Value::List(media)) => media,
        Some(media @ Value::Dict(_)) => std::slice::from_ref(media),
        Some(_) => return Err("its media is neither an object nor a list of objects"),
    };
    let at = if place == MediaPlace::BeforeText { 0 } else { parts.len() };
    parts.splice(at..at, media.iter().cloned());
    Ok(Value::List(vec![dict! { "role": "user", "content": parts }.into()]))
}

pub(super) fn text_part(text: impl Into<Value>) -> Value {
    dict! { "type": "text", "text": text }.into()
}

fn is_list_of(value: &Value, test: fn(&Value) -> bool) -> bool {
    value.as_list().is_some_and(|items| !items.is_empty() && items.iter().all(test))
}

fn is_message(value: &Value) -> bool {
    matches!(value.get("role"), Some(Value::Str(_)))
        && matches!(value.get("content"), Some(Value::Str(_) | Value::List(_)))
}

fn is_part(value: &Value) -> bool {
    matches!(value.get("type"), Some(Value::Str(_)))
}
