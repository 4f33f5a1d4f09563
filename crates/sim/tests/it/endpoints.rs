//! The response of every endpoint; outputs are a function of seed and prompt.

use serde_json::{Value, json};
use tacho_engine::{EngineSpec, Profile};
use tacho_sim::{Server, SimSpec};

use crate::client::{Client, get, post, spec, start};

#[test]
fn health_version_and_models() {
    let server = Server::start(SimSpec {
        served_model_names: vec!["one".into(), "two".into()],
        lora_modules: vec!["adapter".into()],
        ..spec(Profile::Instant)
    })
    .unwrap();
    for path in ["/health", "/ping"] {
        let reply = get(&server, path);
        assert_eq!((reply.status, reply.text().as_str()), (200, ""));
    }
    let version = get(&server, "/version").json();
    assert_eq!((&version["version"], &version["tacho_simulator"]["profile"]), (&json!("0.32.0"), &json!("instant")));
    let models = get(&server, "/v1/models").json();
    let card = |at: usize, key: &str| models["data"][at][key].clone();
    assert_eq!((card(0, "id"), card(1, "id"), card(2, "id")), (json!("one"), json!("two"), json!("adapter")));
    assert_eq!(
        (card(0, "root"), card(0, "parent"), card(0, "max_model_len")),
        (json!("tiny"), Value::Null, json!(2048))
    );
    assert_eq!((card(2, "parent"), card(2, "max_model_len")), (json!("one"), Value::Null));
    for (asked, answered) in [("one", "one"), ("two", "one"), ("adapter", "adapter")] {
        let body = format!(r#"{{"model": "{asked}", "prompt": "A", "max_tokens": 1}}"#);
        assert_eq!(post(&server, "/v1/completions", &body).json()["model"], answered);
    }
    assert_eq!(post(&server, "/v1/completions", r#"{"model": "tiny", "prompt": "A"}"#).status, 404);
}

#[test]
fn tokenize_and_detokenize_answer_as_vllm_does() {
    let server = start();
    let tokenized = post(&server, "/tokenize", r#"{"model":"tiny","prompt":"Hello, world"}"#);
    assert_eq!(tokenized.text(), r#"{"count":3,"max_model_len":2048,"tokens":[15496,11,995],"token_strs":null}"#);
    let chat = post(&server, "/tokenize", r#"{"model":"tiny","messages":[{"role":"user","content":"hi"}]}"#);
    assert_eq!(
        chat.text(),
        r#"{"count":15,"max_model_len":2048,"tokens":[27,91,7220,91,29,198,5303,198,27,91,562,10167,91,29,198],"token_strs":null}"#
    );
    let strings = post(&server, "/tokenize", r#"{"prompt":"Hello, world","return_token_strs":true}"#).json();
    assert_eq!(strings["token_strs"].as_array().unwrap().len(), 3);
    let text = post(&server, "/detokenize", r#"{"model":"tiny","tokens":[15496,11,995]}"#);
    assert_eq!(text.text(), r#"{"prompt":"Hello, world"}"#);
    assert_eq!(post(&server, "/detokenize", r#"{"tokens":[15496,11,999999]}"#).text(), r#"{"prompt":"Hello,"}"#);
    assert_eq!(post(&server, "/tokenize", r#"{"model":"nope","prompt":"x"}"#).status, 404);
    assert_eq!(
        post(&server, "/tokenize", "{}").text(),
        r#"{"error":{"message":"body.prompt: expected a string, got nothing","type":"Bad Request","param":"body.prompt","code":400}}"#
    );
}

#[test]
fn invalid_requests_are_refused_with_what_is_expected() {
    let server = start();
    for (rest, message) in [
        (r#""max_tokens": 0"#, "max_tokens: expected at least 1, got 0"),
        (r#""max_tokens": 5000"#, "max_tokens: expected at most max_model_len=2048, got 5000"),
        (r#""max_tokens": "x""#, "body.max_tokens: expected an integer, got x"),
        (r#""stop": [1]"#, "body.stop: expected a string or a list of at most 4 (items: a string), got a list of 1"),
        (r#""n": 0"#, "n: expected a number from 1 to 16384, got 0"),
        (r#""temperature": -1"#, "temperature: expected a number from 0 to 2, got -1"),
        (r#""min_tokens": 9, "max_tokens": 5"#, "min_tokens: expected at most max_tokens=5, got 9"),
        (r#""logprobs": 99"#, "logprobs: expected an integer from 0 to 20, got 99"),
        (r#""stream_options": {"include_usage": true}"#, "stream_options: expected only with stream"),
    ] {
        let reply = post(&server, "/v1/completions", &format!(r#"{{"model": "tiny", "prompt": "A", {rest}}}"#));
        assert_eq!((reply.status, reply.json()["error"]["message"].as_str()), (400, Some(message)));
    }
    assert_eq!(get(&server, "/nothing").text(), r#"{"detail":"Not Found"}"#);
    let wrong = get(&server, "/v1/completions");
    assert_eq!(
        (wrong.status, wrong.header("allow"), wrong.text().as_str()),
        (405, Some("POST"), r#"{"detail":"Method Not Allowed"}"#)
    );
    let mut client = Client::connect(server.addr());
    client.send("POST", "/v1/completions", "Content-Type: text/plain\r\n", r#"{"prompt": "A"}"#);
    assert_eq!(client.reply().unwrap().status, 400);
}

#[test]
fn a_prompt_that_the_kv_cache_can_never_hold_is_refused() {
    let base = spec(Profile::Instant);
    let engine = EngineSpec { num_blocks: 2, ..base.engine.clone() };
    let server = Server::start(SimSpec { engine, ..base }).unwrap();
    let reply = post(&server, "/v1/completions", &format!(r#"{{"prompt": "{}", "max_tokens": 1}}"#, "A ".repeat(50)));
    assert_eq!(reply.status, 400);
    assert!(reply.text().contains("num_blocks=2"), "{}", reply.text());
    assert_eq!(post(&server, "/v1/completions", r#"{"prompt": "A", "max_tokens": 1}"#).status, 200);
}

fn answer_text(server: &Server, rest: &str) -> String {
    let body = format!(r#"{{"prompt": "Hello, world", {rest}}}"#);
    let reply = post(server, "/v1/completions", &body).json();
    reply["choices"][0]["text"].as_str().unwrap().to_owned()
}

#[test]
fn the_same_seed_and_prompt_give_the_same_text_streamed_or_not() {
    let (one, two) = (start(), start());
    let whole = answer_text(&one, r#""max_tokens": 20, "ignore_eos": true"#);
    assert_eq!(whole, answer_text(&two, r#""max_tokens": 20, "ignore_eos": true"#));
    let body = r#"{"prompt": [15496, 11, 995], "max_tokens": 20, "ignore_eos": true, "stream": true}"#;
    let stream = post(&two, "/v1/completions", body).events();
    assert_eq!(stream.len(), 21, "a token per event, and the end");
    let texts = stream[..20].iter().map(|event| serde_json::from_str::<Value>(event).unwrap());
    let joined: String = texts.map(|event| event["choices"][0]["text"].as_str().unwrap().to_owned()).collect();
    assert_eq!(joined, whole);
    let other = Server::start(SimSpec { seed: 1, ..spec(Profile::Instant) }).unwrap();
    assert_ne!(whole, answer_text(&other, r#""max_tokens": 20, "ignore_eos": true"#));
}

#[test]
fn a_stop_string_ends_the_text_before_it() {
    let server = start();
    let whole = answer_text(&server, r#""max_tokens": 40, "ignore_eos": true"#);
    let (at, stop) = whole.char_indices().filter(|(_, c)| c.is_ascii_alphabetic()).nth(30).unwrap();
    let first = whole.find(stop).unwrap();
    let body = format!(r#"{{"prompt": "Hello, world", "max_tokens": 40, "ignore_eos": true, "stop": ["{stop}"]}}"#);
    let choice = post(&server, "/v1/completions", &body).json()["choices"][0].clone();
    assert_eq!(choice["text"], whole[..first], "{at}");
    assert_eq!(
        (choice["finish_reason"].as_str(), choice["stop_reason"].as_str()),
        (Some("stop"), Some(stop.to_string().as_str()))
    );
}

#[test]
fn natural_ends_have_reason_stop_and_count_the_end_token() {
    let base = spec(Profile::Instant);
    let engine = EngineSpec { mean_output_len: 1.0, ..base.engine.clone() };
    let server = Server::start(SimSpec { engine, ..base }).unwrap();
    let reply = post(&server, "/v1/chat/completions", r#"{"messages": [{"role": "user", "content": "hi"}]}"#).json();
    assert_eq!(reply["choices"][0]["finish_reason"], "stop");
    assert_eq!(
        (&reply["choices"][0]["message"]["content"], &reply["usage"]["completion_tokens"]),
        (&json!(""), &json!(1))
    );
}

#[test]
fn token_ids_and_logprobs_belong_to_the_text() {
    let server = start();
    let body =
        r#"{"prompt": [32], "max_tokens": 4, "ignore_eos": true, "n": 2, "logprobs": 3, "return_token_ids": true}"#;
    let reply = post(&server, "/v1/completions", body).json();
    assert_ne!(reply["choices"][0]["token_ids"], reply["choices"][1]["token_ids"]);
    for choice in reply["choices"].as_array().unwrap() {
        assert_eq!((choice["token_ids"].as_array().unwrap().len(), &choice["prompt_token_ids"]), (4, &json!([32])));
        let logprobs = &choice["logprobs"];
        for (token, top) in
            logprobs["tokens"].as_array().unwrap().iter().zip(logprobs["top_logprobs"].as_array().unwrap())
        {
            assert!(top.get(token.as_str().unwrap()).is_some_and(|value| value.as_f64() < Some(0.0)));
        }
    }
}

#[test]
fn metrics_count_events_and_the_prefix_cache_can_be_reset() {
    let server = start();
    let prompt = "one two three four five six seven eight nine ten ".repeat(8);
    let body = format!(r#"{{"prompt": "{prompt}", "max_tokens": 5, "ignore_eos": true}}"#);
    post(&server, "/v1/completions", &body);
    post(&server, "/v1/completions", &body);
    let value = |name: &str| {
        let page = get(&server, "/metrics");
        assert_eq!(page.header("content-type"), Some("text/plain; version=1.0.0; charset=utf-8"));
        let line = page.text().lines().find(|line| line.starts_with(name)).unwrap().to_owned();
        line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()
    };
    assert_eq!(value("vllm:generation_tokens_total"), 10.0);
    assert_eq!(value(r#"vllm:request_success_total{engine="0",finished_reason="length""#), 2.0);
    assert_eq!(value("vllm:inter_token_latency_seconds_count"), 8.0);
    assert_eq!(value("vllm:num_requests_running"), 0.0);
    let hits = value("vllm:prefix_cache_hits_total");
    assert!(hits >= 64.0 && hits < value("vllm:prefix_cache_queries_total"));
    assert_eq!(post(&server, "/reset_prefix_cache", "").text(), r#"{"success":true}"#);
    post(&server, "/v1/completions", &body);
    assert_eq!(value("vllm:prefix_cache_hits_total"), hits);
    for path in ["/reset_mm_cache", "/reset_encoder_cache", "/start_profile", "/stop_profile"] {
        assert_eq!(post(&server, path, "").status, 200);
    }
}

#[test]
fn a_cached_prefix_shortens_the_first_token() {
    let server = Server::start(spec(Profile::L4x8b)).unwrap();
    let body = format!(r#"{{"prompt": "{}", "max_tokens": 1}}"#, "word ".repeat(1000));
    let mut seen = vec![server.stats()];
    for _ in 0..2 {
        assert_eq!(post(&server, "/v1/completions", &body).status, 200);
        seen.push(server.stats());
    }
    let ttft = |at: usize| seen[at + 1].time_to_first_token.sum() - seen[at].time_to_first_token.sum();
    let tokens = |at: usize| seen[at + 1].iteration_tokens.sum() - seen[at].iteration_tokens.sum();
    assert!(tokens(0) >= 1000.0 && tokens(1) <= 16.0, "{} then {}", tokens(0), tokens(1));
    assert!(ttft(0) > 0.33 && ttft(1) < ttft(0) / 2.0, "{} then {}", ttft(0), ttft(1));
}

#[test]
fn request_ids_follow_the_header() {
    let server = start();
    let mut client = Client::connect(server.addr());
    for _ in 0..2 {
        let headers = "Content-Type: application/json\r\nX-Request-Id: mine-1\r\n";
        client.send("POST", "/v1/completions", headers, r#"{"prompt": "A", "max_tokens": 1}"#);
        assert_eq!(client.reply().unwrap().json()["id"], "cmpl-mine-1", "on one connection");
    }
}

#[test]
fn a_sleeping_server_reports_it_and_trailing_paths_exist() {
    let server = start();
    let sleeps = || get(&server, "/is_sleeping").json()["is_sleeping"] == true;
    assert_eq!((post(&server, "/sleep?level=1", "").status, sleeps()), (200, true));
    assert_eq!((post(&server, "/wake_up", "").status, sleeps()), (200, false));
    for path in ["/metrics/", "/docs", "/openapi.json"] {
        assert_eq!(get(&server, path).status, 200, "{path}");
    }
}
