//! Compares runs of the multi-turn benchmark with recordings of vLLM's script: bodies in order, samples, and
//! resulting conversations.

use std::{collections::HashMap, io::Write, net::TcpStream, sync::Mutex, time::Duration};

use serde_json::{Value, json};
use tacho_testkit::scripted::{Keep, Scripted};
use tacho_testkit::wire::{Seen, write_plain};
use tacho_testkit::{golden_dir, golden_json, golden_text};

use crate::tacho::{Place, each, stderr, stdout};
use crate::talk_tables;

pub(crate) const DIRECTORY: &str = "scenarios/multi-turn/run";

/// Nondeterministic runs: which client gets which conversation, and when the first one ends, depends on timing.
const RACES: [&str; 5] = [
    "exception-early-stop",
    "three-clients-random",
    "two-clients",
    "two-clients-early-stop",
    "warmup-step-two-clients",
];

/// A run in which vLLM's script hangs; the requests before that are a prefix of those sent here.
const HANGS: &str = "odd-messages";

/// Runs without a successful exchange, which vLLM's script reports as success.
const WITHOUT_SUCCESS: [&str; 2] = ["all-rejected", "verify-mismatch"];

#[test]
fn recorded_runs_are_repeated_body_by_body() {
    let mut names: Vec<String> = std::fs::read_dir(golden_dir().join(DIRECTORY))
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().to_str()?.strip_suffix(".args.json").map(str::to_owned))
        .collect();
    names.sort();
    assert!(names.len() >= 50, "{names:?}");
    each(&names, |name| repeat(name));
}

#[test]
fn what_the_script_refuses_is_refused_before_any_exchange() {
    let cases = golden_json("scenarios/multi-turn/errors.json");
    let server = serve(&[], true);
    let port = server.address.port().to_string();
    each(cases["cases"].as_array().unwrap(), |case| {
        let place = Place::new();
        let args = cases["base_argv"].as_array().unwrap().iter().chain(case["args"].as_array().unwrap());
        let argv: Vec<String> = args.map(|word| word.as_str().unwrap().replace("{port}", &port)).collect();
        if let Some(content) = case["file"].as_str() {
            std::fs::write(place.path().join(argv.last().unwrap()), content).unwrap();
        }
        let args: Vec<&str> = std::iter::once("multi-turn").chain(argv.iter().map(String::as_str)).collect();
        let output = place.run(&args);
        assert!(matches!(output.status.code(), Some(1 | 2)), "{case}: {:?}", output.status);
        assert!(stderr(&output).contains("error"), "{case}: {}", stderr(&output));
    });
    assert!(server.calls().iter().all(|seen| seen.method() == "GET"), "no exchange");
}

/// Streams that vLLM's script rejects and tacho accepts: comments, event names, usage, no space after the colon,
/// another role. And streams that it accepts although they are invalid: a response without text, lines without
/// `data:`.
const UNDERSTOOD: [&str; 5] =
    ["usage-chunk", "comment-line", "no-space-after-data", "event-line", "no-stream-wrong-role"];
const NO_ANSWER: [&str; 2] = ["no-stream-empty", "without-prefix"];

#[test]
fn answers_are_read_as_the_script_reads_them() {
    each(golden_json("scenarios/multi-turn/timing.json").as_array().unwrap(), |case| {
        let name = case["name"].as_str().unwrap();
        let place = Place::new();
        let answer = case.clone();
        let server = Scripted::start(move |seen, stream| answer_with(&answer, seen, stream));
        let mut messages = case["messages"].as_array().unwrap().clone();
        let sent = messages.len();
        messages.push(json!({"role": "assistant", "content": "x"}));
        std::fs::write(place.path().join("in.json"), json!([{"id": "id", "messages": messages}]).to_string()).unwrap();
        let url = format!("http://{}", server.address);
        let mut args = vec!["multi-turn", "-i", "in.json", "-m", "golden/tokenizers/gpt2", "-u", &url];
        args.extend(["--stats-json-output", "stats.json"]);
        args.extend((case["stream"] == false).then_some("--no-stream"));
        let output = place.run(&args);
        let found = place.json("stats.json");
        let found = found.as_array().unwrap().iter().find(|sample| sample["input_num_turns"] == sent);
        let expected = (case["outcome"] == "sample" && !NO_ANSWER.contains(&name)) || UNDERSTOOD.contains(&name);
        assert_eq!(found.is_some(), expected, "{name}: {}", stderr(&output));
        for (key, value) in case["sample"].as_object().into_iter().flatten().filter(|(key, _)| !key.ends_with("_ms")) {
            assert_eq!(found.map(|sample| &sample[key]), expected.then_some(value), "{name}: {key}");
        }
    });
}

