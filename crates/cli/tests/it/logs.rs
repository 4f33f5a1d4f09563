//! The log of a run, resuming a run, and stop conditions.

use std::process::Stdio;

use serde_json::json;
use tacho_testkit::place::wait_for;

use crate::scripted::Scripted;
use crate::tacho::{Place, stderr, stdout};

const SMALL: [&str; 8] =
    ["--random-input-len", "8", "--random-output-len", "4", "--ready-check-timeout-sec", "0", "--temperature", "0"];

fn serve(further: &[&'static str]) -> Vec<&'static str> {
    [&["serve", "--sim", "--dataset-name", "random"][..], &SMALL, further].concat()
}

fn directories(place: &Place) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(place.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".rows"))
        .collect();
    names.sort();
    names
}

#[test]
fn a_saved_result_has_its_log_beside_it_unless_it_is_not_wanted() {
    let place = Place::new();
    let named = ["--num-prompts", "5", "--save-result", "--result-filename", "r.json"];
    let output = place.run(&serve(&named));
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(directories(&place), ["r.rows"]);
    assert!(place.run(&serve(&named)).status.success());
    assert_eq!(directories(&place), ["r.2.rows", "r.rows"], "an older log stays");
    for further in [&["--no-log"][..], &["--strict-parity"]] {
        let place = Place::new();
        let args = [&serve(&named)[..], further].concat();
        assert!(place.run(&args).status.success());
        assert!(directories(&place).is_empty(), "{further:?}");
    }
    let place = Place::new();
    assert!(place.run(&serve(&["--num-prompts", "5"])).status.success());
    assert!(directories(&place).is_empty(), "a short run that saves nothing");
}

