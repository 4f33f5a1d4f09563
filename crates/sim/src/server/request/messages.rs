//! Validation of a conversation's messages.

use tacho_core::json::Value;

use super::fields::Fields;
use super::members::{wrong_dict, wrong_list, wrong_text};
use super::problem::Invalid;

/// Types of content parts.
const PARTS: [&str; 17] = [
    "text",
    "input_text",
    "output_text",
    "image_url",
    "input_image",
    "image_pil",
    "image_embeds",
    "audio_url",
    "input_audio",
    "audio_embeds",
    "video_url",
    "refusal",
    "thinking",
    "file",
    "tool_reference",
    "prompt_embeds",
    "video",
];

/// Findings about `messages`.
pub(crate) fn findings(fields: &Fields) -> Vec<Invalid> {
    let mut found = Vec::new();
    match fields.dict().get("messages") {
        None => found.push(fields.missing("messages")),
        Some(Value::List(messages)) => {
            messages.iter().enumerate().for_each(|(at, message)| look(&format!("messages.{at}"), message, &mut found));
        }
        Some(other) => found.extend(wrong_list("messages", other)),
    }
    found
}

fn look(loc: &str, message: &Value, found: &mut Vec<Invalid>) {
    if let Some(wrong) = wrong_dict(loc, message) {
        return found.push(wrong);
    }
    match message.get("role") {
        None => found.push(Invalid::member("missing", &format!("{loc}.role"), "Field required", message)),
        Some(role) => found.extend(wrong_text(&format!("{loc}.role"), role)),
    }
    if let Some(name) = message.get("name").filter(|name| **name != Value::Null) {
        found.extend(wrong_text(&format!("{loc}.name"), name));
    }
    check_calls(&format!("{loc}.tool_calls"), message.get("tool_calls"), found);
    let is_assistant = message.get("role").and_then(Value::as_str) == Some("assistant");
    match message.get("content") {
        None | Some(Value::Str(_)) => {}
        Some(Value::Null) if is_assistant => {}
        Some(Value::List(parts)) => {
            parts.iter().enumerate().for_each(|(at, part)| check_part(&format!("{loc}.content.{at}"), part, found))
        }
        Some(other) => found.extend(wrong_text(&format!("{loc}.content"), other)),
    }
}

fn check_part(loc: &str, part: &Value, found: &mut Vec<Invalid>) {
    if let Some(wrong) = wrong_dict(loc, part) {
        return found.push(wrong);
    }
    let kind = part.get("type");
    match kind.and_then(Value::as_str) {
        None => found.push(Invalid::member("missing", &format!("{loc}.type"), "Field required", part)),
        Some("text" | "input_text" | "output_text") => match part.get("text") {
            None => found.push(Invalid::member("missing", &format!("{loc}.text"), "Field required", part)),
            Some(text) => found.extend(wrong_text(&format!("{loc}.text"), text)),
        },
        Some(name) if PARTS.contains(&name) => {}
        Some(_) => {
            let message = "Input should be a known type of content part";
            found.push(Invalid::member("literal_error", &format!("{loc}.type"), message, kind.unwrap_or(&Value::Null)));
        }
    }
}

fn check_calls(loc: &str, calls: Option<&Value>, found: &mut Vec<Invalid>) {
    let calls = match calls {
        None | Some(Value::Null) => return,
        Some(Value::List(calls)) => calls,
        Some(other) => return found.extend(wrong_list(loc, other)),
    };
    for (at, call) in calls.iter().enumerate() {
        let loc = format!("{loc}.{at}");
        if let Some(wrong) = wrong_dict(&loc, call) {
            found.push(wrong);
            continue;
        }
        for name in ["id", "function", "type"] {
            if call.get(name).is_none() {
                found.push(Invalid::member("missing", &format!("{loc}.{name}"), "Field required", call));
            }
        }
    }
}

/// The tool calls of a message in the notation of outputs, for the template.
pub(crate) fn called(message: &Value) -> String {
    let call = |call: &Value| {
        let function = call.get("function")?;
        let text = |name: &str| function.get(name).and_then(Value::as_str);
        let name = tacho_core::json::dumps(function.get("name")?);
        Some(format!("<tool_call>{{\"name\": {name}, \"arguments\": {}}}</tool_call>", text("arguments")?))
    };
    let calls = message.get("tool_calls").and_then(Value::as_list).unwrap_or(&[]);
    calls.iter().filter_map(call).collect()
}
