//! Non-streamed pooling responses: the format that vLLM 0.32.0 sends, costs, and faults.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::Value;
use tacho_engine::Profile;
use tacho_sim::{FaultSpec, Server, SimSpec};

use crate::client::{Client, post, spec, start};

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks(4).map(|four| f32::from_le_bytes(four.try_into().unwrap())).collect()
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn embeddings_are_the_same_numbers_in_every_encoding() {
    let server = start();
    let ask = |encoding: &str| {
        let body = format!(
            r#"{{"model": "tiny", "input": ["Hello", "a b"], "encoding_format": "{encoding}", "dimensions": 8}}"#
        );
        post(&server, "/v1/embeddings", &body)
    };
    let plain = ask("float").json();
    assert_eq!(keys(&plain), ["id", "object", "created", "model", "data", "usage"]);
    assert_eq!(keys(&plain["data"][0]), ["index", "object", "embedding"]);
    assert_eq!(
        plain["usage"].to_string(),
        r#"{"prompt_tokens":3,"total_tokens":3,"completion_tokens":0,"prompt_tokens_details":null,"completion_tokens_details":null}"#
    );
    let numbers: Vec<f32> = plain["data"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|row| row["embedding"].as_array().unwrap())
        .map(|number| number.as_f64().unwrap() as f32)
        .collect();
    assert_eq!(numbers.len(), 16);
    let texts = ask("base64").json();
    let decoded = STANDARD.decode(texts["data"][1]["embedding"].as_str().unwrap()).unwrap();
    assert_eq!(floats(&decoded), numbers[8..]);
    let bytes = ask("bytes");
    assert_eq!(floats(&bytes.chunks.concat()), numbers);
    assert_eq!(bytes.header("content-type"), Some("application/octet-stream"));
    let metadata: Value = serde_json::from_str(bytes.header("metadata").unwrap()).unwrap();
    assert_eq!(metadata["usage"]["prompt_tokens"], 3);
    assert_eq!(
        metadata["data"][1].to_string(),
        r#"{"index":1,"embed_dtype":"float32","endianness":"native","start":32,"end":64,"shape":[8]}"#
    );
    let bare = ask("bytes_only");
    assert_eq!((bare.header("metadata"), bare.chunks.concat() == bytes.chunks.concat()), (None, true));
    assert_eq!(ask("nonsense").status, 400);
}

