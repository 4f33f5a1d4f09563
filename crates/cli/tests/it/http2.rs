//! HTTP/2 against the simulator's implementation.

use serde_json::json;

use crate::scripted::Scripted;
use crate::tacho::{Place, stderr, stdout};

#[test]
fn the_simulator_is_benchmarked_over_http2() {
    let place = Place::new();
    // Prompts larger than the initial flow-control windows of HTTP/2, on reused connections.
    let load = ["--num-prompts", "40", "--random-input-len", "25000", "--random-output-len", "8"];
    let more = ["--sim-profile", "instant", "--max-concurrency", "4", "--save-result", "--result-filename", "r.json"];
    let output = place.run(&[&["serve", "--sim", "--http2", "--save-detailed"], &load[..], &more].concat());
    assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
    let result = place.json("r.json");
    assert_eq!(
        (&result["completed"], &result["total_output_tokens"]),
        (&json!(40), &json!(320)),
        "{}",
        stdout(&output)
    );
    assert_eq!(result["tacho"]["outcomes"]["complete"], 40);
}

#[test]
fn a_server_without_http2_is_not_mistaken_for_one_with_it() {
    let place = Place::new();
    let server = Scripted::start(json!({"routes": {"POST /v1/completions": [{"gen": "completions"}]}}));
    let port = server.address.port().to_string();
    let model = ["--model", "m", "--tokenizer", "golden/tokenizers/gpt2"];
    let load = ["--num-prompts", "2", "--random-input-len", "4", "--random-output-len", "2"];
    let output = place.run(&[&["serve", "--http2", "--port", &port], &model[..], &load].concat());
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
    assert!(stderr(&output).contains("not HTTP/2"), "{}", stderr(&output));
}
