//! Requests that exceed limits, and clients that disconnect in the middle of them.

use std::time::{Duration, Instant};

use tacho_engine::Profile;
use tacho_sim::Server;

use crate::client::{Client, post, spec, start};

const JSON: &str = "Content-Type: application/json\r\n";

/// Waits until the engine has no waiting and no running requests; each poll goes through the engine.
fn settle(server: &Server) {
    let patience = Instant::now() + Duration::from_secs(60);
    loop {
        assert_eq!(post(server, "/v1/completions", r#"{"prompt": "A", "max_tokens": 1}"#).status, 200);
        let stats = server.stats();
        if stats.waiting == 0 && stats.running == 0 {
            return;
        }
        assert!(Instant::now() < patience, "{} wait, {} run", stats.waiting, stats.running);
    }
}

#[test]
fn too_many_choices_and_prompts_are_refused() {
    let server = start();
    for (body, message) in [
        (r#"{"prompt": "A", "n": 1000000000}"#.to_owned(), "n: expected a number from 1 to 16384, got 1000000000"),
        (format!(r#"{{"prompt": [{}"A"]}}"#, r#""A","#.repeat(1024)), "prompt: expected at most 1024 prompts"),
    ] {
        let reply = post(&server, "/v1/completions", &body);
        assert_eq!((reply.status, reply.json()["error"]["message"].as_str()), (400, Some(message)));
    }
}

#[test]
fn a_prompt_of_sixty_megabytes_is_refused_before_it_is_counted() {
    let server = start();
    let text = "a ".repeat(30_000_000);
    let before = Instant::now();
    let reply = post(&server, "/v1/completions", &format!(r#"{{"prompt": "{text}"}}"#));
    assert_eq!(reply.status, 400);
    assert!(reply.text().contains("tokens, got 60000000"), "{}", reply.text());
    assert!(before.elapsed() < Duration::from_secs(20));
    let messages = format!(r#"{{"messages": [{{"role": "user", "content": "{text}"}}]}}"#);
    assert_eq!(post(&server, "/v1/chat/completions", &messages).status, 400);
}

#[test]
fn a_body_beyond_the_limit_is_not_read() {
    let server = start();
    let mut client = Client::connect(server.addr());
    client.send_head("POST", "/v1/completions", JSON, 100_000_000);
    let reply = client.reply().unwrap();
    assert_eq!((reply.status, reply.text().contains("larger than 67108864 bytes")), (413, true));
}

#[test]
fn a_disconnect_cancels_all_choices() {
    let server = Server::start(spec(Profile::Tiny)).unwrap();
    let body = r#"{"prompt": "A", "n": 16384, "max_tokens": 2000, "ignore_eos": true, "stream": true}"#;
    for _ in 0..3 {
        let mut client = Client::connect(server.addr());
        client.send("POST", "/v1/completions", JSON, body);
        client.head().unwrap();
        while server.stats().waiting < 10_000 {
            assert!(client.chunk().unwrap().is_some());
        }
        drop(client);
        settle(&server);
    }
    assert_eq!(server.stats().kv_cache_usage, 0.0);
}

#[test]
fn a_stop_does_not_wait_for_long_prompts() {
    let mut server = Server::start(spec(Profile::Tiny)).unwrap();
    let texts = vec![format!(r#""{}""#, "word ".repeat(40_000)); 40].join(",");
    let mut client = Client::connect(server.addr());
    client.send("POST", "/v1/completions", JSON, &format!(r#"{{"prompt": [{texts}]}}"#));
    std::thread::sleep(Duration::from_millis(50));
    let before = Instant::now();
    server.stop();
    assert!(before.elapsed() < Duration::from_secs(5), "{:?}", before.elapsed());
}
