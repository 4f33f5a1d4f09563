//! Concurrent streams, clients that disconnect, and servers that stop.

use std::time::Instant;

use tacho_engine::{BatchShape, EngineSpec, Profile};
use tacho_sim::{Server, SimSpec};

use crate::client::{Client, post, spec, start};

fn body(prompt: usize, tokens: usize) -> String {
    format!(
        r#"{{"prompt": [{prompt}, 1, 2], "max_tokens": {tokens}, "ignore_eos": true, "stream": true, "stream_options": {{"include_usage": true}}}}"#
    )
}

#[test]
fn two_hundred_streams_get_all_their_tokens() {
    let server = Server::start(spec(Profile::Tiny)).unwrap();
    let mut clients: Vec<Client> = (0..200).map(|_| Client::connect(server.addr())).collect();
    for (at, client) in clients.iter_mut().enumerate() {
        client.send("POST", "/v1/completions", "Content-Type: application/json\r\n", &body(at, 40));
    }
    for client in &mut clients {
        let events = client.reply().unwrap().events();
        assert_eq!(events.len(), 42, "tokens, usage, end");
        assert!(events[40].contains(r#""usage":{"prompt_tokens":3,"total_tokens":43,"completion_tokens":40}"#));
    }
    let stats = server.stats();
    assert_eq!((stats.generation_tokens, stats.finished_length, stats.running), (8000, 200, 0));
    assert!(stats.steps < 8000, "sequences share steps: {}", stats.steps);
    assert_eq!(stats.kv_cache_usage, 0.0);
}

#[test]
fn sequences_beyond_slots_and_blocks_wait_and_finish() {
    let base = spec(Profile::Tiny);
    let engine = EngineSpec { max_num_seqs: 4, num_blocks: 8, ..base.engine.clone() };
    let server = Server::start(SimSpec { engine, ..base }).unwrap();
    let prompts: Vec<String> = (0..12).map(|at| format!("[{at}, 1, 2]")).collect();
    let body =
        format!(r#"{{"prompt": [{}], "max_tokens": 60, "ignore_eos": true, "stream": true}}"#, prompts.join(", "));
    assert_eq!(post(&server, "/v1/completions", &body).events().len(), 12 * 60 + 1);
    let stats = server.stats();
    assert!(stats.preemptions > 0, "four sequences of 62 tokens do not fit into eight blocks");
    assert_eq!((stats.finished_length, stats.kv_cache_usage), (12, 0.0));
}

#[test]
fn a_disconnect_frees_its_blocks() {
    let server = Server::start(spec(Profile::Tiny)).unwrap();
    let mut client = Client::connect(server.addr());
    client.send("POST", "/v1/completions", "Content-Type: application/json\r\n", &body(7, 2000));
    client.head().unwrap();
    client.chunk().unwrap();
    assert_eq!(server.stats().running, 1);
    drop(client);
    // Each request goes through the engine, so the loop makes progress without a clock.
    while server.stats().finished_abort == 0 {
        assert_eq!(post(&server, "/v1/completions", r#"{"prompt": "A", "max_tokens": 1}"#).status, 200);
    }
    assert_eq!(server.stats().kv_cache_usage, 0.0);
}

#[test]
fn stopping_cuts_streams_and_joins_at_once() {
    let mut server = Server::start(spec(Profile::L4x8b)).unwrap();
    let mut client = Client::connect(server.addr());
    client.send("POST", "/v1/completions", "Content-Type: application/json\r\n", &body(7, 2000));
    client.head().unwrap();
    client.chunk().unwrap();
    server.stop();
    assert!(client.reply_rest().is_err(), "a cut stream does not look complete");
    drop(server);
    assert_eq!(start().stats().steps, 0);
}

/// Inter-token times at the client, compared with those of the model.
#[test]
#[ignore = "measures the real clock; run it in release mode on a quiet machine"]
fn tokens_are_sent_at_the_times_of_the_model() {
    let server = Server::start(spec(Profile::Tiny)).unwrap();
    let mut client = Client::connect(server.addr());
    client.send("POST", "/v1/completions", "Content-Type: application/json\r\n", &body(7, 1000));
    client.head().unwrap();
    client.chunk().unwrap();
    let mut last = Instant::now();
    let mut off: Vec<f64> = (0..999)
        .map(|at| {
            client.chunk().unwrap();
            let shape = BatchShape { decode_sequences: 1, sequences: 1, kv_tokens: 4 + at, prefill_tokens: 0 };
            let due = Profile::Tiny.cost().step_time(&shape).as_secs_f64();
            let gap = std::mem::replace(&mut last, Instant::now()).elapsed().as_secs_f64();
            (gap - due).abs() * 1e6
        })
        .collect();
    off.sort_by(f64::total_cmp);
    println!(
        "gaps are off by, in us: p50 {:.0}, p90 {:.0}, p99 {:.0}, max {:.0}",
        off[499], off[898], off[988], off[998]
    );
}

#[test]
#[ignore = "measures the real clock; run it in release mode on a quiet machine"]
fn a_thousand_streams_keep_their_rate() {
    let base = spec(Profile::H100x8b);
    let engine = EngineSpec { max_num_seqs: 1024, ..base.engine.clone() };
    let server = Server::start(SimSpec { engine, ..base }).unwrap();
    let mut clients: Vec<Client> = (0..1000).map(|_| Client::connect(server.addr())).collect();
    let begin = Instant::now();
    for (at, client) in clients.iter_mut().enumerate() {
        client.send("POST", "/v1/completions", "Content-Type: application/json\r\n", &body(at, 200));
    }
    for client in &mut clients {
        assert_eq!(client.reply().unwrap().events().len(), 202);
    }
    let took = begin.elapsed();
    let stats = server.stats();
    let mean = stats.e2e_request_latency.sum() / 1000.0;
    println!("all took {took:?}; mean time in the model {mean:.3} s; {} steps", stats.steps);
}
