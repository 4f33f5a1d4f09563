//! Converts span messages to chat messages: text parts become contents and tool-call parts become calls.

use super::*;
use crate::sampling::chat::object;

/// The messages in chat format; those already in it are unchanged.
pub(crate) fn openai(row: &Row<'_>, field: &str, messages: &[Value]) -> Result<Vec<Value>> {
    let mut out = Vec::with_capacity(messages.len());
    for (at, message) in messages.iter().enumerate() {
        let wrong = |problem: &str| row.wrong(&format!("{field}[{at}]"), problem);
        let dict = message.as_dict().ok_or_else(|| wrong("must be an object"))?;
        let role = dict.text("role").ok_or_else(|| wrong("role is missing"))?;
        match dict.get("parts").and_then(Value::as_list) {
            Some(parts) => of_parts(role, parts, &mut out),
            None => out.push(message.clone()),
        }
    }
    Ok(out)
}

/// Converts one message of parts; tool results become separate messages.
fn of_parts(role: &str, parts: &[Value], out: &mut Vec<Value>) {
    let of_kind = |kind: &'static str| parts.iter().filter(move |part| part.text("type") == Some(kind));
    let text = |part: &Value| part.get("content").or(part.get("text")).and_then(Value::as_str).map(str::to_owned);
    let texts: Vec<String> = of_kind("text").filter_map(text).collect();
    let calls: Vec<Value> = of_kind("tool_call").map(call).collect();
    if !texts.is_empty() || !calls.is_empty() {
        let mut message = dict! { "role": role, "content": (!texts.is_empty()).then(|| texts.join("\n")) };
        if !calls.is_empty() {
            message.set("tool_calls", calls);
        }
        out.push(message.into());
    }
    out.extend(of_kind("tool_call_response").map(result));
}

fn call(part: &Value) -> Value {
    let arguments = part.get("arguments").map_or_else(|| "{}".to_owned(), as_text);
    let function = object([("name", part.get("name").cloned().into()), ("arguments", arguments.into())]);
    object([("id", part.get("id").cloned().into()), ("type", "function".into()), ("function", function)])
}

fn result(part: &Value) -> Value {
    let content = part.get("result").or(part.get("response")).map(as_text).unwrap_or_default();
    let id = part.get("id").cloned();
    object([("role", "tool".into()), ("tool_call_id", id.into()), ("content", content.into())])
}

fn as_text(value: &Value) -> String {
    value.as_str().map_or_else(|| json::dumps(value), str::to_owned)
}

/// Marks that identify an assistant message in a later prompt: its text, and the names of its tool calls.
pub(crate) fn marks(message: &Value) -> Vec<String> {
    if message.text("role") != Some("assistant") {
        return Vec::new();
    }
    let text = message.text("content").filter(|text| !text.is_empty());
    let calls = message.get("tool_calls").and_then(Value::as_list).unwrap_or_default();
    let ids = calls.iter().filter_map(|call| call.text("id"));
    text.map(|text| format!("text {text}")).into_iter().chain(ids.map(|id| format!("call {id}"))).collect()
}
