//! The streaming protocols other than completions and chat: their formats and what they have in common.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::Value;
use tacho_engine::Profile;
use tacho_sim::{Server, SimSpec};
use tacho_testkit::golden_json;

use crate::client::{Client, Reply, post, spec, start};

/// Event names and data of a stream with named events.
fn named_events(text: &str) -> Vec<(String, Value)> {
    let event = |event: &str| {
        let (name, data) = event.split_once("\ndata: ").unwrap();
        (name.strip_prefix("event: ").unwrap().to_owned(), serde_json::from_str(data).unwrap())
    };
    text.split_terminator("\n\n").map(event).collect()
}

/// Replaces the parts that differ from run to run by constants.
fn settled(value: &Value) -> Value {
    match value {
        Value::Object(members) => members
            .iter()
            .map(|(key, value)| match key.as_str() {
                "id" | "item_id" => (key.clone(), Value::from(value.as_str().unwrap().split('_').next().unwrap())),
                "created_at" => (key.clone(), Value::from(0)),
                "delta" | "text" if value.is_string() => (key.clone(), Value::from("text")),
                _ => (key.clone(), settled(value)),
            })
            .collect(),
        Value::Array(items) => items.iter().map(settled).collect(),
        other => other.clone(),
    }
}

#[test]
fn responses_have_the_events_of_a_recorded_answer() {
    let golden = golden_json("sse/real-responses.json");
    let note = golden["note"].as_str().unwrap();
    let body = note.split_once("/v1/responses ").unwrap().1;
    let segments = golden["answer"]["segments"].as_array().unwrap();
    let bytes: Vec<u8> =
        segments.iter().flat_map(|segment| STANDARD.decode(segment["b64"].as_str().unwrap()).unwrap()).collect();
    let theirs = named_events(&String::from_utf8(bytes).unwrap());
    let server = start();
    let reply = post(&server, "/v1/responses", body);
    assert_eq!(reply.header("content-type"), Some("text/event-stream; charset=utf-8"));
    let ours = named_events(&reply.text());
    let shapes = |events: &[(String, Value)]| -> Vec<(String, String)> {
        events.iter().map(|(name, data)| (name.clone(), settled(data).to_string())).collect()
    };
    assert_eq!(shapes(&ours), shapes(&theirs));
    // Compact JSON with members in this order, so that equal values mean equal bytes.
    for (name, data) in &ours {
        assert!(reply.text().contains(&format!("event: {name}\ndata: {data}\n\n")));
    }
}

