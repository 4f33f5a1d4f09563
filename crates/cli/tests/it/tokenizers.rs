//! Whether the tokenizer matches the server's: reported after a run, except under strict parity. And its chat
//! template, which may be malicious.

use tacho_testkit::golden_path;

use crate::backends::Sim;
use crate::tacho::{Place, stderr, stdout};

/// Writes prompts that are not aligned with the server's tokenizer.
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

/// Renders a template for one prompt.
fn template(place: &Place, template: &str) -> std::process::Output {
    let directory = place.path().join("tokenizer");
    std::fs::create_dir_all(&directory).unwrap();
    for name in ["tokenizer.json", "tokenizer_config.json"] {
        std::fs::copy(golden_path(&format!("tokenizers/gpt2/{name}")), directory.join(name)).unwrap();
    }
    std::fs::write(directory.join("chat_template.jinja"), template).unwrap();
    let args = ["serve", "--model", "m", "--tokenizer", "tokenizer", "--dataset-name", "custom", "--num-prompts", "1"];
    place.run(&[&args[..], &["--dataset-path", "p.jsonl", "--dry-run", "--save-workload", "w.jsonl"]].concat())
}

#[test]
fn a_template_ends_its_helper_process_and_not_the_command() {
    let place = Place::new();
    prompts(&place);
    let output = template(&place, "[{{ messages[0].content[:4] }}]");
    assert!(output.status.success(), "{}", stderr(&output));
    let saved = std::fs::read_to_string(place.path().join("w.jsonl")).unwrap();
    assert!(saved.contains(r#""prompt": "[Tell]""#), "{saved}");
    let grow = "{% set ns = namespace(x='ab') %}{% for i in range(40) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}";
    let output = template(&place, grow);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("512 MiB"), "{}", stderr(&output));
}
