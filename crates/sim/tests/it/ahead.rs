//! Asynchronous scheduling, and a front end that handles requests one after another.

use std::time::{Duration, Instant};

use tacho_engine::{CostModel, EngineSpec, Front, Profile};
use tacho_sim::{Server, SimSpec};

use crate::client::{Client, get, post, spec};

const JSON: &str = "Content-Type: application/json\r\n";

/// A server with asynchronous scheduling and these costs.
fn server(cost: CostModel, front: Front) -> Server {
    let mut spec = spec(Profile::Tiny);
    (spec.machine.cost, spec.machine.front) = (cost, front);
    let engine = EngineSpec { async_scheduling: true, ..spec.engine.clone() };
    Server::start(SimSpec { engine, ..spec }).unwrap()
}

fn body(prompt: usize, tokens: usize) -> String {
    format!(r#"{{"prompt": [{prompt}, 1, 2], "max_tokens": {tokens}, "ignore_eos": true, "stream": true}}"#)
}

/// Sends `count` requests at once; returns the number of events of each, and the time that all of them take.
fn burst(server: &Server, count: usize, tokens: usize) -> (Vec<usize>, Duration) {
    let mut clients: Vec<Client> = (0..count).map(|_| Client::connect(server.addr())).collect();
    let sent = Instant::now();
    for (at, client) in clients.iter_mut().enumerate() {
        client.send("POST", "/v1/completions", JSON, &body(at, tokens));
    }
    let events = clients.iter_mut().map(|client| client.reply().unwrap().events().len()).collect();
    (events, sent.elapsed())
}

#[test]
fn all_tokens_come_from_an_engine_with_asynchronous_scheduling() {
    let cost = CostModel { schedule_ns: 3e6, schedule_noise: 0.2, drain_ns: 1e5, ..Profile::Tiny.cost() };
    let server = server(cost, Front::default());
    let (events, _) = burst(&server, 60, 30);
    assert_eq!(events, [31; 60], "tokens and the end");
    let stats = server.stats();
    assert_eq!((stats.generation_tokens, stats.finished_length, stats.running), (1800, 60, 0));
    assert_eq!(stats.kv_cache_usage, 0.0);
    let info = get(&server, "/server_info?config_format=json").json();
    assert_eq!(info["vllm_config"]["scheduler_config"]["async_scheduling"], true);
}

#[test]
fn a_prompt_is_scheduled_before_its_first_token() {
    let server = server(CostModel { schedule_ns: 4e7, ..Profile::Tiny.cost() }, Front::default());
    let sent = Instant::now();
    assert_eq!(post(&server, "/v1/completions", &body(1, 3)).events().len(), 4);
    assert!(sent.elapsed() >= Duration::from_millis(42), "{:?}", sent.elapsed());
    let stats = server.stats();
    assert!((0.04..0.5).contains(&stats.time_to_first_token.sum()), "{}", stats.time_to_first_token.sum());
    assert_eq!(stats.steps, 3);
}

#[test]
fn a_burst_waits_in_the_front_end() {
    let front = Front { shared_cpu_ns: 1e7, ..Front::default() };
    let server = server(CostModel::FREE, front);
    let (events, took) = burst(&server, 20, 2);
    assert_eq!(events, [3; 20]);
    assert!(took >= Duration::from_millis(200), "twenty times ten, in turn: {took:?}");
}
