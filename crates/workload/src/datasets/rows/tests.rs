//! Tests of the dataset.

use std::time::Duration;

use tacho_core::json::dumps;

use super::*;
use crate::sampling::context::with_builtin;

fn spec(source: RowSource, map: &[&str]) -> RowsSpec {
    RowsSpec {
        source,
        map: FieldMap::parse(&map.iter().map(|entry| (*entry).to_owned()).collect::<Vec<_>>()).unwrap(),
        selection: Selection {
            seed: 3,
            num_prompts: 3,
            shuffle: true,
            oversample: true,
            request_id_prefix: "r-".to_owned(),
        },
        output_len: None,
        default_output_len: Some(256),
        chat_template: true,
        template_variables: None,
        multimodal_chat: false,
        client_side_data: false,
        time_scale: None,
        carrier: Carrier { name: "openai-chat", carries: &[Need::Chat, Need::Media, Need::Tools] },
    }
}

fn command(line: &str) -> RowSource {
    let (line, timeout) = (line.to_owned(), Duration::from_secs(20));
    RowSource::Command(CommandSpec { line, launcher: Vec::new(), timeout, model: None })
}

fn made(spec: &RowsSpec) -> Result<Sampled, Error> {
    with_builtin(|context| sample(spec, context))
}

fn file(name: &str, text: &str, change: impl Fn(RowsSpec) -> RowsSpec, map: &[&str]) -> Result<Sampled, Error> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(name);
    std::fs::write(&path, text).unwrap();
    made(&change(spec(RowSource::File(path), map)))
}

