//! The file as other programs read it: names, types and values of columns, and what the schema and the manifest say.

use std::{fs, fs::File};

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef};
use arrow_ipc::MetadataVersion;
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::{IpcWriteOptions, StreamWriter};
use arrow_schema::DataType;
use tacho_core::json::{Value, parse};
use tacho_core::{
    Drafts, FailureKind, Flaw, Judged, Labels, Media, Observation, Outcome, OutputCheck, ServerTimes, Timestamp,
    TokenCountSource, Usage, dict,
};
use tacho_rowlog::{COLUMNS, RequestInfo, Row, Stored};

use crate::sample::{ORIGIN, log, manifest, plausible};

/// A row in which every column has a value of its own.
fn full() -> Row {
    let at = |micros: u64| Timestamp(ORIGIN.timestamp.0 + micros * 1000);
    let mut check = OutputCheck {
        reference: 3,
        first_difference: Some(14),
        edits: 15,
        alone_differs: Some(true),
        belongs_to: Some(9),
        first_token: Some(2),
        mean_kl: Some(0.25),
        max_kl: Some(0.5),
        expected: "exp".to_owned(),
        ..OutputCheck::default()
    };
    [Flaw::Truncated, Flaw::Garbled].into_iter().for_each(|flaw| check.add(flaw));
    let labels = Labels::NONE.with("class", "chat");
    let observation = Observation {
        sent: at(130),
        connect_ns: 7,
        input_end: Some(at(150)),
        first_byte: Some(at(230)),
        chunks: vec![at(250), at(255), at(275)],
        first_content: Some(at(255)),
        first_answer: Some(at(275)),
        done: at(300),
        text_ends: vec![2, 2, 5],
        token_counts: vec![(0, 1), (2, 6)],
        token_count_source: Some(TokenCountSource::Usage),
        reasoning_tokens: Some(4),
        retries: 1,
        coalesced: 2,
        outcome: Outcome::failed(FailureKind::Http(503), "busy"),
        text: b"ab\xed\xa0\xbd".to_vec(),
        usage: Usage {
            prompt_tokens: Some(11),
            completion_tokens: Some(6),
            cached_tokens: Some(8),
            drafts: Some(Drafts { steps: Some(2), tokens: 5, accepted: 3 }),
        },
        times: ServerTimes {
            queue: ServerTimes::micros(21.0),
            prefill: ServerTimes::micros(22.0),
            decode: ServerTimes::micros(23.0),
        },
        impossible_usage: true,
        media: Some(Media::Audio { rate: 24_000, frame_bytes: 2 }),
        labels: labels.clone(),
        judged: Some(Box::new(Judged {
            check: Some(check),
            scores: Some(dict! { "f1": 0.5 }.into()),
            ..Judged::default()
        })),
        ..Observation::dispatched(12, at(100), at(110))
    };
    let request = RequestInfo {
        prompt_len: 10,
        output_len: 16,
        input_sequences: 1,
        audio_seconds: 1.5,
        lora: Some("adapter".to_owned()),
        request_id: Some("run-12".to_owned()),
        labels,
    };
    Row { request, observation }
}

/// The value of a cell as text.
fn cell(column: &ArrayRef, at: usize) -> String {
    if column.is_null(at) {
        return "none".to_owned();
    }
    match column.data_type() {
        DataType::Int64 => column.as_primitive::<Int64Type>().value(at).to_string(),
        DataType::Int32 => column.as_primitive::<Int32Type>().value(at).to_string(),
        DataType::Float64 => column.as_primitive::<Float64Type>().value(at).to_string(),
        DataType::Utf8 => column.as_string::<i32>().value(at).to_owned(),
        DataType::Binary => format!("{:x?}", column.as_binary::<i32>().value(at)),
        _ => {
            let list = column.as_list::<i32>().value(at);
            (0..list.len()).map(|at| cell(&list, at)).collect::<Vec<_>>().join(" ")
        }
    }
}

