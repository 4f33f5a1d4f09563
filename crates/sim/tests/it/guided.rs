//! Structured output and tool calls in every protocol that has them, streamed or not.

use serde_json::{Value, json};
use tacho_engine::{EngineSpec, Policy, Profile, Transfer};
use tacho_sim::{ProxySpec, Server, SimSpec, start_proxy};

use crate::client::{Client, Reply, get, post, spec, start};

fn schema() -> Value {
    json!({"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1, "maximum": 3}},
           "required": ["city", "days"], "additionalProperties": false})
}

fn is_weather(text: &str) {
    let value: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert!(value["city"].is_string() && (1..=3).contains(&value["days"].as_i64().unwrap()), "{text}");
    assert_eq!(value.as_object().unwrap().len(), 2);
}

fn chat(server: &Server, more: Value) -> Reply {
    let mut body = json!({"model": "tiny", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 200});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    post(server, "/v1/chat/completions", &body.to_string())
}

/// The concatenated text of a stream's choices.
fn streamed(reply: &Reply, member: impl Fn(&Value) -> Option<String>) -> String {
    let events = reply.events();
    assert_eq!(events.last().unwrap(), "[DONE]");
    events[..events.len() - 1].iter().filter_map(|event| member(&serde_json::from_str(event).unwrap())).collect()
}

#[test]
fn every_constraint_is_obeyed_whole_and_streamed() {
    let server = start();
    let grammar = "root ::= \"SELECT \" column \" from t\"\ncolumn ::= \"col_1\" | \"col_2\"";
    type Judge = fn(&str);
    let cases: [(Value, Judge); 6] = [
        (
            json!({"response_format": {"type": "json_schema", "json_schema": {"name": "w", "schema": schema()}}}),
            is_weather,
        ),
        (json!({"structured_outputs": {"json": schema()}}), is_weather),
        (json!({"structured_outputs": {"regex": r"\w+@\w+\.com\n"}}), |text| {
            assert!(text.ends_with(".com\n") && text.contains('@'), "{text}");
        }),
        (json!({"structured_outputs": {"choice": ["Positive", "Negative"]}}), |text| {
            assert!(["Positive", "Negative"].contains(&text));
        }),
        (json!({"structured_outputs": {"grammar": grammar}}), |text| {
            assert!(["SELECT col_1 from t", "SELECT col_2 from t"].contains(&text));
        }),
        (json!({"response_format": {"type": "json_object"}}), |text| {
            assert!(serde_json::from_str::<Value>(text).unwrap().is_object());
        }),
    ];
    for (more, judge) in cases {
        for seed in 0..8 {
            let mut more = more.clone();
            more["seed"] = json!(seed);
            let whole = chat(&server, more.clone()).json();
            assert_eq!(whole["choices"][0]["finish_reason"], "stop", "{whole}");
            let text = whole["choices"][0]["message"]["content"].as_str().unwrap().to_owned();
            judge(&text);
            more["stream"] = json!(true);
            let stream = chat(&server, more.clone());
            let content = |event: &Value| event["choices"][0]["delta"]["content"].as_str().map(str::to_owned);
            assert_eq!(streamed(&stream, content), text, "a stream says the same");
            let mut body = more;
            body["prompt"] = json!("Hi");
            body["max_tokens"] = json!(200);
            let part = |event: &Value| event["choices"][0]["text"].as_str().map(str::to_owned);
            judge(&streamed(&post(&server, "/v1/completions", &body.to_string()), part));
        }
    }
}

#[test]
fn a_text_beyond_the_limit_is_truncated_and_reported() {
    let server = start();
    let reply = chat(&server, json!({"max_tokens": 3, "structured_outputs": {"json": schema()}})).json();
    assert_eq!(reply["choices"][0]["finish_reason"], "length");
    assert_eq!(reply["usage"]["completion_tokens"], 3);
    let filled =
        chat(&server, json!({"max_tokens": 12, "ignore_eos": true, "structured_outputs": {"choice": ["Yes"]}}));
    assert_eq!(filled.json()["usage"]["completion_tokens"], 12);
    assert_eq!(filled.json()["choices"][0]["message"]["content"], "Yes");
}

fn tools() -> Value {
    json!([{"type": "function", "function": {"name": "get_weather", "parameters": schema()}},
           {"type": "function", "function": {"name": "other"}}])
}

