//! Tokenizers and datasets by Hub id, from a local Hub.

use std::process::Output;

use tacho_testkit::golden_path;

use crate::fake_hub::FakeHub;
use crate::tacho::{Place, stderr, stdout};

fn hub() -> FakeHub {
    let read = |name: &str| std::fs::read(golden_path(name)).unwrap();
    let (json, config) = (read("tokenizers/gpt2/tokenizer.json"), read("tokenizers/gpt2/tokenizer_config.json"));
    let rows = (0..40).map(|row| format!("{{\"question\": \"What is {row} and one?\", \"answer\": \"x\"}}\n"));
    let rows: String = rows.collect();
    let card = b"---\nconfigs:\n- config_name: main\n  data_files:\n  - split: test\n    path: main/test*\n---\n";
    FakeHub::start(&[
        (
            "models/org/gpt2",
            &[("tokenizer.json", &json), ("tokenizer_config.json", &config), ("model.safetensors", b"weights")],
        ),
        (
            "datasets/openai/gsm8k",
            &[("README.md", card), ("main/test-0.jsonl", rows.as_bytes()), ("main/train-0.jsonl", b"not needed")],
        ),
    ])
}

fn run(place: &Place, hub: &FakeHub, offline: &str, args: &[&str]) -> Output {
    let mut command = place.command(args);
    command.env("HF_HOME", place.path().join("home")).env("HF_ENDPOINT", &hub.endpoint);
    command.env("HF_HUB_OFFLINE", offline).env("HF_TOKEN", "hf_very_secret").env("RUST_LOG", "trace");
    command.output().unwrap()
}

const DATASET: [&str; 11] = [
    "serve",
    "--sim",
    "--tokenizer",
    "org/gpt2",
    "--dataset-name",
    "hf",
    "--dataset-path",
    "openai/gsm8k",
    "--skip-chat-template",
    "--num-prompts",
    "8",
];

#[test]
fn tokenizer_and_dataset_are_fetched_once_and_then_found() {
    let (place, hub) = (Place::new(), hub());
    let output = run(&place, &hub, "0", &DATASET);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stdout(&output).contains("Successful requests:                     8"), "{}", stdout(&output));
    assert_eq!(hub.downloads(), 4, "tokenizer, settings, card, one split");
    assert!(!format!("{}{}", stdout(&output), stderr(&output)).contains("hf_very_secret"));
    let output = run(&place, &hub, "1", &DATASET);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(hub.downloads(), 4);
}

#[test]
fn what_the_hub_lacks_is_one_clear_line() {
    let (place, hub) = (Place::new(), hub());
    let none = run(&place, &hub, "0", &["serve", "--sim", "--tokenizer", "org/none"]);
    assert!(stderr(&none).contains("the Hub has no model \"org/none\""), "{}", stderr(&none));
    let split = run(&place, &hub, "0", &[&DATASET[..], &["--hf-split", "train"]].concat());
    assert!(stderr(&split).contains("openai/gsm8k has no data files of the split \"train\""), "{}", stderr(&split));
    let offline = run(&place, &hub, "1", &["serve", "--sim", "--tokenizer", "org/other"]);
    assert!(stderr(&offline).contains("HF_HUB_OFFLINE=1 disables downloads"), "{}", stderr(&offline));
    assert_eq!(offline.status.code(), Some(1));
}

#[test]
fn a_dataset_that_only_its_column_tells_of_is_fetched_too() {
    let (place, hub) = (Place::new(), named_column());
    let args = ["serve", "--sim", "--tokenizer", "gpt2", "--dataset-name", "hf", "--dataset-path", "some/body"];
    let args = [&args[..], &["--hf-text-column", "prompt", "--skip-chat-template", "--num-prompts", "5"]].concat();
    for offline in ["0", "1"] {
        let output = run(&place, &hub, offline, &args);
        assert!(output.status.success(), "{}", stderr(&output));
        assert!(stdout(&output).contains("Successful requests:                     5"), "{}", stdout(&output));
        assert_eq!(hub.downloads(), 1, "what was fetched is found again");
    }
    let wrong: Vec<&str> = args.iter().map(|word| if *word == "prompt" { "promt" } else { word }).collect();
    let output = run(&place, &hub, "1", &wrong);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("no text in column \"promt\""), "{}", stderr(&output));
}

/// A dataset that is not in the catalog.
fn named_column() -> FakeHub {
    let rows: String = (0..20).map(|row| format!("{{\"prompt\": \"Say {row} twice\", \"n\": {row}}}\n")).collect();
    FakeHub::start(&[("datasets/some/body", &[("train.jsonl", rows.as_bytes())])])
}