/// Sends the events of a case; earlier questions get the responses of its history.
fn answer_with(case: &Value, seen: &Seen, stream: &mut TcpStream) -> Keep {
    if seen.method() == "GET" {
        let _ = write_plain(stream, 404, "Not Found", "application/json", b"{}");
        return Keep::Open;
    }
    let asked = seen.json()["messages"].as_array().unwrap().len();
    let streamed = case["stream"] == true;
    let mut text = String::new();
    if let Some(history) = case["messages"].get(asked) {
        text =
            format!("data: {}\n\ndata: [DONE]\n\n", json!({"choices": [{"delta": {"content": history["content"]}}]}));
    } else {
        for line in case["lines"].as_array().unwrap() {
            text += line["text"].as_str().unwrap();
            text += if streamed { "\n" } else { "" };
        }
    }
    let kind = if streamed { "text/event-stream" } else { "application/json" };
    let status = if case["messages"].get(asked).is_some() { 200 } else { case["status"].as_u64().unwrap() };
    let head = format!("HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nConnection: close\r\n\r\n");
    let _ = stream.write_all(format!("{head}{text}").as_bytes());
    Keep::Close
}

fn repeat(name: &str) {
    let case = golden_json(&format!("{DIRECTORY}/{name}.args.json"));
    let text = golden_text(&format!("{DIRECTORY}/{name}.requests.jsonl"));
    let recorded: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let server = serve(&recorded, case["server"] != json!({}));
    let place = Place::new();
    for (file, content) in case["files"].as_object().into_iter().flatten() {
        let text = content.as_str().map_or_else(|| content.to_string(), str::to_owned);
        std::fs::write(place.path().join(file), text).unwrap();
    }
    let port = server.address.port().to_string();
    let argv: Vec<String> =
        case["argv"].as_array().unwrap().iter().map(|word| word.as_str().unwrap().replace("{port}", &port)).collect();
    let args: Vec<&str> = std::iter::once("multi-turn").chain(argv.iter().map(String::as_str)).collect();
    let mut command = place.command(&args);
    for (key, value) in case["env"].as_object().into_iter().flatten() {
        command.env(key, value.as_str().unwrap());
    }
    let output = command.output().unwrap();
    let code = i32::from(WITHOUT_SUCCESS.contains(&name));
    assert_eq!(output.status.code(), Some(code), "{name}: {}", stderr(&output));
    let asked: Vec<Seen> = server.calls().into_iter().filter(|seen| seen.method() == "POST").collect();
    let bodies: Vec<String> = asked.iter().map(|seen| String::from_utf8_lossy(&seen.body).into_owned()).collect();
    let expected: Vec<&str> = recorded.iter().map(|request| request["body_text"].as_str().unwrap()).collect();
    if name == HANGS {
        assert_eq!(bodies[..expected.len()], expected, "{name}");
        assert_eq!(place.json("out.json").as_array().unwrap().len(), 3, "{name}: all are held to their end");
        return;
    }
    if RACES.contains(&name) {
        // Each of three clients abandons at most two conversations.
        assert!(bodies.len().abs_diff(expected.len()) <= 6, "{name}: {} requests", bodies.len());
        return talk_tables::shared(name, &place.json("stats.json"), &place.json("out.json"));
    }
    talk_tables::printed(name, &case, &stdout(&output));
    if case["deterministic_order"] == false {
        // The assignment of conversations to clients is a race in vLLM's script: only the set of requests is the
        // same.
        let sorted = |bodies: Vec<&str>| {
            let mut bodies: Vec<String> = bodies.into_iter().map(str::to_owned).collect();
            bodies.sort();
            bodies
        };
        assert_eq!(sorted(bodies.iter().map(String::as_str).collect()), sorted(expected), "{name}");
        talk_tables::shared(name, &place.json("stats.json"), &place.json("out.json"));
        return talk_tables::same_work(name, &place.json("stats.json"), &place.json("out.json"));
    }
    assert_eq!(bodies, expected, "{name}");
    for (seen, request) in asked.iter().zip(&recorded) {
        headers(name, seen, &request["headers"]);
    }
    same_samples(&place, name, &argv);
    if let Some(file) = after(&argv, "-o") {
        assert_eq!(place.json(file), golden_json(&format!("{DIRECTORY}/{name}.out.json")), "{name}");
    }
}

fn after<'a>(argv: &'a [String], flag: &str) -> Option<&'a str> {
    let at = argv.iter().position(|word| word == flag)?;
    argv.get(at + 1).map(String::as_str)
}

