//! Session replay against the simulator, and the multi-turn benchmark.

use serde_json::Value;

use crate::tacho::{Place, each, stderr, stdout};

/// Replays a file and returns its result.
fn replay(place: &Place, file: &str, more: &[&str]) -> Value {
    let mut args = vec![
        "serve",
        "--sim",
        "--sim-profile",
        "tiny",
        "--backend",
        "openai-chat",
        "--endpoint",
        "/v1/chat/completions",
        "--sessions",
        file,
        "--save-result",
        "--save-detailed",
        "--result-filename",
        "result.json",
        "--time-scale",
        "0.02",
    ];
    args.extend(more);
    let output = place.run(&args);
    assert!(output.status.success(), "{file}: {}", stderr(&output));
    assert!(stdout(&output).contains(" finished · "), "{}", stdout(&output));
    place.json("result.json")
}

/// The session model of a file at the same pace.
fn model(place: &Place, file: &str, more: &[&str]) -> Value {
    let mut args = vec!["convert", "trace", file, "--time-scale", "0.02"];
    args.extend(more);
    serde_json::from_str(&stdout(&place.run(&args))).unwrap()
}

#[test]
fn every_format_is_replayed_when_its_model_says() {
    let files: [(&str, Option<&str>); 20] = [
        ("mooncake-single.jsonl", None),
        ("mooncake-session.jsonl", None),
        ("mooncake-cumulative.jsonl", None),
        ("aiperf-dag.jsonl", None),
        ("aiperf-multi-turn.jsonl", None),
        ("aiperf-inputs.json", None),
        ("aiperf-raw-payload.jsonl", Some("raw_payload")),
        ("weka-1.json", None),
        ("bailian.jsonl", None),
        ("azure.csv", None),
        ("burstgpt.csv", None),
        ("guidellm-columns.jsonl", None),
        ("guidellm-graph.jsonl", None),
        ("otel-sessions.jsonl", None),
        ("sglang-agentic.json", None),
        ("sglang-openai.jsonl", Some("sglang openai")),
        ("sharegpt.json", None),
        ("aiperf-single-turn.jsonl", None),
        ("weka-1.jsonl", None),
        ("weka-flat.json", None),
    ];
    each(&files, |(file, format)| is_replayed_as_its_model_says(file, *format));
}

fn is_replayed_as_its_model_says(file: &str, format: Option<&str>) {
    let place = Place::new();
    let path = format!("golden/sessions/{file}");
    let named: Vec<&str> = format.into_iter().flat_map(|name| ["--sessions-format", name]).collect();
    let result = replay(&place, &path, &named);
    let named: Vec<&str> = format.into_iter().flat_map(|name| ["--format", name]).collect();
    let model = model(&place, &path, &named);
    let sent: Vec<&Value> = model["requests"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|step| step["request"] != false && step["failed_in_trace"] != true)
        .collect();
    let tacho = &result["tacho"];
    // The bodies in two files name a model that the simulator does not have.
    let foreign = usize::from(matches!(file, "mooncake-session.jsonl" | "aiperf-raw-payload.jsonl"));
    assert_eq!(tacho["sessions"]["failed"], foreign, "{file}");
    assert_eq!(tacho["sent"].as_array().unwrap().len(), sent.len(), "{file}");
    let time = |key: &str, at: usize| tacho[key][at].as_f64().unwrap();
    let places: std::collections::HashMap<&str, usize> =
        sent.iter().enumerate().map(|(at, step)| (step["id"].as_str().unwrap(), at)).collect();
    let origin = (0..sent.len()).map(|at| time("scheduled", at)).fold(f64::INFINITY, f64::min);
    for (at, step) in sent.iter().enumerate() {
        let mut due = origin + step["at_ms"].as_f64().unwrap_or(0.0) / 1000.0;
        let mut exact = true;
        for edge in step["parents"].as_array().unwrap() {
            match places.get(edge["id"].as_str().unwrap()) {
                Some(&parent) => due = due.max(time("done", parent) + edge["after_ms"].as_f64().unwrap() / 1000.0),
                // A gate step does not send a request.
                None => exact = false,
            }
        }
        exact &= step["starts_with"].is_null() && step["start_delay_ms"].is_null();
        if exact {
            let found = time("scheduled", at);
            assert!((found - due).abs() < 0.001, "{file} {}: due {found}, by the model {due}", step["id"]);
        }
    }
}

