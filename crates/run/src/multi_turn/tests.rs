//! Times of an exchange compared with those of vLLM's script for the same arrivals.

use serde_json::Value;
use tacho_core::{Observation, Timestamp};
use tacho_metrics::multi_turn::{TurnSample, TurnTokens};
use tacho_testkit::{golden_json, golden_path};
use tacho_text::Tokenizer;

/// Known differences: text after the end marker, which ends a response here, and a clock that stands still.
const KNOWN_DIFFERENCES: [&str; 3] = ["content-after-done", "zero-latency", "done-twice"];

/// The row of a streamed response whose lines arrived at these times.
fn row(case: &Value) -> Observation {
    let start = Timestamp(case["start_ns"].as_u64().unwrap());
    let mut row = Observation { sent: start, ..Observation::dispatched(0, start, start) };
    row.done = Timestamp(case["end_of_body_ns"].as_u64().unwrap());
    for line in case["lines"].as_array().unwrap() {
        let text = line["text"].as_str().unwrap().trim();
        let timestamp = Timestamp(line["t_ns"].as_u64().unwrap());
        match text.strip_prefix("data: ").unwrap_or(text) {
            "" => {}
            "[DONE]" => row.done = timestamp,
            json => {
                let event: Value = serde_json::from_str(json).unwrap();
                row.text.extend(event["choices"][0]["delta"]["content"].as_str().unwrap_or_default().bytes());
                row.text_ends.push(row.text.len() as u32);
                row.chunks.push(timestamp);
            }
        }
    }
    row
}

#[test]
fn times_are_those_of_the_script() {
    let tokenizer = Tokenizer::load(&golden_path("tokenizers/gpt2")).unwrap();
    let count = |text: &str| tokenizer.count(text, false) as u64;
    let cases = golden_json("scenarios/multi-turn/timing.json");
    let streamed = |case: &&Value| case["stream"] == true && case["outcome"] == "sample";
    let cases: Vec<&Value> = cases.as_array().unwrap().iter().filter(streamed).collect();
    assert!(cases.len() >= 15);
    for case in cases.into_iter().filter(|case| !KNOWN_DIFFERENCES.contains(&case["name"].as_str().unwrap())) {
        let contents = case["messages"].as_array().unwrap().iter().map(|message| message["content"].as_str().unwrap());
        let tokens: Vec<u64> = contents.map(count).collect();
        let tokens =
            TurnTokens { messages: tokens.len() as u64, input: tokens.iter().sum(), last: *tokens.last().unwrap() };
        let sample = TurnSample::of(&row(case), tokens, &count, "id", 0);
        let found: Value = serde_json::from_str(&tacho_core::json::dumps(&sample.to_json().into())).unwrap();
        for (key, expected) in case["sample"].as_object().unwrap() {
            let same = match (found[key].as_f64(), expected.as_f64()) {
                (Some(found), Some(expected)) => (found - expected).abs() <= 1e-9 * expected.abs().max(1.0),
                _ => &found[key] == expected,
            };
            assert!(same, "{}: {key}: {} is not {expected}", case["name"], found[key]);
        }
    }
}