/// Headers that the script sets; others come from its HTTP library.
fn headers(name: &str, seen: &Seen, recorded: &Value) {
    let library = ["Host", "Accept", "Accept-Encoding", "User-Agent", "Content-Length"];
    for pair in recorded.as_array().unwrap() {
        let (key, value) = (pair[0].as_str().unwrap(), pair[1].as_str().unwrap());
        if !library.contains(&key) {
            assert_eq!(seen.header(key), Some(value), "{name}: {key}");
        }
    }
}

/// Asserts that samples are equal except for times, which are masked.
fn same_samples(place: &Place, name: &str, argv: &[String]) {
    let Some(file) = after(argv, "--stats-json-output") else { return };
    let found = place.json(file);
    let recorded = golden_json(&format!("{DIRECTORY}/{name}.stats.json"));
    let (found, recorded) = (found.as_array().unwrap(), recorded.as_array().unwrap());
    assert_eq!(found.len(), recorded.len(), "{name}");
    for (found, recorded) in found.iter().zip(recorded) {
        let keys = |row: &Value| row.as_object().unwrap().keys().cloned().collect::<Vec<String>>();
        assert_eq!(keys(found), keys(recorded), "{name}");
        for (key, value) in recorded.as_object().unwrap() {
            if !value.as_str().is_some_and(|text| text.starts_with('{')) {
                assert_eq!(&found[key], value, "{name}: {key}");
            }
        }
    }
}

/// Sends the recorded response to each body.
pub(crate) fn serve(recorded: &[Value], silent: bool) -> Scripted {
    let mut answers: HashMap<String, Vec<Value>> = HashMap::new();
    for request in recorded.iter().rev() {
        let body = request["body_text"].as_str().unwrap().to_owned();
        answers.entry(body).or_default().push(request["answer"].clone());
    }
    let answers = Mutex::new(answers);
    Scripted::start(move |seen, stream| {
        if seen.method() == "GET" {
            let (status, body) = match (silent, seen.path()) {
                (true, _) => (404, json!({"detail": "Not Found"})),
                (_, "/version") => (200, json!({"version": "0.32.0"})),
                _ => (200, json!({"object": "list", "data": [{"id": "m", "max_model_len": 2048}]})),
            };
            let _ = write_plain(stream, status, "OK", "application/json", body.to_string().as_bytes());
            return Keep::Open;
        }
        let body = String::from_utf8_lossy(&seen.body).into_owned();
        let answer = {
            let mut answers = answers.lock().unwrap();
            let left = answers.get_mut(&body);
            left.and_then(|left| if left.len() > 1 { left.pop() } else { left.first().cloned() })
        };
        let other = || json!({"chunks": ["R", " another", " ok"]});
        play(&answer.unwrap_or_else(other), seen.json()["stream"] == true, stream)
    })
}

fn play(answer: &Value, streamed: bool, stream: &mut TcpStream) -> Keep {
    if let Some(ms) = answer["delay_ms"].as_u64() {
        std::thread::sleep(Duration::from_millis(ms));
    }
    if let Some(status) = answer["status"].as_u64() {
        let body = answer["body"].as_str().map_or_else(|| answer["body"].to_string(), str::to_owned);
        let _ = write_plain(stream, status as u16, "Bad Request", "application/json", body.as_bytes());
        return Keep::Open;
    }
    let chunks: Vec<&str> = answer["chunks"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if !streamed {
        let body = json!({"choices": [{"message": {"role": "assistant", "content": chunks.concat()}}]});
        let _ = write_plain(stream, 200, "OK", "application/json", body.to_string().as_bytes());
        return Keep::Open;
    }
    let event = |delta: Value| format!("data: {}\n\n", json!({"choices": [{"delta": delta}]}));
    let mut text = event(json!({"role": "assistant", "content": ""}));
    for line in answer["raw"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        text += &format!("{line}\n\n");
    }
    chunks.iter().for_each(|chunk| text += &event(json!({"content": chunk})));
    text += &event(json!({"content": ""}));
    if answer["done"] != false {
        text += "data: [DONE]\n\n";
    }
    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n");
    if answer["end"] == "reset" {
        let _ = stream.write_all(&text.as_bytes()[..text.len() / 2]);
        return Keep::Reset;
    }
    let piece = answer["split"].as_u64().map_or(text.len(), |bytes| bytes as usize);
    for part in text.as_bytes().chunks(piece.max(1)) {
        let _ = stream.write_all(part);
    }
    Keep::Close
}