#[test]
fn a_saved_workload_of_sessions_is_replayed() {
    let place = Place::new();
    let file = "golden/sessions/mooncake-session.jsonl";
    let common = ["serve", "--sim", "--backend", "openai-chat", "--endpoint", "/v1/chat/completions"];
    let saving = ["--sessions", file, "--dry-run", "--save-workload", "saved.json"];
    let output = place.run(&[&common[..], &saving].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let saved = place.json("saved.json");
    let sent = |id: &str| {
        let found = saved["requests"].as_array().unwrap().iter().find(|step| step["id"] == id);
        found.unwrap_or_else(|| panic!("{id}"))["sent"].clone()
    };
    let first = saved["requests"][0]["id"].as_str().unwrap();
    assert!(sent(first)["messages"][0]["content"].as_str().is_some_and(|text| !text.is_empty()), "{}", sent(first));
    let limits = ["--workload", "saved.json", "--time-scale", "0.02", "--sessions-concurrency", "2", "--seed", "5"];
    let output = place.run(&[&common[..], &limits].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stdout(&output).contains(" finished · "), "{}", stdout(&output));
}

#[test]
fn flags_about_sessions_need_sessions() {
    let place = Place::new();
    let output = place.run(&["serve", "--sim", "--session-rate", "2"]);
    assert!(!output.status.success());
    assert!(stderr(&output).contains("--sessions"), "{}", stderr(&output));
    let output = place.run(&["serve", "--sim", "--sessions", "golden/sessions/azure.csv", "--request-rate", "2"]);
    assert!(stderr(&output).contains("--request-rate"), "{}", stderr(&output));
}

#[test]
fn conversations_are_made_without_a_server() {
    let place = Place::new();
    let case = tacho_testkit::golden_json("scenarios/multi-turn/generate/uniform.args.json");
    std::fs::write(place.path().join("config.json"), case["config"].to_string()).unwrap();
    let seed = case["seed"].to_string();
    let args = [
        "multi-turn",
        "-i",
        "config.json",
        "-m",
        case["tokenizer"].as_str().unwrap(),
        "--seed",
        &seed,
        "--dry-run",
        "--save-workload",
        "made.json",
    ];
    let output = place.run(&args);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(place.json("made.json"), tacho_testkit::golden_json("scenarios/multi-turn/generate/uniform.json"));
}

/// An agent that must call a tool, two concurrent sub-agents, and the turn that joins them.
const AGENT: &str = r#"{"session_id": "root", "turns": [
  {"messages": [{"role": "user", "content": "the weather?"}], "max_tokens": 30, "spawns": ["a", "b"],
   "tools": [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object",
     "properties": {"days": {"type": "integer"}}, "required": ["days"]}}}], "extra": {"tool_choice": "required"}},
  {"messages": [{"role": "user", "content": "sum up"}], "max_tokens": 8}]}
{"session_id": "a", "turns": [{"messages": [{"role": "user", "content": "one"}], "max_tokens": 20}]}
{"session_id": "b", "turns": [{"messages": [{"role": "user", "content": "two"}], "max_tokens": 4}]}
"#;

#[test]
fn agents_are_held_over_every_protocol_and_tools_run_beside_sub_agents() {
    let place = Place::new();
    let lines: Vec<String> = AGENT.replace("\n  ", " ").lines().map(str::to_owned).collect();
    std::fs::write(place.path().join("agent.jsonl"), lines.join("\n")).unwrap();
    for (backend, endpoint) in [
        ("openai-chat", "/v1/chat/completions"),
        ("anthropic-messages", "/v1/messages"),
        ("openai-responses", "/v1/responses"),
    ] {
        let mut args =
            vec!["serve", "--sim", "--backend", backend, "--endpoint", endpoint, "--sessions", "agent.jsonl"];
        args.extend(["--tool-latency", "0.4", "--save-result", "--save-detailed", "--result-filename", "agent.json"]);
        let output = place.run(&args);
        assert!(output.status.success(), "{backend}: {}", stderr(&output));
        let result = place.json("agent.json");
        assert_eq!(
            (&result["completed"], &result["failed"]),
            (&4.into(), &0.into()),
            "{backend}: {}",
            result["errors"]
        );
        let number = |key: &str, at: usize| result["tacho"][key][at].as_f64().unwrap();
        // The tools run from the response that calls them, while the sub-agents work; a slow machine makes these last.
        let waited = number("scheduled", 1) - number("done", 0);
        let sub_agents = [2, 3].map(|at| number("done", at) - number("done", 0));
        let expected = sub_agents.into_iter().fold(0.4, f64::max);
        assert!((waited - expected).abs() < 1e-3, "{backend}: {waited}, {sub_agents:?}");
        let seen = &result["tacho"]["sessions"]["time_to_first_user_token_ms"]["mean"];
        assert!(seen.as_f64().unwrap() > 400.0, "{backend}: a call is no word: {seen}");
    }
}
