//! Compares the outcomes of recorded responses with vLLM's and with the correct ones.

use std::{io::Write, net::TcpStream};

use base64::Engine;
use serde_json::Value as Json;
use tacho_client::{BackendKind, PayloadSpec, Rules, Task, backends::built_in_file};
use tacho_core::{Content, FailureKind, Observation, Outcome, Request, json::parse};
use tacho_testkit::{golden_files, golden_json};

use crate::scripted::{Keep, Script, WHOLE, serve, write_stream};
use crate::upstream::{Function, Verdict, verdict};
use crate::wire::{endpoint, request_of, send};

fn segments(response: &Json) -> Vec<Vec<u8>> {
    let engine = base64::engine::general_purpose::STANDARD;
    let decode = |segment: &Json| engine.decode(segment["b64"].as_str().unwrap()).unwrap();
    response["segments"].as_array().map(|all| all.iter().map(decode).collect()).unwrap_or_default()
}

/// Writes a recorded response, one segment at a time.
fn play(response: &Json, stream: &mut TcpStream) -> Keep {
    if response["end"] == "early" {
        return Keep::Close;
    }
    let segments = segments(response);
    let total: usize = segments.iter().map(Vec::len).sum();
    let framing = response["framing"].as_str().unwrap();
    let mut head = format!("HTTP/1.1 {} {}\r\n", response["status"], response["reason"].as_str().unwrap());
    for pair in response["headers"].as_array().unwrap() {
        head += &format!("{}: {}\r\n", pair[0].as_str().unwrap(), pair[1].as_str().unwrap());
    }
    head += &match framing {
        "chunked" => "Transfer-Encoding: chunked\r\n".to_owned(),
        "length" => format!("Content-Length: {total}\r\n"),
        "length-lie" => format!("Content-Length: {}\r\n", total + 1000),
        _ => "Connection: close\r\n".to_owned(),
    };
    let _ = stream.write_all(format!("{head}\r\n").as_bytes());
    for segment in segments {
        if framing == "chunked" {
            let _ = stream.write_all(format!("{:x}\r\n", segment.len()).as_bytes());
        }
        let _ = stream.write_all(&segment);
        if framing == "chunked" {
            let _ = stream.write_all(b"\r\n");
        }
    }
    match response["end"].as_str().unwrap() {
        "normal" if framing == "chunked" => {
            let _ = stream.write_all(b"0\r\n\r\n");
            Keep::Open
        }
        "normal" if framing == "length" => Keep::Open,
        "reset" => {
            // The reset discards what has not been read yet, so let the client read first.
            std::thread::sleep(std::time::Duration::from_millis(30));
            Keep::Reset
        }
        _ => Keep::Close,
    }
}

fn observe(case: &Json, rules: Rules) -> Observation {
    observe_as(case, backend_of(case), rules)
}

fn observe_as(case: &Json, backend: BackendKind, rules: Rules) -> Observation {
    let response = case["answer"].clone();
    let refused = case["name"].as_str().unwrap().ends_with("connection-refused");
    let mut asked = 0;
    let script: Script = Box::new(move |_, stream| {
        asked += 1;
        // A redirect leads to a complete response.
        if asked > 1 {
            write_stream(stream, &WHOLE);
            return Keep::Open;
        }
        play(&response, stream)
    });
    let server = serve(script);
    let port = if refused { 1 } else { server.address.port() };
    let url = format!("http://127.0.0.1:{port}{}", backend.default_endpoint());
    let payload = payload_of(case);
    send(endpoint(&url, backend, rules), &payload, &[request_for(case, backend_of(case))]).remove(0)
}

fn backend_of(case: &Json) -> BackendKind {
    BackendKind::from_name(case["backend"].as_str().unwrap()).unwrap()
}