#[test]
fn every_column_has_the_value_that_its_documentation_says() {
    let expected = [
        ("index", "12"),
        ("scheduled_ns", "100000"),
        ("dispatch_lag_ns", "10000"),
        ("slot_wait_ns", "20000"),
        ("connect_ns", "7"),
        ("input_end_ns", "20000"),
        ("first_byte_ns", "100000"),
        ("token_gaps_ns", "120000 5000 20000"),
        ("content_lag_ns", "5000"),
        ("answer_lag_ns", "25000"),
        ("rest_ns", "25000"),
        ("event_bytes", "2 0 3"),
        ("mark_events", "0 2"),
        ("mark_tokens", "1 5"),
        ("mark_source", "usage"),
        ("reasoning_tokens", "4"),
        ("retries", "1"),
        ("coalesced", "2"),
        ("failure", "http_error"),
        ("http_status", "503"),
        ("error", "busy"),
        ("text", "ab\u{fffd}\u{fffd}\u{fffd}"),
        ("text_wtf8", "[61, 62, ed, a0, bd]"),
        ("prompt_tokens", "11"),
        ("completion_tokens", "6"),
        ("cached_tokens", "8"),
        ("draft_steps", "2"),
        ("draft_tokens", "5"),
        ("accepted_tokens", "3"),
        ("server_queue_us", "21"),
        ("server_prefill_us", "22"),
        ("server_decode_us", "23"),
        ("impossible_usage", "1"),
        ("prompt_len", "10"),
        ("output_len", "16"),
        ("input_sequences", "1"),
        ("audio_seconds", "1.5"),
        ("lora", "adapter"),
        ("audio_rate", "24000"),
        ("audio_frame_bytes", "2"),
        ("images", "none"),
        ("labels", r#"{"class": "chat"}"#),
        ("reference", "3"),
        ("first_difference", "14"),
        ("edit_distance", "15"),
        ("alone_differs", "1"),
        ("belongs_to", "9"),
        ("flaws", "truncated,garbled"),
        ("first_different_token", "2"),
        ("mean_kl_divergence", "0.25"),
        ("max_kl_divergence", "0.5"),
        ("expected", "exp"),
        ("scores", r#"{"f1": 0.5}"#),
        ("request_id", "none"),
        ("request_id_prefix", "run-"),
    ];
    let directory = tempfile::tempdir().unwrap();
    let mut bare = plausible(4, 0);
    bare.request.request_id = Some("other".to_owned());
    log(directory.path(), &[vec![full(), bare]]).finish(&Value::Null).unwrap();
    let reader = StreamReader::try_new(File::open(directory.path().join("rows-0.arrows")).unwrap(), None).unwrap();
    let schema = reader.schema();
    let metadata = |key: &str| schema.metadata().get(key).map(String::as_str);
    let keys = ["tacho.format", "tacho.segment", "tacho.origin_stamp_ns", "tacho.origin_unix_ns"];
    assert_eq!(keys.map(metadata), ["4", "0", "5000000", "1800000000000000000"].map(Some));
    let batch = reader.map(Result::unwrap).next().unwrap();
    let found: Vec<(&str, String)> =
        COLUMNS.iter().map(|one| (one.name, cell(batch.column_by_name(one.name).unwrap(), 0))).collect();
    assert_eq!(found.iter().map(|(name, text)| (*name, text.as_str())).collect::<Vec<_>>(), expected);
    // What a row does not have is null, or an empty list, and an ID that does not follow is there.
    let second = |name: &str| cell(batch.column_by_name(name).unwrap(), 1);
    assert_eq!(
        ["first_byte_ns", "token_gaps_ns", "text", "labels", "failure", "request_id"].map(second),
        ["none", "", "none", "none", "none", "other"]
    );
    assert_eq!(second("request_id_prefix"), "none");
    let media = |media| {
        let mut row = plausible(1, 1);
        row.observation.media = Some(media);
        let directory = tempfile::tempdir().unwrap();
        log(directory.path(), &[vec![row]]).finish(&Value::Null).unwrap();
        let mut reader =
            StreamReader::try_new(File::open(directory.path().join("rows-0.arrows")).unwrap(), None).unwrap();
        let batch = reader.next().unwrap().unwrap();
        ["audio_rate", "audio_frame_bytes", "images"].map(|name| cell(batch.column_by_name(name).unwrap(), 0))
    };
    assert_eq!([media(Media::UnknownAudio), media(Media::Images(3))], [["0", "none", "none"], ["none", "none", "3"]]);
}

/// Batches of an older version of Arrow's format have buffers of other meanings.
#[test]
fn batches_of_another_arrow_version_are_not_read() {
    let directory = tempfile::tempdir().unwrap();
    log(directory.path(), &[vec![plausible(0, 3)]]).finish(&Value::Null).unwrap();
    let path = directory.path().join("rows-0.arrows");
    let reader = StreamReader::try_new(File::open(&path).unwrap(), None).unwrap();
    let schema = reader.schema();
    let batches: Vec<_> = reader.map(Result::unwrap).collect();
    let rows = |version| {
        let options = IpcWriteOptions::try_new(8, false, version).unwrap();
        let mut writer = StreamWriter::try_new_with_options(File::create(&path).unwrap(), &schema, options).unwrap();
        batches.iter().for_each(|batch| writer.write(batch).unwrap());
        writer.finish().unwrap();
        let stored = Stored::open(directory.path()).unwrap();
        stored.segments()[0].batches().unwrap().map(|batch| batch.unwrap().len()).sum::<usize>()
    };
    assert_eq!([rows(MetadataVersion::V5), rows(MetadataVersion::V4)], [1, 0]);
}

#[test]
fn the_manifest_is_an_object_with_documented_keys() {
    let directory = tempfile::tempdir().unwrap();
    log(directory.path(), &[]).finish(&Value::Null).unwrap();
    let value = parse(&fs::read_to_string(directory.path().join("manifest.json")).unwrap()).unwrap();
    let keys: Vec<&str> = value.as_dict().unwrap().iter().map(|(key, _)| key).collect();
    assert_eq!(keys, ["format", "tacho", "command", "seed", "workload", "requests", "host", "clock", "more"]);
    assert_eq!(value.get("format"), Some(&Value::Int(4)));
    let host = manifest().host;
    assert!(host.cpus > 0 && !host.name.is_empty() && host.system.split(" ").count() >= 3, "{host:?}");
    let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpus.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    assert_eq!(host.cpu, model.map_or("", |(_, name)| name.trim()));
    assert!(Stored::is_log(directory.path()) && !Stored::is_log(&directory.path().join("none")));
    let other = fs::read_to_string(directory.path().join("manifest.json")).unwrap().replace("\"format\"", "\"x\"");
    fs::write(directory.path().join("manifest.json"), other).unwrap();
    let error = Stored::open(directory.path()).unwrap_err().to_string();
    assert!(error.contains("it is not the manifest of a log"), "{error}");
}

#[test]
fn times_beyond_the_longest_run_are_damage() {
    let longest = tacho_core::bounded::RunTime::MAX.as_nanos() as u64;
    let read = |change: fn(&mut Observation, Timestamp), time: u64| {
        let directory = tempfile::tempdir().unwrap();
        let mut row = plausible(0, 2);
        change(&mut row.observation, Timestamp(ORIGIN.timestamp.0 + time));
        log(directory.path(), &[vec![row]]).finish(&Value::Null).unwrap();
        let stored = Stored::open(directory.path()).unwrap();
        stored.segments()[0].batches().unwrap().map(|batch| batch.unwrap().len()).sum::<usize>()
    };
    let changes: [fn(&mut Observation, Timestamp); 9] = [
        |row, time| row.scheduled = time,
        |row, time| row.dispatched = time,
        |row, time| row.sent = time,
        |row, time| row.done = time,
        |row, time| row.input_end = Some(time),
        |row, time| row.first_byte = Some(time),
        |row, time| row.first_content = Some(time),
        |row, time| row.first_answer = Some(time),
        |row, time| row.chunks[1] = time,
    ];
    for (at, change) in changes.into_iter().enumerate() {
        assert_eq!((read(change, longest), read(change, longest + 1)), (1, 0), "{at}");
    }
}
