//! `/v1/chat/completions`: the body, and the messages that other bodies use too.

use tacho_core::json::{Dict, Value};
use tacho_core::{Request, dict};

use super::{PayloadSpec, completions::include_usage};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MediaPlace {
    BeforeText,
    AfterText,
}

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
pub(super) fn messages(prompt: Value, media: Option<&Value>, position: MediaPlace) -> Result<Value, &'static str> {
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
    let at = if position == MediaPlace::BeforeText { 0 } else { parts.len() };
    parts.splice(at..at, media.iter().cloned());
    Ok(Value::List(vec![dict! { "role": "user", "content": parts }.into()]))
}

pub(super) fn text_part(text: impl Into<Value>) -> Value {
    dict! { "type": "text", "text": text }.into()
}

pub(super) struct Message<'m> {
    pub(super) role: &'m str,
    pub(super) content: &'m Value,
    /// The call that it is the result of.
    pub(super) call_id: &'m Value,
    pub(super) calls: Vec<Call<'m>>,
}

/// A tool call; missing members are null.
pub(super) struct Call<'m> {
    pub(super) id: &'m Value,
    pub(super) name: &'m Value,
    pub(super) arguments: &'m Value,
}

impl<'m> Message<'m> {
    pub(super) fn all(messages: &'m Value) -> Result<Vec<Self>, &'static str> {
        messages.as_list().ok_or("its messages are no list")?.iter().map(Message::of).collect()
    }

    fn of(message: &'m Value) -> Result<Self, &'static str> {
        let member = |of: &'m Value, name: &str| of.get(name).unwrap_or(&Value::Null);
        let call = |call: &'m Value| {
            let function = member(call, "function");
            Call { id: member(call, "id"), name: member(function, "name"), arguments: member(function, "arguments") }
        };
        Ok(Message {
            role: member(message, "role").as_str().ok_or("a message has no role")?,
            content: member(message, "content"),
            call_id: member(message, "tool_call_id"),
            calls: member(message, "tool_calls").as_list().unwrap_or_default().iter().map(call).collect(),
        })
    }
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
