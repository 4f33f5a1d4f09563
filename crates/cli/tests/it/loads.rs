//! Start, limits, and end of sessions, against the simulator.

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::tacho::{Place, stderr, stdout};

const CHAT: [&str; 7] =
    ["serve", "--sim", "--backend", "openai-chat", "--endpoint", "/v1/chat/completions", "--ready-check-timeout-sec=0"];

/// Runs with these flags and returns the result.
fn result(place: &Place, flags: &[&str]) -> Value {
    let saved = ["--save-result", "--save-detailed", "--result-filename", "result.json", "--no-log"];
    let output = place.run(&[&CHAT[..], &saved, flags].concat());
    assert!(output.status.success(), "{flags:?}: {}", stderr(&output));
    place.json("result.json")
}

fn column(result: &Value, name: &str) -> Vec<f64> {
    result["tacho"][name].as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect()
}

/// Writes conversations of this many turns each, without timestamps.
fn conversations(place: &Place, sessions: usize, turns: usize) -> &'static str {
    let turn = |turn: usize| json!({"text": format!("turn {turn} of a talk about the weather"), "output_length": 8});
    let line = |session: usize| {
        let turns: Vec<Value> = (0..turns).map(turn).collect();
        json!({"session_id": format!("s{session}"), "turns": turns}).to_string() + "\n"
    };
    std::fs::write(place.path().join("talks.jsonl"), (0..sessions).map(line).collect::<String>()).unwrap();
    "talks.jsonl"
}

/// The maximum number of overlapping spans.
fn most_at_once(spans: &[(f64, f64)]) -> usize {
    let at = |moment: f64| spans.iter().filter(|span| span.0 <= moment && moment < span.1).count();
    spans.iter().map(|span| at(span.0)).max().unwrap_or(0)
}

#[test]
fn users_send_at_their_distance_and_others_take_their_places() {
    let place = Place::new();
    let file = conversations(&place, 6, 3);
    let result = result(&place, &["--sessions", file, "--num-users", "2", "--user-centric-rate", "10"]);
    let (due, session) = (column(&result, "scheduled"), column(&result, "session"));
    let mut by_session: HashMap<u64, Vec<f64>> = HashMap::new();
    due.iter().zip(&session).for_each(|(due, session)| by_session.entry(*session as u64).or_default().push(*due));
    let mut starts: Vec<f64> = by_session.values().map(|dues| dues[0]).collect();
    starts.sort_by(f64::total_cmp);
    for dues in by_session.values() {
        assert!(dues.windows(2).all(|pair| pair[1] - pair[0] > 0.1999), "a turn each two tenths: {dues:?}");
    }
    let planned = [0.0, 0.1, 0.6, 0.7, 1.2, 1.3];
    let first = starts[0];
    let off = starts.iter().zip(planned).map(|(start, planned)| (start - first - planned).abs());
    assert!(off.fold(0.0, f64::max) < 0.001, "{starts:?}");
}

#[test]
fn limits_on_sessions_requests_and_prefills_each_hold() {
    let place = Place::new();
    let file = conversations(&place, 12, 3);
    let limits = ["--sessions-concurrency", "5", "--max-concurrency", "4", "--prefill-concurrency", "2"];
    let result = result(&place, &[&["--sessions", file, "--session-rate", "inf"][..], &limits].concat());
    assert_eq!(result["completed"], 36);
    let (sent, done) = (column(&result, "sent"), column(&result, "done"));
    let ttfts: Vec<f64> = result["ttfts"].as_array().unwrap().iter().map(|ttft| ttft.as_f64().unwrap()).collect();
    let whole: Vec<(f64, f64)> = sent.iter().copied().zip(done.iter().copied()).collect();
    let prefills: Vec<(f64, f64)> = sent.iter().zip(&ttfts).map(|(sent, ttft)| (*sent, sent + ttft)).collect();
    assert!(most_at_once(&whole) <= 4, "{}", most_at_once(&whole));
    assert!(most_at_once(&prefills) <= 2, "{}", most_at_once(&prefills));
    let mut sessions: HashMap<u64, (f64, f64)> = HashMap::new();
    for (at, session) in column(&result, "session").iter().enumerate() {
        let span = sessions.entry(*session as u64).or_insert((f64::INFINITY, 0.0));
        *span = (span.0.min(sent[at]), span.1.max(done[at]));
    }
    let sessions: Vec<(f64, f64)> = sessions.into_values().collect();
    assert!(most_at_once(&sessions) <= 5, "{}", most_at_once(&sessions));
}

