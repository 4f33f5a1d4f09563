//! A server that responds according to a recorded script and records the requests.

use std::net::{SocketAddr, TcpStream};
use std::{collections::HashMap, io::Write, sync::Mutex, time::Duration};

use base64::Engine;
use serde_json::{Value, json};
use tacho_testkit::scripted::{Keep, Scripted as Server};
use tacho_testkit::wire::{Seen, write_plain};

/// A received request.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Asked {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) body: String,
    pub(crate) id: Option<String>,
}

impl From<Seen> for Asked {
    fn from(seen: Seen) -> Self {
        Asked {
            method: seen.method().to_owned(),
            path: seen.path().to_owned(),
            body: String::from_utf8_lossy(&seen.body).into_owned(),
            id: seen.header("x-request-id").map(str::to_owned),
        }
    }
}

pub(crate) struct Scripted {
    pub(crate) address: SocketAddr,
    server: Server,
}

impl Scripted {
    /// Serves each connection on a separate thread until the test process ends.
    pub(crate) fn start(script: Value) -> Self {
        let counts: Mutex<HashMap<String, usize>> = Mutex::default();
        let server = Server::start(move |seen, stream| {
            let key = format!("{} {}", seen.method(), seen.path());
            let index = {
                let mut counts = counts.lock().unwrap();
                let count = counts.entry(key.clone()).or_default();
                *count += 1;
                *count - 1
            };
            answer(&script, &key, index, &seen.json(), stream).map_or(Keep::Close, |()| Keep::Open)
        });
        Scripted { address: server.address, server }
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.server.calls().into_iter().map(Asked::from).collect()
    }
}

/// The scripted response to the `index`-th request of its kind, or `None` to close the connection.
fn answer(script: &Value, key: &str, index: usize, body: &Value, stream: &mut TcpStream) -> Option<()> {
    let answers = script["routes"][key].as_array().cloned().unwrap_or_default();
    let at = if script["cycle"] == true { index % answers.len().max(1) } else { index };
    match answers.get(at.min(answers.len().saturating_sub(1))) {
        None => plain(stream, 404, "Not Found", "application/json", b"{\"detail\":\"Not Found\"}"),
        Some(answer) if answer["gen"].is_string() => generate(stream, answer, body, index),
        Some(answer) => play(stream, answer),
    }
}

fn plain(stream: &mut TcpStream, status: u64, reason: &str, kind: &str, body: &[u8]) -> Option<()> {
    write_plain(stream, u16::try_from(status).ok()?, reason, kind, body).ok()
}

/// Sends the scripted bytes.
fn play(stream: &mut TcpStream, answer: &Value) -> Option<()> {
    if answer["end"] == "early" {
        return None;
    }
    let engine = base64::engine::general_purpose::STANDARD;
    let segments = answer["segments"].as_array().cloned().unwrap_or_default();
    let bytes: Vec<u8> = segments
        .iter()
        .flat_map(|segment| match segment["b64"].as_str() {
            Some(code) => engine.decode(code).unwrap(),
            None => segment["text"].as_str().unwrap_or_default().as_bytes().to_vec(),
        })
        .collect();
    let status = answer["status"].as_u64().unwrap_or(200);
    let reason = answer["reason"].as_str().unwrap_or("OK");
    if answer["framing"] == "length" {
        return plain(stream, status, reason, "application/json", &bytes);
    }
    let head = format!("HTTP/1.1 {status} {reason}\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n", bytes.len());
    stream.write_all(head.as_bytes()).ok()?;
    stream.write_all(&bytes).ok()?;
    stream.write_all(b"\r\n").ok()?;
    match answer["end"].as_str() {
        Some("eof" | "reset") => None,
        _ => stream.write_all(b"0\r\n\r\n").ok(),
    }
}