#[test]
fn tools_are_called_with_arguments_by_their_schema() {
    let server = start();
    let named = json!({"type": "function", "function": {"name": "get_weather"}});
    for (choice, reason) in [(named, "stop"), (json!("required"), "tool_calls"), (json!("auto"), "tool_calls")] {
        let whole = chat(&server, json!({"tools": tools(), "tool_choice": choice})).json();
        let message = &whole["choices"][0]["message"];
        assert_eq!((whole["choices"][0]["finish_reason"].as_str(), &message["content"]), (Some(reason), &Value::Null));
        let call = &message["tool_calls"][0];
        assert!(call["id"].as_str().unwrap().starts_with("chatcmpl-tool-") && call["type"] == "function");
        let arguments = call["function"]["arguments"].as_str().unwrap();
        if call["function"]["name"] == "get_weather" {
            is_weather(arguments);
        }
        let stream = chat(&server, json!({"tools": tools(), "tool_choice": choice, "stream": true}));
        let part = |event: &Value| {
            event["choices"][0]["delta"]["tool_calls"][0]["function"]["arguments"].as_str().map(str::to_owned)
        };
        assert_eq!(streamed(&stream, part), arguments);
        let events: Vec<Value> = stream.events().iter().filter_map(|event| serde_json::from_str(event).ok()).collect();
        let first = &events[1]["choices"][0]["delta"];
        assert_eq!(first["tool_calls"][0]["function"]["name"], call["function"]["name"]);
        assert_eq!((&first["content"], &first["tool_calls"][0]["index"]), (&Value::Null, &json!(0)));
        assert_eq!(events.last().unwrap()["choices"][0]["finish_reason"], reason);
    }
    let none = chat(&server, json!({"tools": tools(), "tool_choice": "none"})).json();
    assert!(none["choices"][0]["message"]["content"].is_string());
    let answered = json!({"tools": tools(), "messages": [{"role": "user", "content": "Hi"},
        {"role": "assistant", "content": null, "tool_calls": [{"id": "a", "type": "function", "function": {"name": "other", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "a", "content": "sunny"}]});
    assert!(chat(&server, answered).json()["choices"][0]["message"]["content"].is_string(), "a result ends the loop");
}

#[test]
fn messages_follow_anthropics_protocol() {
    let server = start();
    let body = |more: Value| {
        let mut body = json!({"model": "tiny", "max_tokens": 60, "messages": [{"role": "user", "content": "Hi"}]});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        post(&server, "/v1/messages", &body.to_string())
    };
    let whole = body(json!({"max_tokens": 4})).json();
    assert_eq!(
        (whole["stop_reason"].as_str(), &whole["usage"]),
        (Some("max_tokens"), &json!({"input_tokens": 15, "output_tokens": 4}))
    );
    let text = body(json!({"max_tokens": 4, "stream": true})).text();
    let kinds: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("event: ")).collect();
    assert_eq!(kinds.first(), Some(&"message_start"));
    assert_eq!(kinds[kinds.len() - 3..], ["content_block_stop", "message_delta", "message_stop"]);
    assert_eq!(kinds.iter().filter(|kind| **kind == "content_block_delta").count(), 4);
    let tool = json!({"tools": [{"name": "get_weather", "input_schema": schema()}], "tool_choice": {"type": "any"}});
    let called = body(tool.clone()).json();
    assert_eq!(
        (called["stop_reason"].as_str(), called["content"][0]["type"].as_str()),
        (Some("tool_use"), Some("tool_use"))
    );
    is_weather(&called["content"][0]["input"].to_string());
    let mut streams = tool;
    streams["stream"] = json!(true);
    let text = body(streams).text();
    let partial: String = text
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line.strip_prefix("data: ")?).ok())
        .filter_map(|event| event["delta"]["partial_json"].as_str().map(str::to_owned))
        .collect();
    is_weather(&partial);
    let counted =
        post(&server, "/v1/messages/count_tokens", r#"{"model":"tiny","messages":[{"role":"user","content":"Hi"}]}"#);
    assert_eq!(counted.text(), r#"{"input_tokens":15,"context_management":{"original_input_tokens":15}}"#);
}

#[test]
fn responses_call_tools_follow_formats_and_continue_earlier_ones() {
    let server = start();
    let ask = |body: Value| post(&server, "/v1/responses", &body.to_string());
    let tool = json!({"type": "function", "name": "get_weather", "parameters": schema()});
    let called = ask(json!({"model": "tiny", "input": "Hi", "tools": [tool], "tool_choice": "required"})).json();
    assert_eq!(called["output"][0]["type"], "function_call");
    is_weather(called["output"][0]["arguments"].as_str().unwrap());
    let format = json!({"format": {"type": "json_schema", "name": "w", "schema": schema()}});
    let text = ask(json!({"model": "tiny", "input": "Hi", "text": format})).json();
    is_weather(text["output"][0]["content"][0]["text"].as_str().unwrap());
    let first = ask(json!({"model": "tiny", "input": "Hi", "max_output_tokens": 8})).json();
    let id = first["id"].as_str().unwrap();
    let second =
        ask(json!({"model": "tiny", "input": "More", "max_output_tokens": 8, "previous_response_id": id})).json();
    let tokens = |response: &Value| response["usage"]["input_tokens"].as_i64().unwrap();
    assert!(tokens(&second) > tokens(&first) + 8, "the first answer is part of the second prompt");
    assert_eq!(get(&server, &format!("/v1/responses/{id}")).json()["id"], id);
    let unknown = ask(json!({"model": "tiny", "input": "More", "previous_response_id": "resp_nope"}));
    assert_eq!((unknown.status, unknown.json()["error"]["param"].as_str()), (404, Some("response_id")));
}

#[test]
fn other_servers_ways_to_generate() {
    let server = start();
    let sglang = r#"{"text": "Hi", "sampling_params": {"max_new_tokens": 4, "ignore_eos": true}}"#;
    let reply = post(&server, "/generate", sglang).json();
    assert_eq!(reply["meta_info"]["completion_tokens"], 4);
    assert_eq!(reply["meta_info"]["finish_reason"]["type"], "length");
    let stream = post(&server, "/generate", &sglang.replace("\"text\"", "\"stream\": true, \"text\""));
    let events = stream.events();
    assert_eq!((events.len(), events[4].as_str()), (5, "[DONE]"));
    let last: Value = serde_json::from_str(&events[3]).unwrap();
    assert_eq!(last["text"], reply["text"], "each event has the text so far");
    let tgi = r#"{"inputs": "Hi", "parameters": {"max_new_tokens": 4, "details": true}}"#;
    assert!(post(&server, "/", tgi).json()["generated_text"].is_string());
    let only =
        post(&server, "/v1/completions", r#"{"prompt": "Hello there", "max_tokens": 0, "echo": true, "logprobs": 1}"#)
            .json();
    assert_eq!(only["choices"][0]["text"], "Hello there");
    assert_eq!(only["choices"][0]["logprobs"]["tokens"], json!(["Hello", " there"]));
    assert_eq!(only["usage"]["completion_tokens"], 1);
    assert_eq!(get(&server, "/load").text(), r#"{"server_load":0}"#);
    assert_eq!(get(&server, "/is_sleeping").text(), r#"{"is_sleeping":false}"#);
    let info = get(&server, "/server_info?config_format=json").json();
    assert_eq!(info["vllm_config"]["scheduler_config"]["policy"], "fcfs");
}

#[test]
fn cached_tokens_are_reported_and_salts_separate_caches() {
    let server = Server::start(SimSpec { prompt_tokens_details: true, ..spec(Profile::Instant) }).unwrap();
    let prompt = "word ".repeat(64);
    let cached = |salt: &str| {
        let body = json!({"prompt": prompt, "max_tokens": 1, "cache_salt": salt});
        let usage = post(&server, "/v1/completions", &body.to_string()).json()["usage"].clone();
        usage["prompt_tokens_details"]["cached_tokens"].as_i64()
    };
    assert_eq!((cached("a"), cached("a"), cached("b")), (None, Some(64), None));
    let mut client = Client::connect(server.addr());
    client.send("POST", "/reset_prefix_cache", "", "");
    assert_eq!(client.reply().unwrap().text(), r#"{"success":true}"#);
    assert_eq!(cached("a"), None);
}

#[test]
fn times_of_a_response_are_those_of_the_engine() {
    let server = Server::start(SimSpec { per_request_metrics: true, ..spec(Profile::Tiny) }).unwrap();
    let body = |stream: bool, count: usize| {
        let options = stream.then(|| json!({"include_usage": true}));
        let prompt = "word ".repeat(50);
        json!({"prompt": prompt, "max_tokens": 4, "ignore_eos": true, "stream": stream, "n": count, "stream_options": options})
    };
    let whole = post(&server, "/v1/completions", &body(false, 1).to_string()).json()["metrics"].clone();
    let streamed = post(&server, "/v1/completions", &body(true, 1).to_string()).events();
    let last: Value = serde_json::from_str(&streamed[streamed.len() - 2]).unwrap();
    let stats = server.stats();
    let sum = |key: &str| whole[key].as_f64().unwrap() + last["metrics"][key].as_f64().unwrap();
    for (key, own) in [
        ("queue_time_ms", &stats.queue_time),
        ("time_to_first_token_ms", &stats.prefill_time),
        ("generation_time_ms", &stats.decode_time),
    ] {
        assert!((sum(key) - own.sum() * 1e3).abs() < 0.002, "{key}: {whole} {last}");
    }
    assert!((sum("mean_itl_ms") - sum("generation_time_ms") / 3.0).abs() < 1e-9);
    assert!(whole["speculative_decoding"].is_null() && last["metrics"].as_object().unwrap().len() == 5);
    let several = post(&server, "/v1/completions", &body(false, 2).to_string()).json();
    assert!(several["metrics"].is_null() && several["choices"].as_array().unwrap().len() == 2);
}

#[test]
fn a_proxy_splits_prefill_and_decode() {
    let transfer = Transfer { fixed_ns: 2e7, per_token_ns: 0.0 };
    let base = spec(Profile::Tiny);
    let engine = EngineSpec { transfer, ..base.engine.clone() };
    let (prefill, decode) = (Server::start(base.clone()).unwrap(), Server::start(SimSpec { engine, ..base }).unwrap());
    let url = |server: &Server| format!("http://{}", server.addr());
    let listen = "127.0.0.1:0".parse().unwrap();
    let proxy = start_proxy(&ProxySpec { listen, prefill: url(&prefill), decode: url(&decode) }).unwrap();
    let body = json!({"prompt": "word ".repeat(100), "max_tokens": 6, "ignore_eos": true, "stream": true});
    let mut client = Client::connect(proxy.addr());
    let before = std::time::Instant::now();
    client.send("POST", "/v1/completions", "Content-Type: application/json\r\n", &body.to_string());
    assert_eq!(client.reply().unwrap().events().len(), 7);
    assert!(before.elapsed() >= std::time::Duration::from_millis(20), "the way between them takes time");
    let (first, second) = (prefill.stats(), decode.stats());
    assert_eq!((first.generation_tokens, second.generation_tokens), (1, 6));
    assert_eq!((second.external_cache_queries, second.external_cache_hits), (101, 100));
    client.send("GET", "/v1/models", "", "");
    assert_eq!(client.reply().unwrap().json()["data"][0]["id"], "tiny");
}

#[test]
fn urgent_requests_go_first_under_the_priority_policy() {
    let base = spec(Profile::Tiny);
    let engine = EngineSpec { max_num_seqs: 1, policy: Policy::Priority, ..base.engine.clone() };
    let server = Server::start(SimSpec { engine, ..base }).unwrap();
    let send = |headers: &str, body: &str| {
        let mut client = Client::connect(server.addr());
        client.send("POST", "/v1/completions", &format!("Content-Type: application/json\r\n{headers}"), body);
        client
    };
    let mut running = send("", r#"{"prompt": "A", "max_tokens": 400, "ignore_eos": true, "stream": true}"#);
    running.head().unwrap();
    running.chunk().unwrap();
    let mut late = send("", r#"{"prompt": "B", "max_tokens": 200, "ignore_eos": true, "priority": 5}"#);
    while server.stats().waiting < 1 {}
    let mut urgent = send("X-Vllm-Priority: -3\r\n", r#"{"prompt": "C", "max_tokens": 2, "priority": 9}"#);
    while server.stats().waiting < 2 {}
    running.reply_rest().unwrap();
    urgent.reply().unwrap();
    assert_eq!(server.stats().waiting + server.stats().running, 1, "the other has not finished");
    assert_eq!(late.reply().unwrap().status, 200);
}
