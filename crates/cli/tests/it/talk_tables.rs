//! Compares the output and results of a multi-turn run with those of vLLM's script; times are masked in the
//! recordings.

use std::collections::BTreeMap;

use serde_json::Value;
use tacho_testkit::{golden_json, golden_text};

use crate::tacho::{Place, stderr, stdout};
use crate::talks::DIRECTORY;

/// Asserts that the output starts with the lines of the recording; tacho's own lines follow.
pub(crate) fn printed(name: &str, case: &Value, found: &str) {
    let recorded = plain(&golden_text(&format!("{DIRECTORY}/{name}.stdout.txt")));
    let mut lines = found.lines();
    for expected in recorded.lines() {
        // Without a width, vLLM's script omits columns of the last table; tacho shows all.
        if case["columns"].is_null() && expected.contains("...") && !expected.starts_with("Collecting") {
            return;
        }
        let line = lines.next().unwrap_or_default();
        assert!(same_line(line, expected), "{name}: {line:?} is not {expected:?}\n{found}");
    }
}

/// Compares two lines word by word. A time below 0.01 ms switches a pandas column to scientific notation.
fn same_line(found: &str, expected: &str) -> bool {
    let (found, expected): (Vec<&str>, Vec<&str>) =
        (found.split_whitespace().collect(), expected.split_whitespace().collect());
    let close = |found: &str, expected: &str| match (found.parse::<f64>(), expected.parse::<f64>()) {
        (Ok(found), Ok(expected)) => (found - expected).abs() <= 0.005 * expected.abs().max(1.0),
        _ => false,
    };
    let same =
        |(found, expected): (&&str, &&str)| found == expected || expected.contains("{t}") || close(found, expected);
    found.len() == expected.len() && found.iter().zip(&expected).all(same)
}

/// The text without colors.
fn plain(text: &str) -> String {
    let mut parts = text.split("\u{1b}[");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |all, part| all + part.split_once('m').map_or(part, |(_, rest)| rest))
}

/// Asserts that each conversation belongs to one client, turn by turn, and that finished ones are written completely.
pub(crate) fn shared(name: &str, samples: &Value, finished: &Value) {
    let mut held: BTreeMap<&str, Vec<(f64, u64, u64)>> = BTreeMap::new();
    for sample in samples.as_array().unwrap() {
        let turn = sample["input_num_turns"].as_u64().unwrap();
        let client = sample["client_id"].as_u64().unwrap();
        let start = sample["start_time_ms"].as_f64().unwrap();
        held.entry(sample["conversation_id"].as_str().unwrap()).or_default().push((start, turn, client));
    }
    for (conversation, turns) in &mut held {
        turns.sort_by(|left, right| left.0.total_cmp(&right.0));
        assert!(turns.windows(2).all(|pair| pair[1].1 == pair[0].1 + 2), "{name}: {conversation}: {turns:?}");
        assert!(turns.iter().all(|turn| turn.2 == turns[0].2), "{name}: {conversation}: {turns:?}");
    }
    for conversation in finished.as_array().unwrap() {
        let id = conversation["id"].as_str().unwrap();
        let last = held[id].last().unwrap().1 as usize;
        assert_eq!(conversation["messages"].as_array().unwrap().len(), last + 1, "{name}: {id}");
    }
}

/// Asserts that the samples and finished conversations equal those of vLLM's script, whichever client had them.
pub(crate) fn same_work(name: &str, samples: &Value, finished: &Value) {
    let of = |samples: &Value| -> BTreeMap<String, Value> {
        let keys = ["input_num_tokens", "output_num_tokens", "output_num_chunks", "approx_cached_percent"];
        let told = |sample: &Value| keys.iter().map(|key| sample[*key].clone()).collect::<Value>();
        let name = |sample: &Value| format!("{}:{}", sample["conversation_id"], sample["input_num_turns"]);
        samples.as_array().unwrap().iter().map(|sample| (name(sample), told(sample))).collect()
    };
    assert_eq!(of(samples), of(&golden_json(&format!("{DIRECTORY}/{name}.stats.json"))), "{name}");
    let by_id = |list: &Value| -> BTreeMap<String, Value> {
        list.as_array().unwrap().iter().map(|one| (one["id"].to_string(), one["messages"].clone())).collect()
    };
    assert_eq!(by_id(finished), by_id(&golden_json(&format!("{DIRECTORY}/{name}.out.json"))), "{name}");
}

#[test]
fn clients_say_what_they_do_where_that_is_asked_for() {
    let case = golden_json(&format!("{DIRECTORY}/verbose.args.json"));
    let text = golden_text(&format!("{DIRECTORY}/verbose.requests.jsonl"));
    let recorded: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let server = crate::talks::serve(&recorded, false);
    let port = server.address.port().to_string();
    let argv: Vec<String> =
        case["argv"].as_array().unwrap().iter().map(|word| word.as_str().unwrap().replace("{port}", &port)).collect();
    let args: Vec<&str> = std::iter::once("multi-turn").chain(argv.iter().map(String::as_str)).collect();
    let output = Place::new().run(&args);
    let found = stderr(&output);
    let log = plain(&golden_text(&format!("{DIRECTORY}/verbose.log.txt")));
    let expected: Vec<&str> = log.lines().filter_map(|line| line.split_once(" - ")).map(|(_, said)| said).collect();
    let expected: Vec<&str> = expected.into_iter().filter(|said| said.starts_with("Client 0 ")).collect();
    let said: Vec<&str> = found.lines().filter(|line| line.starts_with("Client 0 ")).collect();
    assert!(expected.len() > 15 && said.len() == expected.len(), "{found}");
    for (line, expected) in said.iter().zip(expected) {
        assert!(line == &expected || expected.contains("{t}") && same_line(line, expected), "{line} is not {expected}");
    }
    assert!(stdout(&output).contains("time_between_user_turns_sec"), "{}", stdout(&output));
}
