//! Injected faults, as a client sees them.

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use tacho_engine::Profile;
use tacho_sim::{FaultSpec, OutputFault, Server, SimSpec};

use crate::client::{Client, get, post, spec};

const STREAM: &str = r#"{"prompt": "A", "max_tokens": 50, "ignore_eos": true, "stream": true}"#;

fn server(faults: FaultSpec) -> Server {
    Server::start(SimSpec { faults, ..spec(Profile::Instant) }).unwrap()
}

#[test]
fn errors_come_before_the_stream() {
    let server = server(FaultSpec { error_rate: 1.0, ..FaultSpec::default() });
    let reply = post(&server, "/v1/completions", STREAM);
    assert_eq!((reply.status, reply.json()["error"]["type"].as_str()), (500, Some("InternalServerError")));
    assert_eq!(get(&server, "/health").status, 200);
}

#[test]
fn error_events_come_inside_the_stream() {
    let server = server(FaultSpec { stream_error_rate: 1.0, seed: 3, ..FaultSpec::default() });
    let events = post(&server, "/v1/completions", STREAM).events();
    let (done, rest) = events.split_last().unwrap();
    let (error, tokens) = rest.split_last().unwrap();
    assert_eq!(done, "[DONE]");
    assert!(error.starts_with(r#"{"error":{"message":"#) && error.ends_with(r#""code":500}}"#), "{error}");
    assert!(tokens.len() < 50);
}

#[test]
fn truncated_streams_end_cleanly_without_done() {
    let server = server(FaultSpec { truncate_rate: 1.0, ..FaultSpec::default() });
    let events = post(&server, "/v1/completions", STREAM).events();
    assert!(events.len() < 50 && events.iter().all(|event| event != "[DONE]"));
    let whole = post(&server, "/v1/completions", r#"{"prompt": "A", "max_tokens": 5}"#);
    assert_eq!(whole.status, 200);
    assert!(serde_json::from_str::<serde_json::Value>(&whole.text()).is_err(), "an answer in one piece is cut too");
}

#[test]
fn disconnects_reset_the_connection() {
    let server = server(FaultSpec { disconnect_rate: 1.0, ..FaultSpec::default() });
    for body in [STREAM, r#"{"prompt": "A", "max_tokens": 5}"#] {
        let mut client = Client::connect(server.addr());
        client.send("POST", "/v1/completions", "Content-Type: application/json\r\n", body);
        assert_eq!(client.reply().unwrap_err().kind(), ErrorKind::ConnectionReset);
    }
}

#[test]
fn stalls_delay_but_lose_nothing() {
    let pause = Duration::from_millis(30);
    let server = server(FaultSpec { stall: Some((1.0, pause)), ..FaultSpec::default() });
    for body in [STREAM, r#"{"prompt": "A", "max_tokens": 50, "ignore_eos": true}"#] {
        let begin = Instant::now();
        let reply = post(&server, "/v1/completions", body);
        assert!(begin.elapsed() >= pause);
        if body == STREAM {
            assert_eq!(reply.events().len(), 51);
        } else {
            assert_eq!(reply.json()["usage"]["completion_tokens"], 50);
        }
    }
}

#[test]
fn nothing_is_served_before_the_start_delay_is_over() {
    let server = server(FaultSpec { start_delay: Duration::from_secs(3600), ..FaultSpec::default() });
    assert_eq!(get(&server, "/health").status, 503);
    assert_eq!(post(&server, "/v1/completions", STREAM).status, 503);
}

#[test]
fn the_same_requests_fail_under_the_same_seed() {
    let fates = |seed: u64| -> Vec<u16> {
        let server = server(FaultSpec { error_rate: 0.5, seed, ..FaultSpec::default() });
        (0..20).map(|_| post(&server, "/v1/completions", r#"{"prompt": "A", "max_tokens": 1}"#).status).collect()
    };
    assert_eq!(fates(1), fates(1));
    assert_ne!(fates(1), fates(2));
    assert!(fates(1).contains(&200) && fates(1).contains(&500));
}

#[test]
fn planted_output_faults_change_the_text_and_nothing_else() {
    let text = |faults: &str, body: &str, warm: &[&str]| {
        let outputs = faults.split_whitespace().map(|fault| OutputFault::parse(fault).unwrap()).collect();
        let faults = FaultSpec { outputs, ..FaultSpec::default() };
        let lora_modules = vec!["one".to_owned(), "two".to_owned()];
        let server = Server::start(SimSpec { faults, lora_modules, ..spec(Profile::Instant) }).unwrap();
        warm.iter().for_each(|body| drop(post(&server, "/v1/completions", body)));
        let reply = post(&server, "/v1/completions", body).json();
        assert_eq!(reply["usage"]["completion_tokens"], 30, "{reply}");
        reply["choices"][0]["text"].as_str().unwrap().to_owned()
    };
    let body = |model: &str| {
        let prompt = "word ".repeat(100);
        format!(r#"{{"model": "{model}", "prompt": "{prompt}", "max_tokens": 30, "ignore_eos": true}}"#)
    };
    let (base, one, two) = (body("tiny"), body("one"), body("two"));
    let right = text("", &base, &[]);
    assert_eq!(right, text("swap:1 adapter:1 stale:1 flip:1@1", &base, &[]), "none of them can happen");
    let (of_one, of_two) = (text("", &one, &[]), text("", &two, &[]));
    assert!(right != of_one && of_one != of_two);
    assert_eq!(text("adapter:1", &one, &[]), of_two);
    assert_ne!(text("stale:1", &base, &[&base]), right, "its prompt is cached");
    assert_ne!(text("flip:1", &base, &[]), right);
    let noisy = text("noise:1", &base, &[]);
    assert!(noisy != right && noisy == text("noise:1", &base, &[&one, &two]));
    let cut = text("cut:1", &base, &[]);
    assert!(right.starts_with(&cut) && cut.len() < right.len());
}
