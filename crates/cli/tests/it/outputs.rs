//! Checks and grades of outputs, from the command line to the result.

use tacho_core::json::{self, Value};

use crate::backends::Sim;
use crate::tacho::{Place, stderr, stdout};

/// The result of a run against the simulator with these faults.
fn run(place: &Place, faults: &str, further: &[&str]) -> Value {
    let mut words =
        vec!["serve", "--sim", "--sim-profile", "instant", "--temperature", "0", "--no-log", "--save-result"];
    words.extend(["--result-filename", "result.json", "--max-concurrency", "16", "--check-outputs"]);
    words.extend(["--num-prompts", "100", "--random-input-len", "64", "--random-output-len", "24"]);
    let faults = format!("--enable-prompt-tokens-details {faults}");
    words.extend(["--sim-args", &faults]);
    words.extend(further);
    let output = place.run(&words);
    assert!(output.status.success(), "{words:?}: {}", stderr(&output));
    json::parse(&std::fs::read_to_string(place.file("result.json")).unwrap()).unwrap()
}

fn own<'v>(result: &'v Value, key: &str) -> &'v Value {
    result.get("tacho").unwrap().get(key).unwrap_or_else(|| panic!("{key}"))
}

fn number(result: &Value, key: &str) -> f64 {
    own(result, key).as_f64().unwrap()
}

fn dependences(result: &Value) -> Vec<String> {
    let text = |question: &Value, key: &str| question.get(key).and_then(Value::as_str).unwrap().to_owned();
    let questions = own(result, "outputs").get("questions").and_then(Value::as_list).unwrap();
    questions.iter().filter(|one| text(one, "depends") == "yes").map(|one| text(one, "factor")).collect()
}

#[test]
fn planted_faults_are_found_with_their_cause() {
    let place = Place::new();
    let right = run(&place, "", &[]);
    assert_eq!((number(&right, "output_divergence"), dependences(&right).len()), (0.0, 0));
    let swapped = run(&place, "--fault swap:0.3", &[]);
    assert!(number(&swapped, "swapped_outputs") > 5.0 && dependences(&swapped).contains(&"load".to_owned()));
    let flipped = run(&place, "--fault flip:0.6@1", &[]);
    assert!(number(&flipped, "output_divergence") > 0.1 && dependences(&flipped).contains(&"load".to_owned()));
    let cut = run(&place, "--fault cut:0.3", &[]);
    let flaws = own(&cut, "outputs").get("flaws").unwrap();
    assert!(flaws.get("truncated").is_some() && !dependences(&cut).contains(&"load".to_owned()));
    assert!(number(&cut, "output_divergence_alone") > 0.1, "it happens without load too");
    let prefix = ["--dataset-name", "prefix_repetition", "--prefix-repetition-num-prefixes", "25", "--reset-caches"];
    let stale = run(&place, "--fault stale:0.6", &prefix);
    assert!(dependences(&stale).contains(&"prefix cache".to_owned()), "{:?}", own(&stale, "outputs"));
}

#[test]
fn another_server_and_an_earlier_result_are_references() {
    let place = Place::new();
    let sim = Sim::start(&[]);
    let url = &sim.url;
    let noisy = run(&place, "--fault noise:0.5", &["--reference", url]);
    assert!(number(&noisy, "output_divergence") > 0.3 && number(&noisy, "output_divergence_alone") > 0.3);
    assert!(!dependences(&noisy).contains(&"load".to_owned()), "the model is another one, with and without load");
    run(&place, "", &["--save-detailed", "--result-filename", "old.json"]);
    let same = run(&place, "", &["--reference", "old.json"]);
    assert_eq!(number(&same, "output_divergence"), 0.0);
    let output = place.run(&["serve", "--sim", "--check-outputs", "--reference", "none.json", "--num-prompts", "2"]);
    assert!(stderr(&output).contains("--check-outputs: none.json"), "{}", stderr(&output));
}

#[test]
fn answers_are_graded_and_conditions_use_the_accuracy() {
    let place = Place::new();
    let rows: String =
        (0..40).map(|at| format!("{{\"prompt\": \"question {at}\", \"answer\": \"(?s).*\"}}\n")).collect();
    place.write("rows.jsonl", &rows);
    let base =
        ["serve", "--sim", "--sim-profile", "instant", "--no-log", "--skip-chat-template", "--dataset-name", "custom"];
    let serve = |further: &[&str]| {
        let words =
            [&base[..], &["--dataset-path", "rows.jsonl", "--custom-output-len", "8", "--num-prompts", "40"], further];
        place.run(&words.concat())
    };
    let good = serve(&["--grade", "regex", "--fail-if", "accuracy<0.8"]);
    assert!(good.status.success() && stdout(&good).contains("accuracy 1.000"), "{}", stdout(&good));
    let bad = serve(&["--grade", "exact", "--fail-if", "accuracy<80%"]);
    assert_eq!(bad.status.code(), Some(3), "{}", stderr(&bad));
    let command = "while read -r line; do echo '{\"tone\": 0.25}'; done";
    let scored = serve(&["--grade-command", command, "--fail-if", "score_tone<0.5"]);
    assert_eq!(scored.status.code(), Some(3), "{}", stderr(&scored));
    assert!(stdout(&scored).contains("tone 0.250"), "{}", stdout(&scored));
    let broken = serve(&["--grade-command", "exit 4"]);
    assert!(broken.status.success() && stdout(&broken).contains("ungraded"), "{}", stdout(&broken));
    let unanswered = place.run(&["serve", "--sim", "--grade", "exact", "--num-prompts", "2"]);
    assert!(stderr(&unanswered).contains("no row of the dataset has an answer"), "{}", stderr(&unanswered));
}