#[test]
fn responses_come_whole_when_not_streamed() {
    let server = start();
    let body = r#"{"model": "tiny", "input": [{"role": "user", "content": "Hello"}], "max_output_tokens": 3, "ignore_eos": true}"#;
    let answer = post(&server, "/v1/responses", body).json();
    assert_eq!((answer["status"].as_str(), answer["usage"]["output_tokens"].as_u64()), (Some("incomplete"), Some(3)));
    assert_eq!(answer["output"][0]["content"][0]["type"], "output_text");
    assert_eq!(post(&server, "/v1/responses", r#"{"model": "tiny"}"#).status, 400);
}

fn wav(milliseconds: usize) -> Vec<u8> {
    let data = milliseconds * 16;
    let mut file = b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0".to_vec();
    file.extend(8000u32.to_le_bytes());
    file.extend(16_000u32.to_le_bytes());
    file.extend(b"\x02\0\x10\0data");
    file.extend((data as u32).to_le_bytes());
    file.resize(file.len() + data, b'a');
    file
}

fn transcribe(server: &Server, path: &str, file: &[u8], fields: &[(&str, &str)]) -> Reply {
    let mut body = b"--mark\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\n\r\n".to_vec();
    body.extend(file);
    for (name, value) in fields {
        let part = format!("\r\n--mark\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}");
        body.extend(part.as_bytes());
    }
    body.extend(b"\r\n--mark--\r\n");
    let mut client = Client::connect(server.addr());
    client.send_bytes("POST", path, "Content-Type: multipart/form-data; boundary=mark\r\n", &body);
    client.reply().unwrap()
}

#[test]
fn audio_becomes_chunks_with_running_usage() {
    let server = start();
    let fields = [
        ("model", "tiny"),
        ("max_completion_tokens", "5"),
        ("stream", "True"),
        ("stream_include_usage", "True"),
        ("stream_continuous_usage_stats", "True"),
        ("ignore_eos", "True"),
    ];
    let sound = wav(20);
    for (path, object) in
        [("/v1/audio/transcriptions", "transcription.chunk"), ("/v1/audio/translations", "translation.chunk")]
    {
        let events = transcribe(&server, path, &sound, &fields).events();
        let (id, rest) = events[4].split_once(r#"","object""#).unwrap();
        assert!(id.starts_with(r#"{"id":"trans"#), "{id}");
        // The last chunk of vLLM 0.32.0, except for its text.
        let end = r#""},"finish_reason":"length","stop_reason":null}],"usage":{"prompt_tokens":6,"total_tokens":11,"completion_tokens":5}}"#;
        assert!(rest.contains(r#","model":"tiny","choices":[{"delta":{"content":""#), "{rest}");
        assert!(rest.ends_with(end), "{rest}");
        let values: Vec<Value> = events[..6].iter().map(|event| serde_json::from_str(event).unwrap()).collect();
        assert_eq!((events.len(), events[6].as_str()), (7, "[DONE]"));
        for (at, value) in values[..5].iter().enumerate() {
            assert_eq!(value["object"], object);
            assert_eq!(value["usage"]["completion_tokens"], at + 1);
            assert!(value["choices"][0]["delta"]["content"].is_string());
        }
        assert_eq!(values[4]["choices"][0]["finish_reason"], "length");
        assert_eq!(
            (&values[5]["choices"], &values[5]["usage"]["completion_tokens"]),
            (&Value::Array(vec![]), &5.into())
        );
    }
}

#[test]
fn audio_costs_prompt_tokens_by_its_length_and_must_be_valid() {
    let server = start();
    let tokens = |milliseconds| {
        let reply = transcribe(&server, "/v1/audio/transcriptions", &wav(milliseconds), &[("stream", "false")]);
        reply.json()["usage"]["seconds"].as_u64()
    };
    assert_eq!((tokens(400), tokens(1100)), (Some(1), Some(2)));
    assert_eq!(transcribe(&server, "/v1/audio/transcriptions", b"no sound", &[]).status, 400);
    assert_eq!(post(&server, "/v1/audio/transcriptions", "{}").status, 400);
}

#[test]
fn text_generation_inference_repeats_the_whole_text_at_the_end() {
    let server = start();
    let body = r#"{"inputs": "Hello", "parameters": {"max_new_tokens": 4, "ignore_eos_token": true, "details": true}}"#;
    let text = post(&server, "/generate_stream", body).text();
    let events: Vec<Value> = text
        .split_terminator("\n\n")
        .map(|event| serde_json::from_str(event.strip_prefix("data:").unwrap()).unwrap())
        .collect();
    assert_eq!(events.len(), 4);
    let streamed: String = events.iter().map(|event| event["token"]["text"].as_str().unwrap()).collect();
    assert_eq!(events[3]["generated_text"].as_str(), Some(streamed.as_str()));
    assert_eq!(events[3]["details"]["generated_tokens"], 4);
    assert!(events[..3].iter().all(|event| event["generated_text"].is_null()));
}

#[test]
fn triton_streams_at_both_of_its_paths() {
    let server = start();
    let body = r#"{"text_input": "Hello", "max_tokens": 4, "min_length": 4, "stream": true}"#;
    for path in ["/v2/models/ensemble/generate_stream", "/generate_stream"] {
        let events = post(&server, path, body).events();
        assert_eq!(events.len(), 4);
        let event: Value = serde_json::from_str(&events[0]).unwrap();
        assert!(event["text_output"].is_string() && event["model_name"] == "ensemble");
    }
    assert_eq!(post(&server, "/v2/models//generate_stream", body).status, 404);
}

#[test]
fn the_demonstration_server_repeats_the_prompt_in_every_line() {
    let server = start();
    let body = |stream: bool| {
        format!(r#"{{"prompt": "Hello", "max_tokens": 3, "ignore_eos": true, "stream": {stream}, "seed": 1}}"#)
    };
    let text = post(&server, "/generate", &body(true)).text();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 3);
    let texts: Vec<&str> = lines.iter().map(|line| line["text"][0].as_str().unwrap()).collect();
    assert!(texts[0].starts_with("Hello") && texts.windows(2).all(|pair| pair[1].starts_with(pair[0])));
    assert_eq!(post(&server, "/generate", &body(false)).json()["text"][0], texts[2]);
}

#[test]
fn responses_start_with_reasoning_on_request() {
    let server = Server::start(SimSpec { reasoning_tokens: 3, stream_interval: 4, ..spec(Profile::Instant) }).unwrap();
    let body = |stream: bool| {
        format!(
            r#"{{"messages": [{{"role": "user", "content": "A"}}], "max_tokens": 9, "ignore_eos": true, "seed": 1,
            "stream": {stream}{}}}"#,
            if stream { r#", "stream_options": {"include_usage": true}"# } else { "" }
        )
    };
    let events = post(&server, "/v1/chat/completions", &body(true)).events();
    let values: Vec<Value> = events.iter().filter_map(|event| serde_json::from_str(event).ok()).collect();
    let streamed = |member: &str| -> String {
        let texts = values.iter().filter_map(|value| value["choices"][0]["delta"][member].as_str());
        texts.collect()
    };
    let whole = post(&server, "/v1/chat/completions", &body(false)).json();
    let message = &whole["choices"][0]["message"];
    assert_eq!(message["reasoning"], streamed("reasoning"));
    assert_eq!(message["content"], streamed("content"));
    assert!(!streamed("reasoning").is_empty() && !streamed("content").is_empty());
    let usage = values.iter().rfind(|value| value["usage"].is_object()).unwrap();
    for usage in [&usage["usage"], &whole["usage"]] {
        assert_eq!(usage["completion_tokens_details"]["reasoning_tokens"], 3, "{usage}");
    }
    let body = r#"{"input": "A", "max_output_tokens": 5, "ignore_eos": true, "stream": true}"#;
    let text = post(&server, "/v1/responses", body).text();
    assert_eq!(text.matches("event: response.reasoning_text.delta").count(), 2);
    assert!(text.contains(r#""reasoning_tokens":3"#));
    // Completions have no such event.
    let plain = post(&server, "/v1/completions", r#"{"prompt": "A", "max_tokens": 2, "ignore_eos": true}"#).json();
    assert_eq!(plain["usage"]["completion_tokens_details"], Value::Null);
}

#[test]
fn several_tokens_share_an_event_on_request() {
    let server = Server::start(SimSpec { stream_interval: 4, ..spec(Profile::Instant) }).unwrap();
    let body = r#"{"prompt": "A", "max_tokens": 10, "ignore_eos": true, "stream": true, "logprobs": 0,
        "stream_options": {"include_usage": true, "continuous_usage_stats": true}}"#;
    let events = post(&server, "/v1/completions", body).events();
    let counts = |pointer: &str| -> Vec<Value> {
        let values = events[..4].iter().map(|event| serde_json::from_str::<Value>(event).unwrap());
        values.map(|value| value.pointer(pointer).unwrap().clone()).collect()
    };
    assert_eq!(counts("/usage/completion_tokens"), [1, 5, 9, 10]);
    let tokens: Vec<usize> =
        counts("/choices/0/logprobs/tokens").iter().map(|tokens| tokens.as_array().unwrap().len()).collect();
    assert_eq!(tokens, [1, 4, 4, 1]);
    let alone = post(&start(), "/v1/completions", r#"{"prompt": "A", "max_tokens": 10, "ignore_eos": true}"#).json();
    let text: String = counts("/choices/0/text").iter().map(|text| text.as_str().unwrap()).collect();
    assert_eq!(alone["choices"][0]["text"], text);
}