#[test]
fn requests_that_are_called_off_are_no_failures() {
    let place = Place::new();
    let flags = ["--dataset-name", "random", "--num-prompts", "60", "--random-input-len", "8", "--random-output-len"];
    let cancel = ["200", "--request-cancellation-rate", "50", "--request-cancellation-delay", "0.02"];
    let result = result(&place, &[&flags[..], &cancel].concat());
    let cancelled = result["tacho"]["outcomes"]["cancelled"].as_u64().unwrap();
    assert!((15..=45).contains(&cancelled), "{}", result["tacho"]["outcomes"]);
    assert_eq!((result["failed"].as_u64(), result["completed"].as_u64()), (Some(0), Some(60 - cancelled)));
}

#[test]
fn think_time_is_drawn_and_warm_up_sessions_are_left_out() {
    let place = Place::new();
    let file = conversations(&place, 5, 3);
    let flags = ["--sessions", file, "--think-time", "uniform:0.05:0.1", "--warmup-sessions", "2"];
    let result = result(&place, &flags);
    let sessions = &result["tacho"]["sessions"];
    assert_eq!((&sessions["sessions"], &sessions["finished"], &result["completed"]), (&json!(3), &json!(3), &json!(9)));
    let think = sessions["think_time_ms"]["mean"].as_f64().unwrap();
    // A busy machine adds to the pauses; their planned lengths follow.
    assert!(think >= 100.0, "two pauses of 50 to 100 ms: {think}");
    let (due, done) = (column(&result, "scheduled"), column(&result, "done"));
    for (at, turn) in column(&result, "turn").iter().enumerate().filter(|(_, turn)| **turn > 0.0) {
        let pause = due[at] - done[at - 1];
        assert!((0.049..0.101).contains(&pause), "turn {turn}: {pause}");
    }
}

#[test]
fn a_run_by_time_cuts_sessions_and_says_so() {
    let place = Place::new();
    let file = conversations(&place, 4, 6);
    let flags = ["--sessions", file, "--think-time", "0.3", "--duration", "1", "--sessions-concurrency", "2"];
    let result = result(&place, &flags);
    let sessions = &result["tacho"]["sessions"];
    assert_eq!((&sessions["truncated"], &sessions["not_started"]), (&json!(2), &json!(2)), "{sessions}");
    assert_eq!((&sessions["failed"], &sessions["not_sent_parent_failed"]), (&json!(0), &json!(0)));
    let unsent = sessions["not_sent_run_ended"].as_u64().unwrap() + result["completed"].as_u64().unwrap();
    assert_eq!(unsent, 24, "{sessions}");
}

#[test]
fn conversations_of_a_dataset_grow_by_their_answers() {
    let place = Place::new();
    let flags = ["--multi-turn", "--dataset-name", "random", "--num-prompts", "6", "--random-input-len", "40"];
    let more = ["--per-turn-input-len", "16", "--random-output-len", "8", "--multi-turn-num-turns", "4"];
    let result = result(&place, &[&flags[..], &more, &["--multi-turn-concurrency", "3"]].concat());
    assert_eq!(result["completed"], 24);
    let turns = result["tacho"]["sessions"]["per_turn_metrics"].as_array().unwrap();
    let mean = |turn: &Value| turn["input_tokens"]["mean"].as_f64().unwrap();
    let grows = turns.windows(2).map(|pair| mean(&pair[1]) - mean(&pair[0]));
    assert!(grows.clone().all(|more| (20.0..45.0).contains(&more)), "{:?}", grows.collect::<Vec<_>>());
    let cache = &result["tacho"]["sessions"]["prefix_cache"];
    assert!(cache["ideal_hit_rate"].as_f64().unwrap() > 0.3, "{cache}");
    let both = place.run(&[&CHAT[..], &["--multi-turn", "--request-rate", "2"]].concat());
    assert_eq!(both.status.code(), Some(2), "{}", stderr(&both));
}

