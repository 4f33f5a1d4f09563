//! Saved workloads: written, read back, and errors of edited files.

#![expect(clippy::unwrap_used, reason = "a test fails on any error")]

use std::path::PathBuf;

use tacho_core::json::{self, Value};
use tacho_core::{Content, Labels, Request};
use tacho_workload::{Error, read_jsonl, write_jsonl};

fn saved(text: &str) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("w.jsonl");
    std::fs::write(&path, text).unwrap();
    (directory, path)
}

fn full_request() -> Request {
    let json = |text| Some(json::parse(text).unwrap());
    Request {
        content: Content::Text("a \u{1f600}\n".to_owned()),
        prompt_len: 3,
        output_len: 5,
        id: Some("b-0".to_owned()),
        media: json(r#"[{"type": "image_url"}]"#),
        lora: Some("adapter".to_owned()),
        timestamp: Some(0.1),
        chat_messages: json(r#"[{"role": "user", "content": "hi"}]"#),
        overrides: json(r#"{"tool_choice": "auto"}"#),
        session: Some("s1".to_owned()),
        cancel_after: Some(0.25),
        labels: Labels::NONE.with("class", "chat"),
        answer: json("[1]"),
    }
}

#[test]
fn what_is_written_is_read_back() {
    let texts = Content::Texts(vec!["a".to_owned(), "b".to_owned()]);
    let requests = vec![
        full_request(),
        Request { content: texts, ..Request::text("", 2, 0) },
        Request { content: Content::Ids(vec![1, 50_256]), ..Request::text("", 2, 7) },
        Request { content: Content::Json(json::parse(r#"[{"type": "text"}]"#).unwrap()), ..Request::text("", 1, 1) },
    ];
    let due = [0.0, 0.1, 1.5, 2.0 / 3.0];
    let mut bytes = Vec::new();
    write_jsonl(&mut bytes, 0, &requests, &due).unwrap();
    let (_directory, path) = saved(std::str::from_utf8(&bytes).unwrap());
    assert_eq!(read_jsonl(&path).unwrap(), (requests, due.to_vec()));
}

#[test]
fn fields_are_in_the_recorded_order() {
    let mut bytes = Vec::new();
    let request = Request { session: None, cancel_after: None, labels: Labels::NONE, answer: None, ..full_request() };
    write_jsonl(&mut bytes, 0, &[request], &[0.25]).unwrap();
    let Value::Dict(line) = json::parse(std::str::from_utf8(&bytes).unwrap().trim()).unwrap() else {
        panic!("a line is an object");
    };
    let fields: Vec<&str> = line.iter().map(|(key, _)| key).collect();
    let recorded = tacho_testkit::golden_text("datasets/random-gpt2-seed0.jsonl");
    let recorded: serde_json::Value = serde_json::from_str(recorded.lines().next().unwrap()).unwrap();
    let mut expected: Vec<&str> = recorded.as_object().unwrap().keys().map(String::as_str).collect();
    expected.push("planned_send_time");
    assert_eq!(fields, expected);
}

#[test]
fn recorded_workloads_can_be_replayed() {
    let path = tacho_testkit::golden_path("datasets/random-gpt2-batch.jsonl");
    let (requests, due) = read_jsonl(&path).unwrap();
    assert_eq!(requests.len(), 3);
    assert_eq!(due, [0.0; 3]);
    assert!(matches!(&requests[0].content, Content::Texts(texts) if texts.len() == 4));
}

#[test]
fn errors_name_file_line_and_field() {
    let good = r#"{"prompt": "a", "prompt_len": 1, "expected_output_len": 1}"#;
    let field = |bad: &str| {
        let (_directory, path) = saved(&format!("{good}\n\n{bad}\n"));
        match read_jsonl(&path).unwrap_err() {
            Error::LineField { line: 3, field, .. } => field,
            other => panic!("{other}"),
        }
    };
    assert_eq!(field(r#"{"prompt_len": 1, "expected_output_len": 1}"#), "prompt");
    assert_eq!(field(r#"{"prompt": "a", "prompt_len": -1, "expected_output_len": 1}"#), "prompt_len");
    assert_eq!(field(r#"{"prompt": "a", "prompt_len": 1}"#), "expected_output_len");
    assert_eq!(field(&good.replace("}", r#", "request_id": 3}"#)), "request_id");
    assert_eq!(field(&good.replace("}", r#", "planned_send_time": "x"}"#)), "planned_send_time");
    let (_directory, path) = saved("{\n");
    let error = read_jsonl(&path).unwrap_err();
    assert!(matches!(error, Error::LineNotJson { line: 1, .. }), "{error}");
    assert!(matches!(read_jsonl(&path.with_extension("none")), Err(Error::Read { .. })));
}
