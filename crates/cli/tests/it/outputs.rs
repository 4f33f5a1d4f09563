//! Checks and grades of outputs, from the command line to the result.

use std::process::Command;
use std::time::{Duration, Instant};

use tacho_core::json::{self, Value};

use crate::tacho::{Place, stderr, stdout};
use crate::{ab_test, backends::Sim};

/// The result of a run against the simulator with these faults.
fn run(place: &Place, faults: &str, further: &[&str]) -> Value {
    let mut args =
        vec!["serve", "--sim", "--sim-profile", "instant", "--temperature", "0", "--no-log", "--save-result"];
    args.extend(["--result-filename", "result.json", "--max-concurrency", "16", "--check-outputs"]);
    args.extend(["--num-prompts", "100", "--random-input-len", "64", "--random-output-len", "24"]);
    let faults = format!("--enable-prompt-tokens-details {faults}");
    args.extend(["--sim-args", &faults]);
    args.extend(further);
    let output = place.run(&args);
    assert!(output.status.success(), "{args:?}: {}", stderr(&output));
    json::parse(&std::fs::read_to_string(place.file("result.json")).unwrap()).unwrap()
}

fn tacho<'v>(result: &'v Value, key: &str) -> &'v Value {
    result.get("tacho").unwrap().get(key).unwrap_or_else(|| panic!("{key}"))
}

fn number(result: &Value, key: &str) -> f64 {
    tacho(result, key).as_f64().unwrap()
}

fn dependences(result: &Value) -> Vec<String> {
    let text = |question: &Value, key: &str| question.get(key).and_then(Value::as_str).unwrap().to_owned();
    let questions = tacho(result, "outputs").get("questions").and_then(Value::as_list).unwrap();
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
    let flaws = tacho(&cut, "outputs").get("flaws").unwrap();
    assert!(flaws.get("truncated").is_some() && !dependences(&cut).contains(&"load".to_owned()));
    assert!(number(&cut, "output_divergence_alone") > 0.1, "it happens without load too");
    let prefix = ["--dataset-name", "prefix_repetition", "--prefix-repetition-num-prefixes", "25", "--reset-caches"];
    let stale = run(&place, "--fault stale:0.6", &prefix);
    assert!(dependences(&stale).contains(&"prefix cache".to_owned()), "{:?}", tacho(&stale, "outputs"));
}

/// Noise takes a fifth of a token's probability p, which is uniform from 0.5 to 0.9. Four others are listed, so that r = (1 -
/// p) / 16 is left: the mean of -p ln 0.8 + r ln(r / (r + 0.2 p)) is 0.118, its maximum 0.180. The first different token,
/// of up to 24, adds a zero.
#[test]
fn token_distributions_are_compared_up_to_the_first_different_token() {
    let place = Place::new();
    let sim = Sim::start(&[]);
    for (backend, path) in [("openai", "/v1/completions"), ("openai-chat", "/v1/chat/completions")] {
        let api = ["--backend", backend, "--endpoint", path, "--logprobs", "5", "--num-prompts", "40"];
        let noisy = run(&place, "--fault noise:1", &[&api[..], &["--reference", &sim.url]].concat());
        let (mean, max) = (number(&noisy, "mean_kl_divergence"), number(&noisy, "max_kl_divergence"));
        assert!((0.09..0.11).contains(&mean) && (0.16..0.18).contains(&max), "{backend}: {mean} {max}");
        let first = tacho(&noisy, "outputs").get("median_first_different_token").and_then(Value::as_f64).unwrap();
        assert!((6.0..=18.0).contains(&first), "{first}");
        let same = run(&place, "", &api);
        assert_eq!((number(&same, "mean_kl_divergence"), number(&same, "max_kl_divergence")), (0.0, 0.0), "{backend}");
    }
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
    assert!(stderr(&output).contains("--reference: none.json: no such file"), "{}", stderr(&output));
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
        let args =
            [&base[..], &["--dataset-path", "rows.jsonl", "--custom-output-len", "8", "--num-prompts", "40"], further];
        place.run(&args.concat())
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

#[test]
fn a_grader_that_is_interrupted_keeps_the_run() {
    let place = Place::new();
    let args = "serve --sim --sim-profile instant --no-log --num-prompts 4 --random-input-len 8 --random-output-len 4 --save-result \
        --result-filename r.json --grade-command";
    let child = place.spawn(&args.split_whitespace().chain(["touch started; sleep 600"]).collect::<Vec<_>>());
    let deadline = Instant::now() + Duration::from_secs(60);
    while !place.file("started").exists() {
        assert!(Instant::now() < deadline, "the grader does not start");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    assert!(stdout(&output).contains("ungraded") && place.json("r.json")["completed"] == 4, "{}", stdout(&output));
}

#[test]
fn faster_but_different_fails() {
    let place = Place::new();
    let sims = [Sim::start(&[]), Sim::start(&["--fault", "noise:0.5"])];
    let [right, wrong] = sims.each_ref().map(|sim| sim.url.as_str());
    let load = ["--temperature", "0", "--num-prompts", "30", "--random-input-len", "16", "--random-output-len", "8"];
    for (name, url) in [("old.json", right), ("same.json", right), ("new.json", wrong)] {
        let args = ["serve", "--base-url", url, "--check-outputs", "--reference", right, "--save-result", "--no-log"];
        let output = place.run(&[&args[..], &["--result-filename", name], &load].concat());
        assert!(output.status.success(), "{}", stderr(&output));
    }
    let gate = |new: &str, rule: &str| {
        place.run(&["gate", "old.json", new, "--max-regression", "duration:100000%", rule, "--assume-noise", "1%"])
    };
    let same = gate("same.json", "output_divergence:20pp");
    assert!(same.status.success() && stdout(&same).contains("limit +20 pp"), "{}", stdout(&same));
    let implied = gate("new.json", "duration:100000%");
    assert_eq!(implied.status.code(), Some(3), "{}", stdout(&implied));
    assert!(stdout(&implied).starts_with("REGRESSED output_divergence"), "{}", stdout(&implied));
    let refused = gate("new.json", "output_divergence:1%");
    assert!(stderr(&refused).contains("output_divergence:1pp"), "{}", stderr(&refused));
    let compared = stdout(&place.run(&["compare", "old.json", "new.json"]));
    assert!(compared.contains("worse") && compared.contains("output_divergence"), "{compared}");
    let sims = [&[][..], &["--fault", "noise:0.5"]].map(|flags| ab_test::Sim::start(&place, 20, flags));
    let mut test =
        vec!["ab-test", &sims[0].url, &sims[1].url, "--temperature", "0", "--check-outputs", "--budget", "40"];
    test.extend(["--max-regression", "mean_e2el_ms:500%", "--num-prompts", "16"]);
    test.extend(["--random-input-len", "16", "--random-output-len", "8"]);
    let output = place.run(&test);
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert!(stdout(&output).contains("REGRESSED output_divergence"), "{}", stdout(&output));
}