#[test]
fn sessions_in_progress_have_the_context_of_steady_state_from_the_first_request_on() {
    let place = Place::new();
    let flags = ["--multi-turn", "--dataset-name", "random", "--num-prompts", "60", "--random-input-len", "40"];
    let more = ["--per-turn-input-len", "40", "--random-output-len", "8", "--multi-turn-num-turns", "10"];
    let load = ["--sessions-concurrency", "12"];
    let run = |flags_of_start: &[&str]| result(&place, &[&flags[..], &more, &load, flags_of_start].concat());
    // The mean prompt length of the first 60 requests, half a session of each user, against that of all.
    let early = |result: &Value| {
        let mut sent: Vec<(f64, f64)> = column(result, "sent").into_iter().zip(lens(result)).collect();
        sent.sort_by(|left, right| left.0.total_cmp(&right.0));
        let mean = |part: &[(f64, f64)]| part.iter().map(|(_, len)| len).sum::<f64>() / part.len() as f64;
        mean(&sent[..60]) / mean(&sent)
    };
    let cold = run(&["--sessions-in-progress", "cold"]);
    let from_turn_one = run(&[]);
    assert!(early(&from_turn_one) < 0.6, "{}", early(&from_turn_one));
    assert!((0.8..1.25).contains(&early(&cold)), "{}", early(&cold));
    assert!(cold["completed"].as_u64().unwrap() < 600, "{}", cold["completed"]);
    assert_eq!((&from_turn_one["completed"], &cold["failed"]), (&json!(600), &json!(0)));
    // The same requests, with their contexts in the cache.
    let warm = run(&["--sessions-in-progress", "warm"]);
    let cached = |result: &Value| result["tacho"]["sessions"]["prefix_cache"]["ideal_hit_rate"].as_f64().unwrap();
    assert_eq!(warm["total_input_tokens"], cold["total_input_tokens"]);
    assert!(cached(&warm) > cached(&cold), "{} {}", cached(&warm), cached(&cold));
    let refused =
        |flags: &[&str]| place.run(&[&CHAT[..], &["--multi-turn", "--sessions-in-progress", "cold"], flags].concat());
    for flags in [&[][..], &["--sessions-concurrency", "2", "--warmup-sessions", "1"]] {
        assert_eq!(refused(flags).status.code(), Some(2), "{}", stderr(&refused(flags)));
    }
}

/// Prompt lengths in the order of the rows.
fn lens(result: &Value) -> Vec<f64> {
    result["input_lens"].as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect()
}

#[test]
fn a_server_that_keeps_the_history_is_told_only_what_is_new() {
    let place = Place::new();
    let file = conversations(&place, 3, 3);
    let responses = ["serve", "--sim", "--backend", "openai-responses", "--endpoint", "/v1/responses"];
    let flags = ["--sessions", file, "--save-result", "--result-filename", "kept.json", "--no-log"];
    let run = |more: &[&str]| {
        let output = place.run(&[&responses[..], &flags, more].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        let turns = place.json("kept.json")["tacho"]["sessions"]["per_turn_metrics"].clone();
        turns.as_array().unwrap().iter().map(|turn| turn["input_tokens"]["mean"].as_f64().unwrap()).collect::<Vec<_>>()
    };
    let (kept, told) = (run(&["--server-history"]), run(&[]));
    assert!(kept.windows(2).all(|pair| pair[1] > pair[0] + 8.0), "the server adds what it kept: {kept:?}");
    let off = kept.iter().zip(&told).map(|(kept, told)| (kept - told).abs()).fold(0.0, f64::max);
    assert!(off <= 3.0, "as long as if all were sent again: {kept:?} {told:?}");
    let chat = place.run(&[&CHAT[..], &["--sessions", file, "--server-history"]].concat());
    assert!(!chat.status.success() && stderr(&chat).contains("openai-responses"), "{}", stderr(&chat));
}

#[test]
fn tools_that_are_called_get_results() {
    let place = Place::new();
    let tools = json!([{"type": "function", "function": {"name": "look", "parameters": {
        "type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}}}]);
    let turn = |text: &str, forced: bool| {
        let choice = if forced { json!("required") } else { json!("none") };
        json!({"messages": [{"role": "user", "content": text}], "max_tokens": 24, "tools": tools,
            "extra": {"tool_choice": choice}})
    };
    let session = json!({"session_id": "a", "turns": [turn("look it up", true), turn("and now?", false)]});
    std::fs::write(place.path().join("agent.jsonl"), session.to_string()).unwrap();
    let flags = ["--sessions", "agent.jsonl", "--sessions-format", "dag_jsonl", "--tool-latency", "0.25"];
    let result = result(&place, &flags);
    assert_eq!(result["completed"], 2, "{}", result["errors"]);
    let (due, done) = (column(&result, "scheduled"), column(&result, "done"));
    let pause = due[1] - done[0];
    assert!((0.2499..0.26).contains(&pause), "the tool takes its time: {pause}");
}

#[test]
fn a_log_tells_the_same_of_sessions() {
    let place = Place::new();
    let file = conversations(&place, 4, 3);
    let flags = ["--sessions", file, "--log", "kept", "--save-result", "--result-filename", "result.json"];
    let output = place.run(&[&CHAT[..], &flags].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let ran = place.json("result.json");
    let output = place.run(&["report", "kept", "--save-result", "again.json"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stdout(&output).contains(" finished · "), "{}", stdout(&output));
    let again = place.json("again.json");
    assert_eq!(again["tacho"]["sessions"], ran["tacho"]["sessions"]);
    assert_eq!(again["tacho"]["intervals"], ran["tacho"]["intervals"]);
}