#[test]
fn a_log_without_a_named_result_takes_the_results_name() {
    let place = Place::new();
    assert!(place.run(&serve(&["--num-prompts", "5", "--save-result"])).status.success());
    let result = std::fs::read_dir(place.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .find(|name| name.ends_with(".json"))
        .unwrap();
    assert_eq!(directories(&place), [result.replace(".json", ".rows")]);
}

#[test]
fn a_killed_run_is_gone_on_with_from_its_log_alone() {
    let place = Place::new();
    let args = ["--num-prompts", "60", "--request-rate", "20", "--log", "kept", "--seed", "7"];
    let mut child = place.command(&serve(&args)).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    // The segment has its header before the first rows.
    let segment = place.file("kept/rows-0.arrows");
    let size = || std::fs::metadata(&segment).map_or(0, |file| file.len());
    wait_for("the log", || size() > 0);
    let header = size();
    wait_for("rows in the log", || size() > header);
    child.kill().unwrap();
    child.wait().unwrap();
    let output = place.run(&["serve", "--resume", "kept", "--save-result", "--result-filename", "r.json"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stdout(&output).contains("Resuming: "), "{}", stdout(&output));
    let result = place.json("r.json");
    assert_eq!((&result["completed"], &result["num_prompts"]), (&json!(60), &json!(60)));
    assert!(result["tacho"]["caveats"].to_string().contains("resumed"), "{}", result["tacho"]["caveats"]);
    let again = place.run(&["serve", "--resume", "kept"]);
    assert_eq!(again.status.code(), Some(1));
    assert!(stderr(&again).contains("nothing to resume"), "{}", stderr(&again));
    assert!(place.path().join("kept/summary.json").exists(), "looking at a log does not change it");
}

#[test]
fn a_log_gives_the_result_key_by_key_with_the_time_in_which_the_run_was_full() {
    let place = Place::new();
    let full = ["--num-prompts", "80", "--max-concurrency", "4", "--steady-state-threshold", "0.5"];
    let saved = ["--log", "kept", "--save-result", "--result-filename", "r.json"];
    let output = place.run(&[&serve(&full)[..], &saved].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let again = place.run(&["report", "kept", "--save-result", "again.json"]);
    assert!(again.status.success(), "{}", stderr(&again));
    let result = place.json("r.json");
    assert_eq!(result["steady_state"]["window"]["threshold"], json!(0.5), "{}", result["steady_state"]);
    assert_eq!(place.json("again.json"), result);
    // A time window of a run has no steady-state window.
    let window = format!("0:{}", result["duration"].as_f64().unwrap() / 2.0);
    let part = place.run(&["report", "kept", "--window", &window, "--save-result", "part.json"]);
    assert!(part.status.success(), "{}", stderr(&part));
    assert!(place.json("part.json").get("steady_state").is_none());
}

#[test]
fn a_log_of_an_older_format_is_refused_in_one_line() {
    let recorded = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/log/format-2");
    let output = Place::new().run(&["report", recorded]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("log format 2"), "{}", stderr(&output));
}

#[test]
fn failed_requests_are_sent_again_by_a_resumed_run() {
    let place = Place::new();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let dead = format!("http://127.0.0.1:{port}");
    let load = ["--model", "gpt2", "--tokenizer", "gpt2", "--dataset-name", "random", "--num-prompts", "6"];
    let args = [&["serve", "--base-url", &dead, "--log", "kept"][..], &load, &SMALL].concat();
    assert_eq!(place.run(&args).status.code(), Some(1), "no server");
    let server = Scripted::start(json!({"cycle": true, "routes": {"POST /v1/completions": [
        {"gen": "completions", "tokens": 4}
    ]}}));
    let alive = format!("http://{}", server.address);
    let resumed = ["serve", "--resume", "kept", "--base-url", &alive, "--save-result", "--result-filename", "r.json"];
    let output = place.run(&resumed);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(place.json("r.json")["completed"], 6);
}

#[test]
fn a_resumed_run_fails_when_every_request_fails_again() {
    let place = Place::new();
    let failed = json!({"status": 500, "framing": "length", "segments": [{"text": "no"}]});
    let good = json!({"gen": "completions", "tokens": 4});
    let server =
        Scripted::start(json!({"routes": {"POST /v1/completions": [good, good, good, failed, failed, failed]}}));
    let url = format!("http://{}", server.address);
    let load = ["--model", "gpt2", "--tokenizer", "gpt2", "--dataset-name", "random", "--num-prompts", "6"];
    let args = [&["serve", "--base-url", &url, "--log", "kept", "--max-concurrency", "1"][..], &load, &SMALL].concat();
    let output = place.run(&args);
    assert!(output.status.success(), "{}", stderr(&output));
    let dead = format!("http://127.0.0.1:{}", place.port);
    let output =
        place.run(&["serve", "--resume", "kept", "--base-url", &dead, "--save-result", "--result-filename", "r.json"]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("all resumed requests failed"), "{}", stderr(&output));
    assert_eq!(place.json("r.json")["completed"], 3);
}

#[test]
fn a_secret_is_not_in_the_log_and_must_be_given_again() {
    let place = Place::new();
    let output = place.run(&serve(&["--num-prompts", "3", "--log", "kept", "--header", "Authorization=Bearer s3cr3t"]));
    assert!(output.status.success(), "{}", stderr(&output));
    for entry in std::fs::read_dir(place.path().join("kept")).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        assert!(!bytes.windows(6).any(|part| part == b"s3cr3t"));
    }
    let output = place.run(&["serve", "--resume", "kept"]);
    assert!(stderr(&output).contains("repeat the command with --resume kept"), "{}", stderr(&output));
}

#[test]
fn time_ends_a_run_that_has_as_many_requests_as_it_takes() {
    let place = Place::new();
    let timed = ["--duration", "1.5", "--request-rate", "40", "--burstiness", "1000", "--save-result"];
    let output = place.run(&serve(&[&timed[..], &["--result-filename", "r.json"]].concat()));
    assert!(output.status.success(), "{}", stderr(&output));
    let completed = place.json("r.json")["completed"].as_u64().unwrap();
    assert!((55..=61).contains(&completed), "{completed}");
}

#[test]
fn a_server_that_only_fails_is_given_up_with_exit_code_3() {
    let place = Place::new();
    let routes = json!({"routes": {"POST /v1/completions": [{"gen": "completions"}, {"gen": "completions"},
        {"status": 500, "framing": "length", "segments": [{"text": "no"}]}]}});
    let server = Scripted::start(routes);
    let url = format!("http://{}", server.address);
    let tokenizer = "golden/tokenizers/gpt2";
    let mut args = vec!["serve", "--base-url", &url, "--model", tokenizer, "--dataset-name", "random"];
    args.extend(SMALL);
    args.extend(["--num-prompts", "3000", "--request-rate", "100", "--stop-on-failures", "20%", "--no-log"]);
    let output = place.run(&args);
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    let printed = stdout(&output).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(printed.contains("too many requests failed"), "{printed}");
    assert!(server.asked().len() < 2000, "{}", server.asked().len());
}

#[test]
fn bad_values_are_refused() {
    let place = Place::new();
    let cases = [
        (&["--duration", "0"][..], "--duration"),
        (&["--duration", "1e9", "--request-rate", "1e6"], "--duration"),
        (&["--stop-on-failures", "120%"], "--stop-on-failures"),
        (&["--log", "a", "--no-log"], "--no-log"),
        (&["--log", "a", "--resume", "b"], "--resume"),
        (&["--resume", "nowhere"], "nowhere"),
    ];
    for (further, part) in cases {
        let args = [&["serve", "--sim"][..], further].concat();
        let output = place.run(&args);
        assert!(matches!(output.status.code(), Some(1 | 2)), "{further:?}");
        assert!(stderr(&output).contains(part), "{further:?}: {}", stderr(&output));
        assert_eq!(stderr(&output).matches("error:").count(), 1, "{}", stderr(&output));
    }
}

#[test]
fn results_are_compared_by_the_logs_next_to_them() {
    let place = Place::new();
    for name in ["a", "b"] {
        let file = format!("{name}.json");
        let sizes = ["--num-prompts", "60", "--random-input-len", "16", "--random-output-len", "4"];
        let run = ["serve", "--sim", "--request-rate", "200", "--save-result", "--result-filename", &file];
        assert!(place.run(&[&run[..], &sizes].concat()).status.success());
    }
    let compared = |files: [&str; 2]| stdout(&place.run(&[&["compare"], &files[..]].concat()));
    let by_result = compared(["a.json", "b.json"]);
    assert_eq!(by_result, compared(["a.rows", "b.rows"]));
    assert!(by_result.contains("mean_ttft_ms"), "{by_result}");
}
