//! The simulator's responses equal recorded vLLM responses byte for byte, except for ids, times and generated text.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Map, Value};
use tacho_sim::Server;
use tacho_testkit::golden_json;

use crate::client::{events, post, start};

/// A recording's request (path and body) and the body of its response.
fn recording(name: &str) -> (String, String, String) {
    let golden = golden_json(&format!("sse/{name}.json"));
    let note = golden["note"].as_str().unwrap();
    let (path, body) = note.split_once("POST ").unwrap().1.split_once(' ').unwrap();
    let segments = golden["answer"]["segments"].as_array().unwrap();
    let bytes: Vec<u8> =
        segments.iter().flat_map(|segment| STANDARD.decode(segment["b64"].as_str().unwrap()).unwrap()).collect();
    (path.to_owned(), body.to_owned(), String::from_utf8(bytes).unwrap())
}

/// Replaces the parts that differ from run to run; lists that a model may send in one event or in two become one
/// item.
fn normal(value: &Value, key: &str) -> Value {
    match (key, value) {
        ("id", Value::String(id)) => Value::from(id.split('-').next().unwrap()),
        ("system_fingerprint", Value::String(print)) => {
            assert!(print.starts_with("vllm-0.32.0-") && print.len() == 20, "{print}");
            Value::from("print")
        }
        ("created", Value::Number(_)) => Value::from(0),
        ("text" | "content" | "token", Value::String(_)) => Value::from("text"),
        ("logprob" | "bytes" | "text_offset" | "tokens" | "token_logprobs", _) => Value::from("drawn"),
        ("top_logprobs", Value::Array(items)) if items.iter().all(|item| item.get("token").is_none()) => {
            assert!(items.iter().all(|item| item.as_object().unwrap().values().all(Value::is_number)));
            Value::from("drawn")
        }
        (_, Value::Array(items)) => {
            let mut items: Vec<Value> = items.iter().map(|item| normal(item, key)).collect();
            items.dedup();
            Value::Array(items)
        }
        (_, Value::Object(members)) => {
            Value::Object(members.iter().map(|(key, value)| (key.clone(), normal(value, key))).collect::<Map<_, _>>())
        }
        _ => value.clone(),
    }
}

/// The text must be compact JSON with fields in this order, so equal normal forms mean equal bytes.
fn shape(event: &str) -> String {
    if event == "[DONE]" {
        return event.to_owned();
    }
    let value: Value = serde_json::from_str(event).unwrap();
    assert_eq!(value.to_string(), event, "compact, nothing escaped that need not be");
    normal(&value, "").to_string()
}

/// Events per choice, and those of the whole request: choices may be interleaved in any way.
fn by_choice(text: &str) -> Vec<(Option<u64>, Vec<String>)> {
    let mut groups: Vec<(Option<u64>, Vec<String>)> = Vec::new();
    for event in events(text) {
        let value: Value = serde_json::from_str(&event).unwrap_or_default();
        let choice = value["choices"][0]["index"].as_u64();
        match groups.iter_mut().find(|(index, _)| *index == choice) {
            Some((_, group)) => group.push(shape(&event)),
            None => groups.push((choice, vec![shape(&event)])),
        }
    }
    groups.sort_by_key(|(choice, _)| choice.unwrap_or(u64::MAX));
    groups
}

fn assert_same_stream(server: &Server, name: &str) {
    let (path, body, expected) = recording(name);
    let reply = post(server, &path, &body);
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert_eq!(reply.header("content-type"), Some("text/event-stream; charset=utf-8"));
    for chunk in &reply.chunks {
        let text = std::str::from_utf8(chunk).unwrap();
        assert!(
            text.starts_with("data: ") && text.find("\n\n") == Some(text.len() - 2),
            "one event per chunk: {text:?}"
        );
    }
    assert_eq!(by_choice(&reply.text()), by_choice(&expected), "{name}");
}

#[test]
fn streams_have_the_recorded_bytes() {
    let server = start();
    for name in [
        "real-completions",
        "real-completions-no-usage",
        "real-completions-echo",
        "real-completions-n2",
        "real-completions-two-prompts",
        "real-chat",
    ] {
        assert_same_stream(&server, name);
    }
}

/// The recorded server wrote more slowly than its engine computed: two tokens came in the last event. The simulator
/// sends one more event of a known format, so repeated formats are merged, and running counts are ignored.
#[test]
fn streams_recorded_with_joined_tokens_have_the_same_events() {
    let fold = |text: &str| {
        let groups = by_choice(text).into_iter().map(|(choice, events)| {
            let mut events: Vec<String> = events.into_iter().map(|event| without_running_usage(&event)).collect();
            events.dedup();
            (choice, events)
        });
        groups.collect::<Vec<_>>()
    };
    let server = start();
    for name in [
        "real-completions-continuous-usage",
        "real-completions-logprobs",
        "real-chat-continuous-usage",
        "real-chat-logprobs",
    ] {
        let (path, body, expected) = recording(name);
        assert_eq!(fold(&post(&server, &path, &body).text()), fold(&expected), "{name}");
    }
}

fn without_running_usage(event: &str) -> String {
    let Ok(mut value) = serde_json::from_str::<Value>(event) else { return event.to_owned() };
    let running = value["choices"][0]["finish_reason"].is_null() && !value["choices"][0].is_null();
    if let (true, Some(usage)) = (running, value.get_mut("usage")) {
        assert_eq!(
            usage["total_tokens"].as_u64().unwrap(),
            usage["prompt_tokens"].as_u64().unwrap() + usage["completion_tokens"].as_u64().unwrap()
        );
        usage["total_tokens"] = 0.into();
        usage["completion_tokens"] = 0.into();
    }
    value.to_string()
}

#[test]
fn non_streamed_responses_have_the_recorded_bytes() {
    let server = start();
    for name in ["real-completions-not-streamed", "real-chat-not-streamed"] {
        let (path, body, expected) = recording(name);
        let reply = post(&server, &path, &body);
        assert_eq!(reply.header("content-type"), Some("application/json"));
        assert_eq!(shape(&reply.text()), shape(&expected), "{name}");
    }
}

#[test]
fn errors_have_the_recorded_bytes() {
    let server = start();
    let (path, body, expected) = recording("real-completions-unknown-model");
    let reply = post(&server, &path, &body);
    assert_eq!((reply.status, reply.text()), (404, expected.replace("<path>", "tiny.")));

    let (path, _, expected) = recording("real-completions-too-long");
    let body = format!(r#"{{"model": "tiny", "prompt": "{}", "max_tokens": 3, "stream": true}}"#, "A ".repeat(3000));
    let reply = post(&server, &path, &body);
    assert_eq!((reply.status, reply.text()), (400, expected));
}