fn prompts(sampled: &Sampled) -> Vec<String> {
    sampled.requests.iter().map(|request| request.content.to_json().as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn all_fields_of_a_row_reach_its_request() {
    let row = r#"{"prompt": "look", "output_len": 9, "image": ["http://h/a.png", "b.png"],
        "media": [{"type": "input_audio", "input_audio": {"data": "AA"}}], "session_id": "s", "labels": {"topic": "x", "n": 2},
        "overrides": {"temperature": 0.5}, "lora": "l", "priority": -1, "timestamp": 7, "note": 1}"#
        .replace('\n', " ");
    let sampled = file("a.jsonl", &row, |spec| spec, &[]).unwrap();
    let request = &sampled.requests[0];
    assert_eq!((request.output_len, request.session.as_deref(), request.lora.as_deref()), (9, Some("s"), Some("l")));
    assert_eq!(dumps(request.overrides.as_ref().unwrap()), r#"{"temperature": 0.5, "priority": -1}"#);
    assert_eq!((request.labels.get("topic"), request.labels.get("n")), (Some("x"), Some("2")));
    let media = dumps(request.media.as_ref().unwrap());
    assert!(
        media.contains("http://h/a.png") && media.contains("file://b.png") && media.contains("input_audio"),
        "{media}"
    );
    assert_eq!((request.id.as_deref(), request.timestamp, sampled.requests.len()), (Some("r-0"), None, 3));
    assert_eq!(sampled.notices, ["fields of the rows that are not used: note"]);
    assert_eq!(sampled.digests[0].len(), 64);
}

#[test]
fn messages_and_token_ids_need_a_backend_that_sends_them() {
    let messages = r#"{"messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}]}"#;
    let request = file("a.jsonl", messages, |spec| spec, &[]).unwrap().requests.remove(0);
    assert_eq!(request.chat_messages.as_ref().and_then(Value::as_list).map(<[Value]>::len), Some(2));
    assert!(request.prompt_len > 1 && request.output_len == 256);
    let plain = |spec| RowsSpec { carrier: Carrier { name: "tgi", carries: &[] }, ..spec };
    let error = |text: &str| file("a.jsonl", text, plain, &[]).unwrap_err().to_string();
    assert!(error(messages).contains("line 1: \"messages\" has messages, which the backend tgi does not send"));
    assert!(error(r#"{"prompt": [1, 2]}"#).contains("token IDs"));
    assert!(error(r#"{"prompt": "p", "image": "a.png"}"#).contains("\"tgi\""));
    let ids = |spec| RowsSpec { carrier: Carrier { name: "vllm", carries: &[Need::TokenIds] }, ..spec };
    let request = file("a.jsonl", r#"{"prompt": [1, 2]}"#, ids, &[]).unwrap().requests.remove(0);
    assert_eq!((request.content, request.prompt_len), (Content::Ids(vec![1, 2]), 2));
}

#[test]
fn wrong_types_are_refused_with_their_line() {
    for (row, expected) in [
        (r#"{"prompt": 5}"#, "\"prompt\" must be a text"),
        (r#"{"prompt": {"a": 1}}"#, "\"prompt\" must be a text"),
        (r#"{"prompt": [1.5]}"#, "\"prompt\" must be a text"),
        (r#"{"output_len": 5}"#, "\"prompt\" must be given, or messages"),
        (r#"{"prompt": null}"#, "\"prompt\" must be given, or messages"),
        (r#"{"prompt": "p", "messages": [{"role": "user"}]}"#, "left out if there is a prompt"),
        (r#"{"messages": []}"#, "\"messages\" must be a list of messages"),
        (r#"{"messages": ["hi"]}"#, "\"messages\" must be a list of messages"),
        (r#"{"prompt": "p", "output_len": -4}"#, "\"output_len\" must be a whole number of tokens"),
        (r#"{"prompt": "p", "output_len": 1e300}"#, "\"output_len\" must be a whole number of tokens"),
        (r#"{"prompt": "p", "output_len": true}"#, "\"output_len\" must be a whole number of tokens"),
        (r#"{"prompt": "p", "labels": ["a"]}"#, "\"labels\" must be an object"),
        (r#"{"prompt": "p", "labels": {"a": {}}}"#, "\"labels\" must be an object of texts"),
        (r#"{"prompt": "p", "overrides": "x"}"#, "\"overrides\" must be an object"),
        (r#"{"prompt": "p", "session_id": 4}"#, "\"session_id\" must be a text"),
        (r#"{"prompt": "p", "image": 4}"#, "\"image\" must be the path or URL"),
        (r#"{"prompt": "p", "media": [{}]}"#, "\"media\" must be a list of content parts"),
        (r#"{"prompt": ["a", "b"], "image": "a.png"}"#, "a text, since there are media"),
        (r#"{"prompt": "p", "priority": 1.5}"#, "\"priority\" must be a whole number"),
        (r#"{"prompt": "p", "timestamp": "now"}"#, "\"timestamp\" must be a number of seconds"),
    ] {
        let message = file("a.jsonl", row, |spec| spec, &[]).unwrap_err().to_string();
        assert!(message.contains("a.jsonl, line 1: ") && message.contains(expected), "{row}: {message}");
    }
}

#[test]
fn a_command_keeps_its_order_and_is_repeated_if_it_ends_early() {
    let sampled = made(&spec(command("for n in b a; do echo \"{\\\"prompt\\\": \\\"$n\\\"}\"; done"), &[])).unwrap();
    assert_eq!(prompts(&sampled)[..2], ["b", "a"]);
    assert_eq!(sampled.requests.len(), 3);
    assert_eq!(sampled.notices, ["--dataset-command printed 2 rows for 3 requests: they are repeated"]);
    let once = spec(command("echo '{\"prompt\": \"a\"}'"), &[]);
    let once = RowsSpec { selection: Selection { oversample: false, ..once.selection.clone() }, ..once };
    assert_eq!(made(&once).unwrap().requests.len(), 1);
}

#[test]
fn the_same_seed_gives_the_same_requests() {
    let seeded = |seed| {
        let spec = spec(command("for n in 1 2 3; do echo \"{\\\"prompt\\\": \\\"p$n-$TACHO_SEED\\\"}\"; done"), &[]);
        let sampled = made(&RowsSpec { selection: Selection { seed, ..spec.selection.clone() }, ..spec }).unwrap();
        (prompts(&sampled), sampled.digests)
    };
    assert_eq!(seeded(5).0, ["p1-5", "p2-5", "p3-5"]);
    assert_eq!(seeded(5), seeded(5));
    assert_ne!(seeded(5), seeded(6));
}

#[test]
fn output_lengths_come_from_the_flag_then_the_row_then_the_default() {
    let text = "q,n\na,5\nb,\n";
    let lens = |output_len, default_output_len| {
        let change = |spec: RowsSpec| RowsSpec {
            output_len,
            default_output_len,
            selection: Selection { shuffle: false, num_prompts: 0, ..spec.selection.clone() },
            ..spec
        };
        let sampled = file("a.csv", text, change, &["prompt=q", "output_len=n"]);
        sampled.map(|made| made.requests.iter().map(|request| request.output_len).collect::<Vec<_>>())
    };
    assert_eq!(lens(None, Some(256)).unwrap(), [5, 256]);
    assert_eq!(lens(Some(8), Some(256)).unwrap(), [8, 8]);
    let error = lens(None, None).unwrap_err().to_string();
    assert!(error.contains("a.csv, line 3: \"n\", mapped to output_len, must be given"), "{error}");
}

#[test]
fn columns_of_parquet_and_nested_ones_are_found() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.parquet");
    write_parquet(&path);
    let unshuffled = |spec: RowsSpec| RowsSpec {
        selection: Selection { shuffle: false, num_prompts: 0, ..spec.selection.clone() },
        ..spec
    };
    let parquet = RowSource::File(path);
    let sampled = made(&unshuffled(spec(parquet.clone(), &["prompt=q", "output_len=n", "labels.len=n"]))).unwrap();
    let seen: Vec<_> = sampled.requests.iter().map(|one| (one.output_len, one.labels.get("len"))).collect();
    assert_eq!((prompts(&sampled), seen), (vec!["a".into(), "b".into()], vec![(3, Some("3")), (4, Some("4"))]));
    let error = made(&unshuffled(spec(parquet, &["prompt=n"]))).unwrap_err().to_string();
    assert!(error.contains("t.parquet, row 1: \"n\", mapped to prompt, must be a text"), "{error}");
    let nested = self::file(
        "n.json",
        r#"[{"c": [{"value": "x"}], "m": {"len": 2}}]"#,
        unshuffled,
        &["prompt=c.0.value", "output_len=m.len"],
    );
    let nested = nested.unwrap();
    assert_eq!((prompts(&nested), nested.requests[0].output_len), (vec!["x".into()], 2));
}

#[test]
fn recorded_times_are_those_of_the_rows() {
    let timed = |spec| RowsSpec { time_scale: Some(2.0), ..spec };
    let text = "q,at\na,10\nb,11.5\n";
    let sampled = file("a.csv", text, timed, &["prompt=q", "timestamp=at"]).unwrap();
    let times: Vec<_> = sampled.requests.iter().map(|request| request.timestamp.unwrap()).collect();
    assert_eq!((prompts(&sampled), times), (vec!["a".into(), "b".into()], vec![0.0, 3.0]));
    let error = file("a.csv", text, timed, &["prompt=q"]).unwrap_err().to_string();
    assert!(error.contains("\"timestamp\" must be given"), "{error}");
}

/// A file with the columns `q` and `n`.
fn write_parquet(path: &std::path::Path) {
    use std::sync::Arc;

    use parquet::data_type::{ByteArrayType, Int64Type};
    use parquet::{file::writer::SerializedFileWriter, schema::parser::parse_message_type};

    let schema = parse_message_type("message t { required binary q (UTF8); required int64 n; }").unwrap();
    let file = std::fs::File::create(path).unwrap();
    let mut writer = SerializedFileWriter::new(file, Arc::new(schema), Arc::default()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut texts = group.next_column().unwrap().unwrap();
    texts.typed::<ByteArrayType>().write_batch(&["a".into(), "b".into()], None, None).unwrap();
    texts.close().unwrap();
    let mut numbers = group.next_column().unwrap().unwrap();
    numbers.typed::<Int64Type>().write_batch(&[3, 4], None, None).unwrap();
    numbers.close().unwrap();
    group.close().unwrap();
    writer.close().unwrap();
}