/// The request of a case; fields missing in the recording are chosen to fit the backend.
fn request_for(case: &Json, backend: BackendKind) -> Request {
    let mut request = request_of(&case["input"]);
    if case["input"]["prompt"].is_null() {
        request.content = match backend {
            BackendKind::VllmRerank => Content::Texts(vec!["q".into(), "a".into(), "b".into()]),
            _ => Content::Text("p".into()),
        };
    }
    if backend == BackendKind::OpenAiAudio {
        request.media = Some(parse(r#"{"audio": [[0.0, 0.5], 8000]}"#).unwrap());
    }
    request
}

fn payload_of(case: &Json) -> PayloadSpec {
    let extra = parse(&case["input"]["extra_body"].to_string()).unwrap();
    let extra_body = extra.as_dict().cloned().unwrap_or_default();
    PayloadSpec { model: "m".into(), extra_body, ..PayloadSpec::default() }
}

fn seen(row: &Observation) -> Verdict {
    Verdict {
        success: row.outcome.is_complete(),
        text: String::from_utf8_lossy(&row.text).into_owned(),
        token_events: row.chunks.len(),
        output_tokens: row.usage.completion_tokens.unwrap_or(0),
        prompt_tokens: row.usage.prompt_tokens,
    }
}

fn recorded(case: &Json) -> Verdict {
    let expect = &case["expect"];
    let pooling = backend_of(case).task() == Task::Pooling;
    let positive = expect["ttft_positive"].as_bool().unwrap();
    let asked = case["input"]["prompt_len"].as_u64().unwrap();
    let prompt = expect["prompt_len"].as_f64().unwrap() as u64;
    Verdict {
        success: expect["success"].as_bool().unwrap(),
        // The responses function keeps the text of a failure; we do not.
        text: expect["generated_text"].as_str().filter(|_| expect["success"] == true).unwrap_or_default().to_owned(),
        token_events: if pooling { 0 } else { usize::from(positive) + expect["n_itl"].as_u64().unwrap() as usize },
        output_tokens: expect["output_tokens"].as_f64().unwrap_or(0.0) as u64,
        prompt_tokens: (prompt != asked).then_some(prompt),
    }
}

fn cases() -> Vec<Json> {
    let name = |path: &std::path::PathBuf| format!("sse/{}", path.file_name().unwrap().to_string_lossy());
    golden_files("sse", ".json").iter().map(|path| golden_json(&name(path))).collect()
}

/// Upstream's outcome if the same bytes arrive in one read, when that differs.
fn hangs_on_cuts(case: &Json) -> Option<Verdict> {
    let response = &case["answer"];
    let plain =
        response["status"] == 200 && response["end"] == "normal" && !case.to_string().contains("Content-Encoding");
    let function = match backend_of(case) {
        BackendKind::Vllm | BackendKind::OpenAi => Function::Completions,
        BackendKind::OpenAiChat => Function::Chat,
        BackendKind::OpenAiAudio => Function::Audio,
        BackendKind::OpenAiResponses => Function::Responses,
        _ => return None,
    };
    if !plain {
        return None;
    }
    let reads = segments(response);
    let (cut, whole) = (verdict(&reads, function), verdict(&[reads.concat()], function));
    (cut != whole).then_some(whole)
}

#[test]
fn strict_parity_gives_upstreams_verdicts() {
    let (mut same, mut cut) = (0, 0);
    for case in cases() {
        let name = case["name"].as_str().unwrap();
        let row = observe(&case, Rules::Vllm);
        match hangs_on_cuts(&case) {
            Some(whole) => {
                let ours = seen(&row);
                assert_eq!((ours.success, &ours.text), (whole.success, &whole.text), "{name}, as a whole");
                // In one read upstream fails before it parses any event; we parse the events before the fault.
                assert!(!whole.success || ours == whole, "{name}, as a whole");
                cut += 1;
            }
            None => {
                let (ours, mut theirs) = (seen(&row), recorded(&case));
                if name.contains("surrogate") && case["expect"]["generated_text"].is_null() {
                    let mut json = Vec::new();
                    tacho_core::json::write_wtf8(&mut json, &row.text);
                    let expected = case["expect"]["generated_text_json"].as_str().unwrap();
                    assert_eq!(String::from_utf8(json).unwrap(), expected, "{name}");
                    theirs.text = ours.text.clone();
                }
                if backend_of(&case).task() == Task::Pooling {
                    let prompt = case["expect"]["prompt_len"].as_u64().unwrap();
                    assert_eq!(ours.prompt_tokens.unwrap_or(0), prompt, "{name}");
                    assert!(!ours.success || row.done > row.sent, "{name}");
                    theirs.prompt_tokens = ours.prompt_tokens;
                }
                theirs.prompt_tokens = theirs.prompt_tokens.or(ours.prompt_tokens);
                assert_eq!(ours, theirs, "{name}: {:?}", row.outcome);
                check_error(name, &case, &row);
                same += 1;
            }
        }
    }
    assert!(same > 380 && cut > 40 && cut < 90, "{same} as recorded, {cut} as a whole");
}

/// Errors that are not Python tracebacks are the same text.
fn check_error(name: &str, case: &Json, row: &Observation) {
    // Upstream never parses a malformed last event; we report it. Errors of the system or the HTTP library differ in
    // wording.
    let unread = row.outcome.failure().is_some_and(|failure| {
        matches!(failure.kind, FailureKind::Malformed | FailureKind::Connect | FailureKind::ConnectionLost)
    });
    if case["expect"]["error_is_traceback"] == false && !unread {
        let ours = row.outcome.failure().map_or("", |failure| failure.message.as_str());
        assert_eq!(ours, case["expect"]["error_last_line"].as_str().unwrap(), "{name}");
    }
}

/// The correct outcome of each recorded response; all others are complete.
fn deserved(name: &str, backend: BackendKind) -> Option<FailureKind> {
    match backend {
        BackendKind::OpenAiResponses => deserved_response(name.strip_prefix("responses-").unwrap()),
        _ if backend.task() == Task::Pooling => {
            deserved_pooling(name.strip_prefix(backend.name()).unwrap().trim_start_matches('-'))
        }
        _ => deserved_choices(name.split_once('-').map_or(name, |(_, case)| case)),
    }
}

fn deserved_response(case: &str) -> Option<FailureKind> {
    Some(match case {
        "bad-json" | "delta-number" | "json-list" => FailureKind::Malformed,
        "error-event"
        | "error-event-with-error-member"
        | "error-string"
        | "error-then-completed"
        | "error-two"
        | "error-without-type"
        | "failed" => FailureKind::ErrorInStream,
        "chat-shape" | "terminal-only" | "type-only-in-event-line" => FailureKind::Empty,
        "no-terminal" => FailureKind::Truncated,
        "disconnect-mid-stream" => FailureKind::ConnectionLost,
        _ if case.starts_with("http-") => FailureKind::Http(case[5..8].parse().unwrap()),
        _ => return None,
    })
}

fn deserved_pooling(case: &str) -> Option<FailureKind> {
    Some(match case {
        "bad-json" | "bytes-bad-metadata" | "bytes-no-metadata" | "json-list" => FailureKind::Malformed,
        "empty-body" | "usage-missing" | "usage-no-prompt-tokens" | "usage-null" => FailureKind::Empty,
        "error-body-200" => FailureKind::ErrorInStream,
        "connection-refused" => FailureKind::Connect,
        "disconnect" | "disconnect-before-headers" => FailureKind::ConnectionLost,
        _ if case.starts_with("http-") => FailureKind::Http(case[5..8].parse().unwrap()),
        _ => return None,
    })
}

fn deserved_choices(case: &str) -> Option<FailureKind> {
    Some(match case {
        "bad-json-own-segment"
        | "bad-json-terminated"
        | "choice-not-object"
        | "choices-object"
        | "content-list"
        | "content-number"
        | "delta-string"
        | "html-body"
        | "json-list"
        | "json-null"
        | "json-number-split"
        | "json-string"
        | "plain-json-body-with-blank-line"
        | "pretty-json"
        | "text-number" => FailureKind::Malformed,
        "error-in-stream" | "error-object-string" | "error-only" | "error-with-choices" => FailureKind::ErrorInStream,
        "blank-only"
        | "completions-shape"
        | "done-only"
        | "empty-body"
        | "indented-data"
        | "message-instead-of-delta"
        | "usage-only" => FailureKind::Empty,
        "disconnect-close-framing"
        | "id-line"
        | "last-event-cut"
        | "last-event-unterminated"
        | "missing-done"
        | "no-blank-line"
        | "single-newline-one-segment" => FailureKind::Truncated,
        "connection-refused" => FailureKind::Connect,
        "disconnect-after-headers"
        | "disconnect-before-headers"
        | "disconnect-length"
        | "disconnect-mid-stream"
        | "reset-mid-stream" => FailureKind::ConnectionLost,
        _ if case.starts_with("http-") => FailureKind::Http(case[5..8].parse().unwrap()),
        _ => return None,
    })
}

#[test]
fn each_answer_gets_the_outcome_it_deserves() {
    let mut wrong = Vec::new();
    for case in cases() {
        let name = case["name"].as_str().unwrap();
        if name.starts_with("real-") {
            continue;
        }
        let row = observe(&case, Rules::Standard);
        let kind = row.outcome.failure().map(|failure| failure.kind);
        let deserved = deserved(name, backend_of(&case));
        if kind != deserved {
            wrong.push(format!("{name}: {:?}, not {deserved:?}", row.outcome));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Encodings of embeddings as bytes, which a file cannot say.
const NOT_IN_FILES: [&str; 1] = ["bytes"];

#[test]
fn files_read_what_the_built_in_backends_read() {
    let (mut wrong, mut compared) = (Vec::new(), 0);
    for case in cases() {
        let name = case["name"].as_str().unwrap();
        let Some(text) = built_in_file(backend_of(&case).name()) else { continue };
        if NOT_IN_FILES.iter().any(|part| name.contains(part)) {
            continue;
        }
        let file = BackendKind::from_text(text, "file").unwrap();
        let known = |row: &Observation| {
            let kind = row.outcome.failure().map(|failure| failure.kind);
            let text = String::from_utf8_lossy(&row.text).into_owned();
            let counts = (row.usage, row.reasoning_tokens, row.token_counts.clone(), row.token_count_source);
            let marks = (row.first_content.is_some(), row.first_answer.is_some());
            (kind, text, row.chunks.len(), counts, marks)
        };
        let (own, by_file) = (observe(&case, Rules::Standard), observe_as(&case, file, Rules::Standard));
        compared += 1;
        // The built-in decoder of responses keeps no ends of texts, and counts an event before it finds it malformed.
        let ends = own.text_ends.is_empty() || own.text_ends == by_file.text_ends;
        let malformed = own.outcome.failure().is_some_and(|failure| failure.kind == FailureKind::Malformed);
        let (own, by_file) = (known(&own), known(&by_file));
        if if malformed { own.0 != by_file.0 } else { own != by_file || !ends } {
            wrong.push(format!("{name}: {by_file:?}, not {own:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {compared}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(compared > 300, "only {compared} answers were compared");
}

#[test]
fn answers_of_a_real_server_are_complete_unless_refused() {
    for case in cases() {
        let name = case["name"].as_str().unwrap();
        if !name.starts_with("real-") {
            continue;
        }
        let row = observe(&case, Rules::Standard);
        let expected = recorded(&case);
        assert_eq!(row.outcome == Outcome::Complete, expected.success, "{name}: {:?}", row.outcome);
        assert_eq!(row.chunks.len(), expected.token_events, "{name}");
        assert_eq!(String::from_utf8_lossy(&row.text), expected.text, "{name}");
    }
}

#[test]
fn whole_answers_are_timed_by_the_read_that_ended_them() {
    let pause = std::time::Duration::from_millis(40);
    let body = r#"{"data": [{"embedding": [1.0]}], "usage": {"prompt_tokens": 4}}"#;
    let script: Script = Box::new(move |_, stream| {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
        let _ = stream.write_all(format!("{head}{}", &body[..9]).as_bytes());
        std::thread::sleep(pause);
        let _ = stream.write_all(&body.as_bytes()[9..]);
        Keep::Open
    });
    let server = serve(script);
    let url = format!("http://{}/v1/embeddings", server.address);
    let endpoint = endpoint(&url, BackendKind::OpenAiEmbeddings, Rules::Standard);
    let row = send(endpoint, &PayloadSpec::default(), &[Request::text("p", 1, 0)]).remove(0);
    assert_eq!((&row.outcome, row.chunks.len()), (&Outcome::Complete, 0));
    assert_eq!(row.usage.prompt_tokens, Some(4));
    let first_byte = row.first_byte.unwrap();
    assert!(first_byte > row.sent && row.done.since(first_byte) > pause / 2);
}
