//! Whether the tokenizer is the server's: told after a run, never in a run that must be upstream's.

use crate::backends::Sim;
use crate::tacho::{Place, stderr, stdout};

/// Prompts of another kind than those that are aligned with the server.
fn prompts(place: &Place) {
    let line = |at: usize| {
        format!("{{\"prompt\": \"Tell me about the number {at}, naïve question\", \"output_tokens\": 4}}\n")
    };
    std::fs::write(place.path().join("p.jsonl"), (0..9).map(line).collect::<String>()).unwrap();
}

fn run(place: &Place, tokenizer: &str, more: &[&str]) -> (String, serde_json::Value) {
    let sim = Sim::start(&[]);
    let url = &sim.url;
    let args = ["serve", "--base-url", url, "--model", "gpt2", "--tokenizer", tokenizer, "--dataset-name", "custom"];
    let rest = ["--dataset-path", "p.jsonl", "--num-prompts", "9", "--skip-chat-template", "--save-result"];
    let output = place.run(&[&args[..], &rest, &["--result-filename", "r.json"], more].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    (stdout(&output), place.json("r.json"))
}

#[test]
fn another_tokenizer_is_a_caveat_with_the_ratio() {
    let place = Place::new();
    prompts(&place);
    let (text, result) = run(&place, "golden/tokenizers/mistral-v3", &[]);
    assert!(text.contains("warning[tokenizer_mismatch]: "), "{text}");
    let kinds: Vec<&str> =
        result["tacho"]["caveats"].as_array().unwrap().iter().filter_map(|caveat| caveat["kind"].as_str()).collect();
    assert_eq!(kinds.first(), Some(&"tokenizer_mismatch"), "{kinds:?}");
    let (text, _) = run(&place, "golden/tokenizers/gpt2", &[]);
    assert!(!text.contains("the server counts"), "{text}");
    let (text, _) = run(&place, "golden/tokenizers/mistral-v3", &["--strict-parity"]);
    assert!(!text.contains("the server counts"), "{text}");
}
