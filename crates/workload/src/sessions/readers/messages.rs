//! Converts span messages to chat messages: text parts become contents and tool-call parts become calls.

use tacho_core::json::{Dict, Value, dumps};

use crate::sessions::error::TraceError;
use crate::sessions::row::Row;

/// The messages in chat format; those already in it are unchanged.
pub(crate) fn openai(row: &Row<'_>, field: &str, messages: &[Value]) -> Result<Vec<Value>, TraceError> {
    let mut out = Vec::with_capacity(messages.len());
    for (at, message) in messages.iter().enumerate() {
        let wrong = |problem: &str| row.wrong(&format!("{field}[{at}]"), problem);
        let dict = message.as_dict().ok_or_else(|| wrong("must be an object"))?;
        let role = dict.get("role").and_then(Value::as_str).ok_or_else(|| wrong("role is missing"))?;
        match dict.get("parts").and_then(Value::as_list) {
            Some(parts) => of_parts(role, parts, &mut out),
            None => out.push(message.clone()),
        }
    }
    Ok(out)
}

/// Converts one message of parts; tool results become separate messages.
fn of_parts(role: &str, parts: &[Value], out: &mut Vec<Value>) {
    let kind = |part: &Value| part.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
    let text = |part: &Value| part.get("content").or(part.get("text")).and_then(Value::as_str).map(str::to_owned);
    let texts: Vec<String> = parts.iter().filter(|part| kind(part) == "text").filter_map(text).collect();
    let calls: Vec<Value> = parts.iter().filter(|part| kind(part) == "tool_call").map(call).collect();
    let results = parts.iter().filter(|part| kind(part) == "tool_call_response").map(result);
    if !texts.is_empty() || !calls.is_empty() {
        let mut message = Dict::new();
        message.set("role", role);
        message.set("content", (!texts.is_empty()).then(|| texts.join("\n")));
        if !calls.is_empty() {
            message.set("tool_calls", calls);
        }
        out.push(message.into());
    }
    out.extend(results);
}

fn call(part: &Value) -> Value {
    let mut function = Dict::new();
    function.set("name", part.get("name").cloned());
    function.set("arguments", part.get("arguments").map_or_else(|| "{}".to_owned(), as_text));
    let mut call = Dict::new();
    call.set("id", part.get("id").cloned());
    call.set("type", "function");
    call.set("function", function);
    call.into()
}

fn result(part: &Value) -> Value {
    let mut message = Dict::new();
    message.set("role", "tool");
    message.set("tool_call_id", part.get("id").cloned());
    message.set("content", part.get("result").or(part.get("response")).map(as_text).unwrap_or_default());
    message.into()
}

fn as_text(value: &Value) -> String {
    value.as_str().map_or_else(|| dumps(value), str::to_owned)
}

/// Marks that identify an assistant message in a later prompt: its text, and the names of its tool calls.
pub(crate) fn marks(message: &Value) -> Vec<String> {
    if message.get("role").and_then(Value::as_str) != Some("assistant") {
        return Vec::new();
    }
    let text = message.get("content").and_then(Value::as_str).filter(|text| !text.is_empty());
    let calls = message.get("tool_calls").and_then(Value::as_list).unwrap_or_default();
    let ids = calls.iter().filter_map(|call| call.get("id")?.as_str());
    text.map(|text| format!("text {text}")).into_iter().chain(ids.map(|id| format!("call {id}"))).collect()
}
