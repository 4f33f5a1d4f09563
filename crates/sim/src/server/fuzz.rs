//! Invalid requests, constraints and profiles: an error or a value, never a panic, an abort or unbounded memory.
//! `TACHO_FUZZ_COUNT=1000000 cargo test --release -p tacho-sim --lib fuzz -- --nocapture --test-threads=1` tries a
//! million of each kind on all cores.

use tacho_core::json;
use tacho_testkit::{Counted, fuzz, golden_json};

use super::guide::{Dice, Guide};
use super::request::{Endpoint, Fields};
use super::{Server, request::form::Form};
use crate::SimSpec;
use tacho_engine::Machine;

#[global_allocator]
static COUNTED: Counted = Counted;

const ENDPOINTS: [Endpoint; 9] = [
    Endpoint::Completions,
    Endpoint::Chat,
    Endpoint::Responses,
    Endpoint::Messages,
    Endpoint::Transcription,
    Endpoint::Tgi,
    Endpoint::Triton,
    Endpoint::Sglang,
    Endpoint::Demo,
];

#[test]
fn fuzz_requests() {
    let server = Server::start(SimSpec::default()).unwrap();
    let golden = golden_json("simulator/refusals.json");
    let bodies = golden["cases"].as_array().unwrap().iter().filter_map(|case| case["body"].as_str());
    let good: Vec<Vec<u8>> = bodies.filter(|body| body.len() < 3_000).map(|body| body.as_bytes().to_vec()).collect();
    fuzz("requests", &good, |bytes| {
        let Ok(fields) = Fields::parse(Some("application/json"), bytes) else { return };
        let sum = bytes.iter().fold(7_usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(usize::from(*byte)));
        // Each protocol of a family reads about every third request, chosen by its content, which makes failures
        // reproducible.
        for step in 0..3 {
            let endpoint = ENDPOINTS[(sum + 3 * step) % ENDPOINTS.len()];
            let _ = (endpoint.protocol().read)(&fields, &server.app).is_ok();
        }
    });
}

#[test]
fn fuzz_forms() {
    let kind = "multipart/form-data; boundary=b";
    let good =
        b"--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm\r\n--b\r\nContent-Disposition: form-data; \
        name=\"file\"; filename=\"a.wav\"\r\nContent-Type: audio/wav\r\n\r\nRIFF\r\n--b--\r\n";
    assert!(Form::parse(Some(kind), good).is_ok());
    fuzz("forms", &[good.to_vec()], |bytes| {
        let _ = Form::parse(Some(kind), bytes).is_ok();
        let _ = Form::parse(std::str::from_utf8(bytes).ok(), good).is_ok();
    });
}

#[test]
fn fuzz_guides() {
    let schema = br##"{"type": "object", "properties": {"a": {"type": "string", "pattern": "^[a-c]{2,4}$"}, "b":
        {"type": "array", "items": {"$ref": "#/$defs/n"}, "minItems": 1, "maxItems": 3}, "c": {"enum": [1, "x", null]}},
        "required": ["a"], "$defs": {"n": {"type": "integer", "minimum": 3, "multipleOf": 2}}, "additionalProperties": false}"##;
    let good = [&schema[..], b"(a|bc)*[0-9]{2,3}\\d+x?", b"root ::= \"a\" rest | [0-9]+\nrest ::= root?\n"];
    fuzz("guides", &good, |bytes| {
        let text = String::from_utf8_lossy(bytes);
        let schema = json::parse(&text).ok().and_then(|schema| Guide::schema(&schema).ok());
        for guide in [schema, Guide::pattern(&text).ok(), Guide::grammar(&text).ok()].into_iter().flatten() {
            let _ = guide.text(&mut Dice::new(1, 2)).len();
        }
    });
}

#[test]
fn fuzz_profiles() {
    let good = br#"{"tacho_profile": 1, "name": "x", "cost": {"fixed_us": 900.5, "per_prefill_token_us": 3,
        "per_decode_sequence_us": 4, "per_context_token_us": 0.01}, "frontend": {"per_request_us": 5,
        "per_prompt_token_us": 0.1}, "engine": {"max_num_seqs": 64, "max_num_batched_tokens": 2048, "block_size": 16,
        "num_blocks": 1000}, "noise": 0.1}"#;
    fuzz("profiles", &[good.to_vec()], |bytes| {
        let _ = Machine::parse(&String::from_utf8_lossy(bytes), "p.json").is_ok();
    });
}
