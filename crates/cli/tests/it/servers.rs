//! Servers and proxies whose behavior would mislead: what the report says about them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::{io::Write, net::TcpStream, time::Duration};

use serde_json::Value;
use tacho_testkit::scripted::{Keep, Scripted};
use tacho_testkit::wire::write_plain;

use crate::tacho::{Place, stdout};

/// The report of eight requests of 16 tokens for 8 tokens each, and the codes of its warnings.
fn report(server: &Scripted, args: &[&str]) -> (String, Value) {
    let place = Place::new();
    let url = server.url();
    let all = [
        &["serve", "--base-url", &url, "--model", "m", "--tokenizer", "golden/tokenizers/gpt2", "--num-prompts", "8"][..],
        &["--random-input-len", "16", "--random-output-len", "8", "--max-concurrency", "1", "--no-log"],
        &["--save-result", "--result-filename", "r.json"],
        args,
    ];
    let output = place.run(&all.concat());
    (stdout(&output), place.json("r.json")["tacho"].clone())
}

fn codes(tacho: &Value) -> String {
    let all = tacho["caveats"].as_array().unwrap();
    all.iter().map(|caveat| caveat["kind"].as_str().unwrap()).collect::<Vec<_>>().join(" ")
}

/// A chat stream: a role, `count` tokens after `pause`, a finish reason, and the server's counts.
fn chat(stream: &mut TcpStream, count: usize, pause: Duration, prompt_tokens: u64) {
    let mut send = |delta: &str, finish: &str, usage: &str| {
        let event = format!(
            "data: {{\"choices\": [{{\"index\": 0, \"delta\": {delta}, \"finish_reason\": {finish}}}]{usage}}}\n\n"
        );
        let _ = write!(stream, "{:x}\r\n{event}\r\n", event.len());
    };
    send("{\"role\": \"assistant\", \"content\": \"\"}", "null", "");
    std::thread::sleep(pause);
    for _ in 0..count {
        send("{\"content\": \" a\"}", "null", "");
        std::thread::sleep(Duration::from_millis(2));
    }
    let usage = format!(", \"usage\": {{\"prompt_tokens\": {prompt_tokens}, \"completion_tokens\": {count}}}");
    send("{}", "\"length\"", &usage);
    let _ = stream.write_all(b"0\r\n\r\n");
}

fn chat_server(count: usize, pause: Duration, prompt_tokens: u64, metrics: &'static [u64]) -> Scripted {
    let scrapes = AtomicU64::new(0);
    Scripted::start(move |seen, stream| {
        match (seen.path(), metrics) {
            ("/v1/chat/completions", _) => {
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
                chat(stream, count, pause, prompt_tokens);
            }
            ("/metrics", [_, ..]) => {
                let at = scrapes.fetch_add(1, Ordering::Relaxed) as usize;
                let page = format!("# TYPE a_total counter\na_total {}\n", metrics[at % metrics.len()]);
                let _ = write_plain(stream, 200, "OK", "text/plain", page.as_bytes());
            }
            _ => drop(write_plain(stream, 404, "Not Found", "text/plain", b"")),
        }
        Keep::Open
    })
}

const CHAT: [&str; 2] = ["--backend", "openai-chat"];

#[test]
fn a_role_before_the_content_is_not_the_first_token() {
    let (shown, tacho) = report(&chat_server(8, Duration::from_millis(60), 20, &[]), &CHAT);
    assert!(codes(&tacho).contains("content_later"), "{}", codes(&tacho));
    assert!(shown.contains("content p50 ms"), "{shown}");
    // Eight tokens have seven gaps; vLLM counts those after the role and before the finish reason too.
    assert_eq!(tacho["itl_per_token_source"], "events");
    let (own, content) = (tacho["mean_itl_per_token_ms"].as_f64(), tacho["median_ttft_first_content_ms"].as_f64());
    assert!(own.unwrap() < 20.0 && content.unwrap() >= 60.0, "{tacho}");
}

#[test]
fn counts_that_contradict_the_request_are_reported() {
    let (_, tacho) = report(&chat_server(30, Duration::ZERO, 900, &[]), &CHAT);
    let codes = codes(&tacho);
    assert!(codes.contains("outputs_longer") && codes.contains("tokenizer_mismatch"), "{codes}");
}

#[test]
fn metrics_of_several_servers_are_left_out() {
    let args = [&CHAT[..], &["--metrics-interval", "0.05"]].concat();
    let (_, mixed) = report(&chat_server(8, Duration::from_millis(20), 20, &[500, 700, 400]), &args);
    assert!(codes(&mixed).contains("metrics_mixed"), "{}", codes(&mixed));
    let (_, one) = report(&chat_server(8, Duration::from_millis(20), 20, &[500, 500]), &args);
    assert!(!codes(&one).contains("metrics_mixed"), "{}", codes(&one));
}

#[test]
fn a_response_in_one_piece_has_no_time_per_token() {
    let server = Scripted::start(|_, stream| {
        let body = r#"{"choices": [{"text": " a a a"}], "usage": {"prompt_tokens": 16, "completion_tokens": 8}}"#;
        write_plain(stream, 200, "OK", "application/json", body.as_bytes()).map_or(Keep::Close, |()| Keep::Open)
    });
    let (shown, _) = report(&server, &["--extra-body", r#"{"stream": false}"#]);
    let block = shown.split_once("- tacho -").map_or(shown.as_str(), |(_, block)| block);
    let row = block.lines().find(|line| line.starts_with("TPOT")).unwrap_or_default();
    assert_eq!(row.split_whitespace().collect::<Vec<_>>(), ["TPOT", "p50", "ms", "–", "–"], "{shown}");
}