#[test]
fn embeddings_take_texts_ids_lists_and_conversations() {
    let server = start();
    for (input, rows, tokens) in [
        (r#""input": "Hello""#, 1, 1),
        (r#""input": [1, 2, 3]"#, 1, 3),
        (r#""input": [[1, 2], [3]]"#, 2, 3),
        (r#""messages": [{"role": "user", "content": "hi"}], "add_generation_prompt": false"#, 1, 8),
    ] {
        let answer = post(&server, "/v1/embeddings", &format!(r#"{{"model": "tiny", {input}}}"#)).json();
        assert_eq!(answer["data"].as_array().map(Vec::len), Some(rows), "{answer}");
        assert_eq!(answer["usage"]["prompt_tokens"], tokens, "{input}");
        assert_eq!(answer["data"][0]["embedding"].as_array().map(Vec::len), Some(384));
    }
    for bad in [r#"{}"#, r#"{"input": ""}"#, r#"{"input": []}"#, r#"{"input": [""]}"#, r#"{"input": 5}"#] {
        assert_eq!(post(&server, "/v1/embeddings", bad).status, 400, "{bad}");
    }
    assert_eq!(post(&server, "/v1/embeddings", r#"{"model": "x", "input": "a"}"#).status, 404);
}

#[test]
fn long_inputs_are_cut_when_asked_for_and_refused_otherwise() {
    let server = start();
    let long = "a ".repeat(4000);
    let body = |rest: &str| format!(r#"{{"input": "{long}"{rest}}}"#);
    assert_eq!(post(&server, "/v1/embeddings", &body("")).status, 400);
    let cut = post(&server, "/v1/embeddings", &body(r#", "truncate_prompt_tokens": -1"#)).json();
    assert_eq!(cut["usage"]["prompt_tokens"], 2048);
}

#[test]
fn pooling_scores_and_ranks() {
    let server = start();
    let pooled = post(&server, "/pooling", r#"{"model": "tiny", "input": "Hello"}"#).json();
    assert_eq!(keys(&pooled["data"][0]), ["index", "object", "data"]);
    assert_eq!(pooled["data"][0]["object"], "pooling");
    let infinity = post(&server, "/embeddings", r#"{"model": "tiny", "input": ["a", "b"]}"#).json();
    assert_eq!(keys(&infinity), ["object", "data", "model", "usage", "id", "created"]);
    let scores = post(&server, "/score", r#"{"text_1": "q", "text_2": ["Hello", "a b"]}"#).json();
    let score = |at: usize| scores["data"][at]["score"].as_f64().unwrap();
    assert_eq!((scores["usage"]["prompt_tokens"].as_u64(), score(0) != score(1)), (Some(5), true));
    for path in ["/rerank", "/v1/rerank", "/v2/rerank"] {
        let ranked = post(&server, path, r#"{"query": "q", "documents": ["Hello", "a b"]}"#).json();
        assert_eq!(keys(&ranked), ["id", "model", "usage", "results"]);
        let results = ranked["results"].as_array().unwrap();
        assert_eq!(keys(&results[0]), ["index", "document", "relevance_score"]);
        for result in results {
            assert_eq!(result["relevance_score"].as_f64(), Some(score(result["index"].as_u64().unwrap() as usize)));
        }
        assert!(results[0]["relevance_score"].as_f64() > results[1]["relevance_score"].as_f64());
    }
    let first = post(&server, "/rerank", r#"{"query": "q", "documents": ["a", "b", "c"], "top_n": 1}"#).json();
    assert_eq!(first["results"].as_array().map(Vec::len), Some(1));
    assert_eq!(post(&server, "/rerank", r#"{"query": "q", "documents": []}"#).status, 400);
}

#[test]
fn pooling_counts_prompts_but_no_generated_tokens() {
    let server = start();
    post(&server, "/v1/embeddings", r#"{"input": [[1, 2, 3], [4]]}"#);
    let stats = server.stats();
    assert_eq!((stats.prompt_tokens, stats.generation_tokens, stats.finished_stop), (4, 0, 2));
}

#[test]
fn every_fault_strikes_pooling_too() {
    let body = r#"{"input": "Hello"}"#;
    let faulty = |faults: FaultSpec| Server::start(SimSpec { faults, ..spec(Profile::Instant) }).unwrap();
    let server = faulty(FaultSpec { error_rate: 1.0, ..FaultSpec::default() });
    assert_eq!(post(&server, "/v1/embeddings", body).status, 500);
    let server = faulty(FaultSpec { stream_error_rate: 1.0, ..FaultSpec::default() });
    assert_eq!(post(&server, "/v1/embeddings", body).status, 500);
    let server = faulty(FaultSpec { truncate_rate: 1.0, ..FaultSpec::default() });
    let cut = post(&server, "/v1/embeddings", body);
    assert!(cut.status == 200 && serde_json::from_str::<Value>(&cut.text()).is_err());
    let server = faulty(FaultSpec { disconnect_rate: 1.0, ..FaultSpec::default() });
    let mut client = Client::connect(server.addr());
    client.send("POST", "/v1/embeddings", "Content-Type: application/json\r\n", body);
    assert!(client.reply().is_err());
}

#[test]
fn inputs_and_parameters_of_pooling_requests_are_bounded() {
    let server = start();
    let many = format!(r#"{{"model": "tiny", "input": [{}]}}"#, vec![r#""a""#; 2_049].join(","));
    assert_eq!(post(&server, "/v1/embeddings", &many).status, 400);
    for bad in [r#""dimensions": 0"#, r#""truncate_prompt_tokens": -2"#] {
        let body = format!(r#"{{"model": "tiny", "input": "a", {bad}}}"#);
        assert_eq!(post(&server, "/v1/embeddings", &body).status, 400, "{bad}");
    }
    let rerank = r#"{"model": "tiny", "query": "a", "documents": ["b"], "top_n": -1}"#;
    assert_eq!(post(&server, "/rerank", rerank).status, 400);
}
