//! Requests from the user's own command or table.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use tacho_testkit::place::wait_for;

use crate::tacho::{Place, at_once, stderr};

/// Prints rows forever: a counter and the seed in the prompt, lengths that follow from the counter.
const ENDLESS: &str = r#"n=0; while :; do n=$((n+1)); echo "{\"prompt\": \"row $n of $TACHO_SEED for $TACHO_MODEL\", \"output_len\": $((n%5+1)), \"labels\": {\"part\": \"$((n%2))\"}}"; done"#;

/// Runs with these flags and returns the saved workload and the result.
fn run(place: &Place, flags: &[&str]) -> (Vec<Value>, Value) {
    let fixed = [
        "serve",
        "--sim",
        "--quiet",
        "--ignore-eos",
        "--save-workload",
        "w.jsonl",
        "--save-result",
        "--result-filename",
        "r.json",
    ];
    let output = place.run(&[&fixed[..], flags].concat());
    assert!(output.status.success(), "{flags:?}: {}", stderr(&output));
    let saved = std::fs::read_to_string(place.file("w.jsonl")).unwrap();
    (saved.lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect(), place.json("r.json"))
}

fn digest(result: &Value) -> String {
    result["tacho"]["provenance"]["dataset_sha256"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn all_rows_are_stored_as_requested() {
    let place = Place::new();
    place.write("rows.jsonl", &"{\"prompt\": \"a few words\"}\n".repeat(17));
    let rows = ["--dataset-name", "custom", "--dataset-path", "rows.jsonl", "--skip-chat-template"];
    let (_, result) = run(&place, &[&rows[..], &["--custom-output-len", "2", "--num-prompts", "0"]].concat());
    // As vLLM stores it.
    assert_eq!((&result["completed"], &result["num_prompts"]), (&17.into(), &0.into()));
}

#[test]
fn a_command_makes_the_requests_of_a_run() {
    let place = Place::new();
    let flags = ["--dataset-command", ENDLESS, "--num-prompts", "12", "--seed", "4"];
    let (requests, result) = run(&place, &flags);
    let prompts: Vec<&str> = requests.iter().map(|request| request["prompt"].as_str().unwrap()).collect();
    let expected: Vec<String> = (1..=12).map(|n| format!("row {n} of 4 for tacho-sim")).collect();
    assert_eq!(prompts, expected, "the order is that of the command");
    let asked: i64 = requests.iter().map(|request| request["expected_output_len"].as_i64().unwrap()).sum();
    assert_eq!((&result["completed"], &result["total_output_tokens"]), (&12.into(), &asked.into()));
    let parts = &result["tacho"]["groups"]["part"];
    assert_eq!((&parts["0"]["completed"], &parts["1"]["completed"]), (&6.into(), &6.into()));
    let (again, second) = run(&place, &flags);
    assert_eq!(digest(&result).len(), 64);
    assert_eq!((digest(&second), again.len()), (digest(&result), 12), "the same seed gives the same requests");
    let (_, other) = run(&place, &["--dataset-command", ENDLESS, "--num-prompts", "12", "--seed", "5"]);
    assert_ne!(digest(&other), digest(&result));
    std::fs::rename(place.file("w.jsonl"), place.file("saved.jsonl")).unwrap();
    let output =
        place.run(&["serve", "--sim", "--workload", "saved.jsonl", "--save-result", "--result-filename", "s.json"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let sum = Command::new("sha256sum").arg(place.file("saved.jsonl")).output().unwrap();
    assert!(String::from_utf8(sum.stdout).unwrap().starts_with(&digest(&place.json("s.json"))));
}

#[test]
fn a_table_makes_the_requests_of_a_run() {
    let place = Place::new();
    place.write(
        "t.csv",
        "\u{feff}Question,Tokens,Team,Temp\r\n\"one, two\",3,red,0.5\r\n1234,5,blue,\r\nthree,,red,1\r\n",
    );
    let map = ["--map", "prompt=Question", "output_len=Tokens", "labels.team=Team", "overrides.temperature=Temp"];
    let flags =
        [&["--dataset-path", "t.csv", "--num-prompts", "0", "--disable-shuffle", "--custom-output-len", "7"], &map[..]];
    let (requests, result) = run(&place, &flags.concat());
    let seen: Vec<_> = requests
        .iter()
        .map(|one| (one["prompt"].as_str().unwrap(), one["expected_output_len"].as_i64().unwrap()))
        .collect();
    assert_eq!(seen, [("one, two", 3), ("1234", 5), ("three", 7)]);
    let temperature = |at: usize| requests[at]["request_overrides"]["temperature"].as_f64();
    assert_eq!([temperature(0), temperature(1), temperature(2)], [Some(0.5), None, Some(1.0)]);
    assert_eq!(result["total_output_tokens"], 15);
    assert_eq!(result["tacho"]["groups"]["team"]["red"]["completed"], 2);
    // A log as a table: Parquet that tacho itself writes.
    let output = place.run(&["report", "r.rows", "--save-requests", "t.parquet"]);
    assert!(output.status.success(), "{}", stderr(&output));
    place.write("more.jsonl", "{\"meta\": {\"q\": [\"x\", \"y\"]}, \"len\": \"4\"}\n");
    let nested =
        ["--dataset-path", "more.jsonl", "--num-prompts", "1", "--map", "prompt=meta.q.1", "--map", "output_len=len"];
    let (requests, _) = run(&place, &nested);
    assert_eq!((&requests[0]["prompt"], &requests[0]["expected_output_len"]), (&"y".into(), &4.into()));
    let refused = place.run(&["serve", "--sim", "--dataset-path", "t.parquet", "--map", "prompt=output_tokens"]);
    assert!(
        stderr(&refused).contains("t.parquet, row 1: \"output_tokens\", mapped to prompt, must be a text"),
        "{}",
        stderr(&refused)
    );
}

#[test]
fn mistakes_are_one_line() {
    let place = Place::new();
    place.write("t.csv", "q\nx\n");
    for (flags, code, expected) in [
        (
            &["--dataset-command", "echo no rows today >&2; exit 4"][..],
            1,
            "--dataset-command failed with exit code 4 after 0 of 1000 rows: no rows today",
        ),
        (
            &["--dataset-command", "sleep 60", "--dataset-command-timeout", "0.3"],
            1,
            "--dataset-command printed no line for 0.3 s",
        ),
        (&["--dataset-command", " "], 2, "--dataset-command"),
        (
            &["--dataset-command", "x", "--dataset-path", "t.csv"],
            2,
            "--dataset-command and --dataset-path exclude each other",
        ),
        (&["--dataset-command", "x", "--dataset-name", "sharegpt"], 2, "--dataset-name custom"),
        (&["--dataset-path", "t.csv", "--map", "prmpt=q"], 2, "--map prmpt=q: no such field"),
        (
            &["--dataset-path", "t.csv", "--map", "prompt=w"],
            1,
            "t.csv has no column \"w\", mapped to prompt: it has \"q\"",
        ),
        (&["--map", "prompt=q"], 2, "--dataset-path"),
        (&["--dataset-command", "x", "--sessions", "t.csv"], 2, "--sessions and --dataset-command exclude each other"),
        (&["--dataset-command", "x", "--multi-turn"], 2, "--multi-turn"),
        (&["--output-len-dist", "5", "--multi-turn"], 2, "--multi-turn"),
        (&["--on-row-command", " "], 2, "--on-row-command"),
        (&["--dataset-command-timeout", "3"], 2, "--dataset-command"),
    ] {
        let output = place.run(&[&["serve", "--sim"], flags].concat());
        let text = stderr(&output);
        assert!(text.contains(expected), "{flags:?}: {text}");
        assert_eq!(output.status.code(), Some(code), "{flags:?}: {text}");
    }
}

#[test]
fn a_resumed_run_gets_the_same_rows_or_none() {
    let place = Place::new();
    let fixed = ["serve", "--sim", "--quiet", "--log", "log", "--num-prompts", "8", "--dataset-command"];
    let steady = "for n in 1 2 3 4 5 6 7 8; do echo \"{\\\"prompt\\\": \\\"$n\\\", \\\"output_len\\\": 2}\"; done";
    assert!(place.run(&[&fixed[..], &[steady]].concat()).status.success());
    let again = stderr(&place.run(&["serve", "--resume", "log"]));
    assert!(
        again.contains("log") && !again.contains("other requests"),
        "nothing is left, but the rows are the same: {again}"
    );
    let clock =
        "for n in 1 2 3 4 5 6 7 8; do echo \"{\\\"prompt\\\": \\\"$(date +%N) $n\\\", \\\"output_len\\\": 2}\"; done";
    let fixed = ["serve", "--sim", "--quiet", "--log", "other", "--num-prompts", "8", "--dataset-command"];
    assert!(place.run(&[&fixed[..], &[clock]].concat()).status.success());
    let output = place.run(&["serve", "--resume", "other"]);
    assert!(!output.status.success() && stderr(&output).contains("other"), "{}", stderr(&output));
}

#[test]
fn rows_of_messages_are_sent_by_every_protocol_with_conversations() {
    let place = Place::new();
    let row = r#"{"messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": [{"type": "text", "text": "hi"}]}, {"role": "assistant", "content": "ho"}, {"role": "user", "content": "and?"}], "output_len": 5}"#;
    std::fs::write(place.file("talks.jsonl"), format!("{row}\n{row}\n")).unwrap();
    for backend in ["openai-chat", "openai-responses", "anthropic-messages"] {
        let flags = ["--backend", backend, "--dataset-command", "cat talks.jsonl", "--num-prompts", "2"];
        let (requests, result) = run(&place, &flags);
        assert_eq!(requests[0]["chat_messages"].as_array().map(Vec::len), Some(4), "{backend}");
        assert_eq!((&result["completed"], &result["total_output_tokens"]), (&2.into(), &10.into()), "{backend}");
        // The server counts all four messages, not just the last.
        assert!(result["total_input_tokens"].as_u64().unwrap() > 16, "{backend}: {}", result["total_input_tokens"]);
    }
}

#[test]
fn a_command_gets_every_row() {
    let place = Place::new();
    let flags =
        ["--num-prompts", "150", "--random-input-len", "8", "--random-output-len", "4", "--request-rate", "300"];
    let row = ["--on-row-command", "cat > rows.jsonl; echo printed", "--save-requests", "requests.jsonl"];
    let (_, result) = run(&place, &[&flags[..], &row].concat());
    let read = |name: &str| {
        let text = std::fs::read_to_string(place.file(name)).unwrap();
        let mut rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        rows.sort_by_key(|row| row["index"].as_u64());
        rows
    };
    let (given, exported) = (read("rows.jsonl"), read("requests.jsonl"));
    assert_eq!(given.len(), 150);
    for (given, exported) in given.iter().zip(&exported) {
        let names = |row: &Value| row.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(given), names(exported));
        for key in ["index", "outcome", "prompt_tokens", "output_tokens", "ttft_ms", "e2el_ms", "itl_ms"] {
            assert_eq!(given[key], exported[key], "{key}");
        }
        let off = given["sent_s"].as_f64().unwrap() - exported["sent_s"].as_f64().unwrap();
        assert!(off.abs() < 1e-6, "times have the same zero: {off}");
    }
    assert!(!result["tacho"]["caveats"].to_string().contains("row_command"));
    assert_eq!(result["tacho"]["row_command_missed"], 0);
}

/// The caveat about the command of a run with these flags, and how long the run took.
fn row_caveat(place: &Place, command: &str) -> (String, Duration) {
    let began = Instant::now();
    let flags =
        ["--num-prompts", "120", "--random-input-len", "8", "--random-output-len", "64", "--max-concurrency", "4"];
    let (_, result) = run(place, &[&flags[..], &["--on-row-command", command]].concat());
    assert_eq!(result["completed"], 120, "the run goes on");
    let all = result["tacho"]["caveats"].as_array().cloned().unwrap_or_default();
    let own = all.iter().find(|caveat| caveat["kind"] == "row_command");
    assert!(result["tacho"]["row_command_missed"].as_u64().unwrap() > 0, "{}", result["tacho"]["row_command_missed"]);
    (own.map_or_else(String::new, |caveat| caveat["text"].as_str().unwrap().to_owned()), began.elapsed())
}

#[test]
fn a_command_that_dies_is_a_warning() {
    let commands = ["read line; echo 'disk full' >&2; exit 5", "no-such-program-anywhere", "sleep 60"];
    let [(text, _), (missing, _), (slow, took)]: [_; 3] =
        at_once(&commands, |command| row_caveat(&Place::new(), command)).try_into().unwrap();
    assert!(text.contains("--on-row-command") && text.contains("failed with exit code 5: disk full"), "{text}");
    assert!(missing.contains("exit code 127"), "{missing}");
    assert!(slow.contains("had not ended 10 s after the run and was killed") && slow.contains("of 120 rows"), "{slow}");
    assert!(took < Duration::from_secs(40), "{took:?}");
}

#[test]
fn output_lengths_are_drawn_for_any_dataset() {
    let place = Place::new();
    place.write("c.jsonl", "{\"prompt\": \"a b c\"}\n{\"prompt\": \"d e\"}\n");
    let flags = [
        "--skip-chat-template",
        "--dataset-name",
        "custom",
        "--dataset-path",
        "c.jsonl",
        "--num-prompts",
        "40",
        "--output-len-dist",
        "uniform(3,9)",
    ];
    let (requests, _) = run(&place, &flags);
    let lens: Vec<i64> = requests.iter().map(|request| request["expected_output_len"].as_i64().unwrap()).collect();
    assert!(lens.iter().all(|len| (3..=9).contains(len)) && lens.iter().any(|len| *len != lens[0]), "{lens:?}");
    let trace = ["serve", "--sim", "--dataset-name", "burstgpt", "--dataset-path", "c.jsonl", "--output-len-dist", "5"];
    let refused = stderr(&place.run(&trace));
    assert!(refused.contains("--output-len-dist does not apply to --dataset-name burstgpt"), "{refused}");
}

#[test]
fn ctrl_c_ends_the_command_too() {
    let place = Place::new();
    let line = "echo $$ > pid; trap '' PIPE; while :; do sleep 0.1; done";
    let mut child = place.spawn(&["serve", "--sim", "--dataset-command", line]);
    let pid = || std::fs::read_to_string(place.file("pid")).unwrap_or_default().trim().to_owned();
    wait_for("the command", || !pid().is_empty());
    let alive = |pid: &str| std::path::Path::new("/proc").join(pid).exists();
    assert!(alive(&pid()));
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    child.wait().unwrap();
    wait_for("the end of the command", || !alive(&pid()));
}
