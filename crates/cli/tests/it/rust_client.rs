//! The flags of vLLM's own Rust client, which `VLLM_USE_RUST_BENCH=1` starts: each works here under its name, or says
//! what does the same. `docs/parity.md` has the list.

use crate::tacho::{Place, stderr, stdout};

/// Flags with a value that is fine, beyond those of vLLM's Python client.
const TAKEN: &[&[&str]] = &[
    &["--max-model-len", "200"],
    &["--prompt-token-ids"],
    &["--prompt-token-ids", "--random-cache-hit-fraction", "0.5", "--random-cache-ratio", "0.5"],
    &["--profile", "--profile-batch-threshold", "2"],
    &["--profile", "--profile-batch-threshold", "2", "--profile-duration", "1.5"],
    &["--speed-bench-config", "throughput_1k"],
    &["--speed-bench-max-input-len", "100"],
    &["--sonnet-input-len", "600", "--sonnet-output-len", "100", "--sonnet-prefix-len", "100"],
    &["--hf-text-column", "text"],
    &["--reset-prefix-cache"],
    &["--num-runs", "1"],
    &["--max-concurrency", "2", "--steady-state-threshold", "0.9", "--steady-state-min-window", "1"],
    &["--max-concurrency", "2", "--no-steady-state"],
    &["--backend", "openai-chat", "--multi-turn", "--multi-turn-num-turns", "3"],
    &["--backend", "openai-chat", "--multi-turn", "--multi-turn-min-turns", "1", "--multi-turn-max-turns", "4"],
    &["--backend", "openai-chat", "--multi-turn", "--multi-turn-concurrency", "2", "--multi-turn-delay-ms", "5"],
    &[
        "--backend",
        "openai-chat",
        "--multi-turn",
        "--per-turn-input-len",
        "8",
        "--multi-turn-prefix-global-ratio",
        "0.1",
    ],
    &["--backend", "openai-chat", "--multi-turn", "--multi-turn-prefix-conversation-ratio", "0.1"],
];

/// What is done by other commands, and which.
const ELSEWHERE: &[(&[&str], &str)] = &[
    (&["--compare", "a.json", "b.json"], "tacho compare"),
    (&["--sweep-max-concurrency", "1,2"], "tacho sweep"),
    (&["--sweep-request-rate", "1,inf"], "tacho sweep"),
    (&["--sweep-num-prompts-factor", "4"], "tacho sweep"),
    (&["--sweep-summary-percentiles", "90"], "tacho sweep"),
];

#[test]
fn each_flag_is_taken_or_says_what_does_it() {
    let place = Place::new();
    let small = ["bench", "serve", "--sim", "--dry-run", "--num-prompts", "4", "--random-input-len", "16"];
    for flags in TAKEN {
        let output = place.run(&[&small[..], flags].concat());
        assert!(output.status.success(), "{flags:?}: {}", stderr(&output));
    }
    for (flags, command) in ELSEWHERE {
        let output = place.run(&[&small[..], flags].concat());
        assert_eq!(output.status.code(), Some(2), "{flags:?}");
        let text = stderr(&output);
        assert!(text.contains("hint: ") && text.contains(command), "{flags:?}: {text}");
    }
    for (flags, needs) in [
        (&["--profile-batch-threshold", "2"][..], "--profile"),
        (&["--profile", "--profile-duration", "2"], "--profile-batch-threshold"),
    ] {
        let output = place.run(&[&small[..], flags].concat());
        assert!(output.status.code() == Some(2) && stderr(&output).contains(needs), "{}", stderr(&output));
    }
}

#[test]
fn requests_that_do_not_fit_the_model_are_left_out() {
    let place = Place::new();
    let load = ["serve", "--sim", "--num-prompts", "40", "--random-input-len", "64", "--random-output-len", "16"];
    let more = ["--random-range-ratio", "0.5", "--max-model-len", "80", "--dry-run", "--save-workload", "w.jsonl"];
    let output = place.run(&[&load[..], &more].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let said = stderr(&output) + &stdout(&output);
    assert!(said.contains("requests were left out") && said.contains("--max-model-len 80"), "{said}");
    let text = std::fs::read_to_string(place.file("w.jsonl")).unwrap();
    let lengths: Vec<u64> = text
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .map(|row| row["prompt_len"].as_u64().unwrap() + row["expected_output_len"].as_u64().unwrap())
        .collect();
    assert!(!lengths.is_empty() && lengths.len() < 40 && lengths.iter().all(|length| *length <= 80), "{lengths:?}");
    let output = place.run(&[&load[..], &["--max-model-len", "3"]].concat());
    assert!(output.status.code() == Some(1) && stderr(&output).contains("--max-model-len 3"), "{}", stderr(&output));
}

#[test]
fn a_question_is_cut_to_the_length_that_was_asked_for() {
    let place = Place::new();
    let words = "one two three four five six seven eight nine ten ".repeat(20);
    let row =
        format!("{{\"messages\": [{{\"role\": \"user\", \"content\": \"{words}\"}}], \"category\": \"coding\"}}\n");
    place.write("speed/throughput_1k.jsonl", &row);
    let output = place.run(&[
        "serve",
        "--sim",
        "--dataset-name",
        "speed_bench",
        "--dataset-path",
        "speed",
        "--speed-bench-config",
        "throughput_1k",
        "--speed-bench-max-input-len",
        "12",
        "--skip-chat-template",
        "--num-prompts",
        "1",
        "--dry-run",
        "--save-workload",
        "w.jsonl",
    ]);
    assert!(output.status.success(), "{}", stderr(&output));
    let row: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(place.file("w.jsonl")).unwrap()).unwrap();
    assert_eq!(row["prompt_len"], 12, "{row}");
}
