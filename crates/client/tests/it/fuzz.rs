//! Fuzzes bodies: no decoder panics, and the result does not depend on how the body is split into reads.

use proptest::prelude::*;
use proptest::test_runner::{TestCaseError, TestRunner};
use tacho_client::backends::{BUILT_IN_FILES, Expected};
use tacho_client::{BackendKind, Rules};
use tacho_core::{Media, Observation, Timestamp};
use tacho_testkit::{Counted, fuzz_files, golden_files};

use crate::declared;
use crate::decode::{RULES, expected, read};

#[global_allocator]
static COUNTED: Counted = Counted;

/// Parts of valid and broken responses.
fn body() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just("data: "),
        Just("data:"),
        Just("\n"),
        Just("\n\n"),
        Just("\r\n"),
        Just(": ping"),
        Just("event: response.completed"),
        Just("[DONE]"),
        Just(r#"{"choices": [{"text": "a", "delta": {"content": "b"}}]}"#),
        Just(r#"{"choices": [{"text": "é\n", "delta": {"content": "\ud83d\ude42"}}]}"#),
        Just(r#"{"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}"#),
        Just(r#"{"type": "response.output_text.delta", "delta": "x"}"#),
        Just(r#"{"type": "response.reasoning_text.delta", "delta": "x"}"#),
        Just(r#"{"type": "response.refusal.delta", "delta": "x"}"#),
        Just(r#"{"type": "response.completed", "response": {"usage": {"output_tokens": 4, "input_tokens": 5}}}"#),
        Just(r#"{"type": "error", "message": "m"}"#),
        Just(r#"{"token": {"text": "t"}, "generated_text": null}"#),
        Just(r#"{"token": {"text": "t"}, "generated_text": "tt", "details": {"generated_tokens": 2}}"#),
        Just(r#"{"text_output": "o"}"#),
        Just(r#"{"text": ["once upon"]}"#),
        Just(r#"{"text": ["once upon a time", 3]}"#),
        Just(r#"{"type": "speech.audio.delta", "audio": "AAEC/w=="}"#),
        Just(r#"{"type": "speech.audio.done"}"#),
        Just("RIFF____WAVEfmt \u{10}\0\0\0\u{1}\0\u{1}\0\u{40}\u{1f}\0\0____\u{2}\0\u{10}\0data\u{8}\0\0\0"),
        Just(r#"{"data": [{"embedding": [0.1, -2e3]}], "usage": {"prompt_tokens": 9}}"#),
        Just(r#"{"error": {"message": "m"}}"#),
        Just(r#"{"out": [{"w/o": "t"}], "n": 2}"#),
        Just("\u{7}\u{b}\0{\"t\": [\"a\"]}"),
        Just("{\"open\": "),
        Just("\u{feff}"),
        Just("\0"),
        Just(" "),
    ];
    let known = prop::collection::vec(piece, 0..14).prop_map(|pieces| pieces.concat().into_bytes());
    prop_oneof![
        4 => known.clone(),
        1 => prop::collection::vec(any::<u8>(), 0..120),
        1 => (known, prop::collection::vec(any::<u8>(), 0..9)).prop_map(|(mut body, noise)| {
            let middle = body.len() / 2;
            body.splice(middle..middle, noise);
            body
        }),
    ]
}

/// A row without fields that depend on when its bytes arrived.
fn timeless(mut row: Observation) -> Observation {
    row.chunks
        .iter_mut()
        .chain(&mut row.first_content)
        .chain(&mut row.first_answer)
        .for_each(|timestamp| *timestamp = Timestamp::ZERO);
    if matches!(row.media, Some(Media::Audio { .. } | Media::UnknownAudio)) {
        // Each read of audio is an event.
        row.chunks.truncate(1);
        row.text_ends.drain(..row.text_ends.len().saturating_sub(1));
    }
    row
}

/// All decoders, with the properties of a request that they need.
fn decoders() -> Vec<(BackendKind, Rules, Expected)> {
    let mut decoders = Vec::new();
    let files = BUILT_IN_FILES.iter().map(|(name, text)| BackendKind::from_text(text, name).unwrap());
    let files = files.chain(declared::made_up());
    // Frames of a WebSocket have a test of their own.
    let built_in = BackendKind::ALL.into_iter().filter(|backend| *backend != BackendKind::OpenAiRealtime);
    for backend in built_in.chain(files) {
        for rules in RULES {
            for extra in ["{}", r#"{"stream": false}"#] {
                decoders.push((backend, rules, expected(backend, extra)));
            }
        }
    }
    decoders
}

/// Checks that a body is decoded without a panic and with the same result for any split.
fn check_cuts(decoders: &[(BackendKind, Rules, Expected)], body: &[u8], cuts: &[usize]) -> Result<(), TestCaseError> {
    let mut at: Vec<usize> = cuts.iter().map(|cut| cut % (body.len() + 1)).collect();
    at.sort_unstable();
    at.push(body.len());
    let mut start = 0;
    let pieces: Vec<&[u8]> = at.iter().map(|&end| &body[std::mem::replace(&mut start, end)..end]).collect();
    let bytewise: Vec<&[u8]> = body.chunks(1).collect();
    for (backend, rules, expected) in decoders {
        let whole = timeless(read(*backend, *rules, expected, &[body]));
        for pieces in [&pieces, &bytewise] {
            let cut = timeless(read(*backend, *rules, expected, pieces));
            prop_assert_eq!(&cut, &whole, "{:?} {:?}", backend, rules);
        }
    }
    Ok(())
}

/// Reads random bodies with every decoder.
fn any_body(cases: u32) {
    let (decoders, cuts) = (decoders(), prop::collection::vec(any::<usize>(), 0..10));
    let mut runner =
        TestRunner::new(ProptestConfig { source_file: Some(file!()), ..ProptestConfig::with_cases(cases) });
    runner.run(&(body(), cuts), |(body, cuts)| check_cuts(&decoders, &body, &cuts)).unwrap();
}

#[test]
fn any_body_is_read_without_panic_and_alike_however_it_is_cut() {
    any_body(200);
}

#[test]
#[ignore = "slow: every decoder reads a thousand bodies"]
fn slow_group_any_body_is_read_alike_however_it_is_cut() {
    any_body(1000);
}

/// The recorded bodies.
fn recorded_bodies() -> Vec<Vec<u8>> {
    use base64::Engine;
    let bodies = golden_files("sse", ".json").into_iter().map(|file| {
        let case: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
        let segments = case["answer"]["segments"].as_array().cloned().unwrap_or_default();
        let engine = base64::engine::general_purpose::STANDARD;
        segments
            .iter()
            .flat_map(|segment| engine.decode(segment["b64"].as_str().unwrap_or_default()).unwrap())
            .collect()
    });
    bodies.filter(|body: &Vec<u8>| !body.is_empty() && body.len() < 4000).collect()
}

/// Each body goes through one decoder in three splits, chosen by its content.
#[test]
fn fuzz_answers() {
    let (decoders, bodies) = (decoders(), recorded_bodies());
    fuzz_files(
        "responses",
        &bodies,
        2_000,
        |_| {},
        |_, body| {
            let sum = body.iter().fold(7_usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(usize::from(*byte)));
            let cuts: Vec<usize> = (0..sum % 8).map(|cut| sum.rotate_left(cut as u32 * 7)).collect();
            let decoder = sum % decoders.len();
            if let Err(error) = check_cuts(&decoders[decoder..=decoder], body, &cuts) {
                panic!("{error}");
            }
        },
    );
}
