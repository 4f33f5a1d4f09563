//! Further parts of a response, extracted only if a later request of the session needs them: tool calls, and the ID of
//! a stored response.

use tacho_core::json::{Value, parse};
use tacho_core::{Observation, Reply, ToolCall};

use super::event::{Choice, TextField};
use super::scan::unescape;

/// Maximum number of tool calls per response.
const MAX_CALLS: usize = 256;

/// Adds the `tool_calls` of a chat message, or fragments of them.
pub(super) fn chat_calls(json: &[u8], row: &mut Observation) {
    let Some(Value::List(pieces)) = value(json) else { return };
    for piece in &pieces {
        let position = piece.get("index").and_then(Value::as_i64).and_then(|index| usize::try_from(index).ok());
        let calls = &mut reply(row).calls;
        let position = position.unwrap_or(calls.len());
        if position >= MAX_CALLS {
            return;
        }
        if position >= calls.len() {
            calls.resize(position + 1, ToolCall::default());
        }
        let function = piece.get("function");
        let text = |name: &str| function.and_then(|function| function.get(name)).and_then(Value::as_str).unwrap_or("");
        let call = &mut calls[position];
        call.id.push_str(piece.text("id").unwrap_or(""));
        call.name.push_str(text("name"));
        call.arguments.push_str(text("arguments"));
    }
}

/// Adds text of a choice after the first.
pub(super) fn other(choice: &Choice, data: &[u8], row: &mut Observation) {
    let (TextField::Text(text), Ok(position)) = (&choice.text, usize::try_from(choice.branch)) else { return };
    if position > MAX_CALLS {
        return;
    }
    let others = &mut reply(row).others;
    others.resize(others.len().max(position), String::new());
    let mut plain = Vec::new();
    if text.escaped {
        unescape(&data[text.span.clone()], &mut plain)
    } else {
        plain.extend(&data[text.span.clone()])
    }
    others[position - 1] += &String::from_utf8_lossy(&plain);
}

/// Adds the call that a `tool_use` block of the messages protocol announces.
pub(super) fn tool_use(event: &[u8], row: &mut Observation) {
    let event = value(event);
    let Some(block) = event.as_ref().and_then(|event| event.get("content_block")) else { return };
    let text = |name: &str| block.text(name).unwrap_or("").to_owned();
    let calls = &mut reply(row).calls;
    if text("type") == "tool_use" && calls.len() < MAX_CALLS {
        calls.push(ToolCall { id: text("id"), name: text("name"), arguments: String::new() });
    }
}

/// Adds a fragment of the most recent call's input.
pub(super) fn tool_input(piece: &[u8], row: &mut Observation) {
    if let Some(call) = reply(row).calls.last_mut() {
        call.arguments.push_str(&String::from_utf8_lossy(piece));
    }
}

/// Extracts from the closing `response` of the responses protocol.
pub(super) fn response(event: &[u8], row: &mut Observation) {
    let event = value(event);
    let Some(response) = event.as_ref().map(|event| event.get("response").unwrap_or(event)) else { return };
    let reply = reply(row);
    reply.id = response.text("id").map(str::to_owned);
    let items = response.get("output").and_then(Value::as_list).unwrap_or_default();
    let calls = items.iter().filter(|item| item.text("type") == Some("function_call"));
    let call = |item: &Value| {
        let text = |name: &str| item.text(name).unwrap_or("").to_owned();
        ToolCall { id: text("call_id"), name: text("name"), arguments: text("arguments") }
    };
    reply.calls = calls.take(MAX_CALLS).map(call).collect();
}

/// Extracts from a non-streamed response of any protocol.
pub(super) fn whole(body: &[u8], row: &mut Observation) {
    let Some(parsed) = value(body) else { return };
    let choices = parsed.get("choices").and_then(Value::as_list).unwrap_or_default();
    let others = choices.iter().skip(1).take(MAX_CALLS).map(|choice| {
        let text = choice.get("text").or_else(|| choice.get("message")?.get("content"));
        text.and_then(Value::as_str).unwrap_or_default().to_owned()
    });
    let others: Vec<String> = others.collect();
    if !others.is_empty() {
        reply(row).others = others;
    }
    let message = choices.first().and_then(|choice| choice.get("message"));
    if let Some(calls) = message.and_then(|message| message.get("tool_calls")) {
        chat_calls(tacho_core::json::dumps(calls).as_bytes(), row);
    }
    if parsed.get("output").is_some() {
        response(body, row);
    }
}

fn reply(row: &mut Observation) -> &mut Reply {
    row.reply.get_or_insert_default()
}

fn value(json: &[u8]) -> Option<Value> {
    std::str::from_utf8(json).ok().and_then(|text| parse(text).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tacho_core::Timestamp;

    fn read(each: impl Fn(&[u8], &mut Observation), pieces: &[&str]) -> Reply {
        let mut row = Observation::dispatched(0, Timestamp::ZERO, Timestamp::ZERO);
        pieces.iter().for_each(|piece| each(piece.as_bytes(), &mut row));
        *row.reply.unwrap_or_default()
    }

    fn call(id: &str, name: &str, arguments: &str) -> ToolCall {
        ToolCall { id: id.into(), name: name.into(), arguments: arguments.into() }
    }

    #[test]
    fn calls_come_in_pieces_and_side_by_side() {
        let pieces = [
            r#"[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":""}}]"#,
            r#"[{"index":0,"function":{"arguments":"{\"x\":"}}]"#,
            r#"[{"index":1,"id":"b","function":{"name":"g","arguments":"{}"}}]"#,
            r#"[{"index":0,"function":{"arguments":"1}"}}]"#,
            "not json",
        ];
        assert_eq!(read(chat_calls, &pieces).calls, [call("a", "f", r#"{"x":1}"#), call("b", "g", "{}")]);
        assert_eq!(read(chat_calls, &[r#"[{"index":99999999,"id":"a"}]"#]).calls, []);
    }

    #[test]
    fn a_response_names_itself_and_its_calls() {
        let done = r#"{"type":"response.completed","response":{"id":"r1","output":[{"type":"message"},
            {"type":"function_call","call_id":"c","name":"f","arguments":"{}"}]}}"#;
        let reply = read(response, &[done]);
        assert_eq!((reply.id.as_deref(), reply.calls), (Some("r1"), vec![call("c", "f", "{}")]));
    }

    #[test]
    fn a_whole_answer_is_read_too() {
        let body = r#"{"choices":[{"message":{"content":null,"tool_calls":[{"id":"a","function":{"name":"f","arguments":"{}"}}]}}]}"#;
        assert_eq!(read(whole, &[body]).calls, [call("a", "f", "{}")]);
        let several = r#"{"choices":[{"message":{"content":"a"}},{"message":{"content":"b"}},{"text":"c"}]}"#;
        assert_eq!(read(whole, &[several]).others, ["b", "c"]);
    }
}
