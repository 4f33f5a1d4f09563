//! `tacho record`: a proxy in front of the simulator, its trace, and the trace's replay.

use std::io::{BufRead, BufReader};
use std::process::Command;

use crate::ab_test::Sim;
use crate::tacho::{Place, stderr};

/// Every conversation has these words, and no trace may.
const SECRET: &str =
    "Initech buys Globex on Friday for nine hundred million and the board has not been told about it yet";

#[test]
fn recorded_traffic_has_no_content_and_is_replayed() {
    let place = Place::new();
    let sim = Sim::start(&place, 2, &["--model", "m"]);
    let mut proxy = place.spawn(&["record", "--to", &sim.url, "--listen", "127.0.0.1:0"]);
    let mut line = String::new();
    BufReader::new(proxy.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let url = line.split_whitespace().find(|word| word.ends_with(char::is_numeric) && *word != sim.url).unwrap();
    let turn = |role: &str, content: &str| format!(r#"{{"role": "{role}", "content": "{content}"}}"#);
    let talk = |at: usize| {
        let args = format!("{SECRET} {at}");
        let turns = [turn("user", &args), turn("assistant", "yes"), turn("user", "and then?"), turn("assistant", "no")];
        format!(r#"{{"id": "{at}", "messages": [{}]}}"#, turns.join(","))
    };
    place.write("talks.json", &format!("[{}]", (0..3).map(talk).collect::<Vec<_>>().join(",")));
    let load = |url: &str, trace: &str, result: &str| {
        let args = format!(
            "serve --base-url {url} --model m --tokenizer gpt2 --backend openai-chat --sessions {trace} --save-result --result-filename {result}"
        );
        let output = place.run(&args.split_whitespace().collect::<Vec<_>>());
        assert!(output.status.success(), "{}", stderr(&output));
        place.json(result)
    };
    let recorded = load(url, "talks.json", "recorded.json");
    assert!(Command::new("kill").args(["-INT", &proxy.id().to_string()]).status().unwrap().success());
    let ended = proxy.wait_with_output().unwrap();
    assert!(ended.status.success(), "{}", stderr(&ended));
    assert!(stderr(&ended).contains("saved: trace.jsonl"), "{}", stderr(&ended));
    let trace = std::fs::read_to_string(place.file("trace.jsonl")).unwrap();
    let pieces = SECRET.as_bytes().windows(6).map(|piece| std::str::from_utf8(piece).unwrap());
    assert_eq!(pieces.filter(|piece| trace.contains(piece)).collect::<Vec<_>>(), [""; 0], "{trace}");
    let rows: Vec<serde_json::Value> = trace.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let later = rows.iter().filter(|row| row["turn"] == 2);
    assert_eq!(later.filter(|row| row["parent_chat_id"].as_i64() >= Some(0) && row["after_ms"].is_number()).count(), 3);
    let replayed = load(&sim.url, "trace.jsonl", "replayed.json");
    for key in ["completed", "total_output_tokens"] {
        assert_eq!(replayed.get(key), recorded.get(key), "{key}");
    }
    let sent: i64 = rows.iter().map(|row| row["input_length"].as_i64().unwrap()).sum();
    assert!(rows.len() >= 6 && sent > 100, "{trace}");
}

#[test]
fn an_unusable_address_leaves_no_file() {
    let place = Place::new();
    let output = place.run(&["record", "--to", "https://localhost:8000", "--listen", "127.0.0.1:0"]);
    let text = stderr(&output);
    assert!(
        text.contains(
            "--to https://localhost:8000: cannot be recorded at 127.0.0.1:0\ncaused by: \"https://localhost:8000\" is not an address of plain http"
        ),
        "{text}"
    );
    assert!(!place.file("trace.jsonl").exists());
}