/// Generates a response from the request.
fn generate(stream: &mut TcpStream, answer: &Value, body: &Value, index: usize) -> Option<()> {
    let json = "application/json";
    match answer["gen"].as_str().unwrap() {
        "ok" => plain(stream, 200, "OK", "text/plain", b""),
        "models" => {
            let default = json!([["served-name", "golden/tokenizers/gpt2"]]);
            let models = if answer["models"].is_array() { &answer["models"] } else { &default };
            let entry = |model: &Value| json!({"id": model[0], "object": "model", "root": model[1]});
            let data: Vec<Value> = models.as_array().unwrap().iter().map(entry).collect();
            plain(stream, 200, "OK", json, json!({"object": "list", "data": data}).to_string().as_bytes())
        }
        "metrics" => {
            let bodies = answer["bodies"].as_array().unwrap();
            let text = bodies[index.min(bodies.len() - 1)].as_str().unwrap();
            plain(stream, 200, "OK", "text/plain", text.as_bytes())
        }
        "text" => plain(stream, 200, "OK", json, answer["body"].as_str().unwrap_or_default().as_bytes()),
        "tokenize" => {
            let count = answer["count"].as_u64().unwrap_or_else(|| words(&body["prompt"]));
            let tokens: Vec<u64> = (0..count).collect();
            plain(stream, 200, "OK", json, json!({"count": count, "tokens": tokens}).to_string().as_bytes())
        }
        "detokenize" => {
            let tokens = body["tokens"].as_array().unwrap();
            let text: Vec<String> = tokens.iter().map(|token| format!("w{token}")).collect();
            plain(stream, 200, "OK", json, json!({"prompt": text.join(" ")}).to_string().as_bytes())
        }
        kind @ ("embeddings" | "pooling" | "rerank") => {
            let count = body["input"].as_array().or(body["documents"].as_array()).map_or(1, Vec::len);
            let usage = json!({"prompt_tokens": prompt_tokens(answer, body), "total_tokens": 1});
            let data: Vec<Value> = (0..count).map(|at| json!({"index": at, "embedding": [0.1, 0.2]})).collect();
            let key = if kind == "rerank" { "results" } else { "data" };
            plain(stream, 200, "OK", json, json!({"id": "e", key: data, "usage": usage}).to_string().as_bytes())
        }
        kind => tokens(stream, kind, answer, body, index),
    }
}

fn words(prompt: &Value) -> u64 {
    let count = match prompt {
        Value::String(text) => text.split_whitespace().count() as u64,
        Value::Array(items) if items.iter().all(Value::is_number) => items.len() as u64,
        Value::Array(items) => items.iter().map(words).sum(),
        Value::Object(part) => words(part.get("text").or(part.get("content")).unwrap_or(&Value::Null)),
        _ => 0,
    };
    count.max(1)
}

fn prompt_tokens(answer: &Value, body: &Value) -> Value {
    match &answer["prompt_tokens"] {
        Value::Null => {
            let prompt = ["prompt", "input", "messages"].iter().map(|key| &body[key]).find(|value| !value.is_null());
            json!(words(prompt.unwrap_or(&Value::Null)))
        }
        Value::Bool(false) => Value::Null,
        given => given.clone(),
    }
}

/// A token stream of the requested length.
fn tokens(stream: &mut TcpStream, kind: &str, answer: &Value, body: &Value, index: usize) -> Option<()> {
    if let Some(delays) = answer["delay_by_index"].as_array() {
        std::thread::sleep(Duration::from_millis(delays[index % delays.len()].as_u64().unwrap_or(0)));
    }
    let asked = ["max_tokens", "max_completion_tokens", "max_output_tokens"];
    let asked = asked.iter().find_map(|key| body[key].as_u64());
    let count = match &answer["tokens"] {
        Value::Array(list) => list[index % list.len()].as_u64(),
        other => other.as_u64().or(asked),
    };
    let count = count.unwrap_or(4);
    stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").ok()?;
    let mut event = |text: String| write!(stream, "{:x}\r\n{text}\r\n", text.len()).ok();
    let text = answer["text"].as_str().unwrap_or(" tok");
    std::thread::sleep(Duration::from_millis(answer["ttft_ms"].as_u64().unwrap_or(4).min(30)));
    for at in 0..count {
        if answer["die_after"].as_u64().is_some_and(|after| at >= after) {
            return None;
        }
        std::thread::sleep(Duration::from_micros(300));
        event(match kind {
            "responses" => {
                let delta = json!({"type": "response.output_text.delta", "delta": text});
                format!("event: response.output_text.delta\ndata: {delta}\n\n")
            }
            "completions" => format!("data: {}\n\n", json!({"choices": [{"index": 0, "text": text}]})),
            _ => format!("data: {}\n\n", json!({"choices": [{"index": 0, "delta": {"content": text}}]})),
        })?;
    }
    let prompt = prompt_tokens(answer, body);
    if kind == "responses" {
        let usage = json!({"input_tokens": prompt, "output_tokens": count});
        event(format!("data: {}\n\n", json!({"type": "response.completed", "response": {"usage": usage}})))?;
    } else {
        if answer["usage"] != false {
            let mut usage = json!({"completion_tokens": count});
            if !prompt.is_null() {
                usage["prompt_tokens"] = prompt;
            }
            event(format!("data: {}\n\n", json!({"choices": [], "usage": usage})))?;
        }
        event("data: [DONE]\n\n".to_owned())?;
    }
    stream.write_all(b"0\r\n\r\n").ok()
}
