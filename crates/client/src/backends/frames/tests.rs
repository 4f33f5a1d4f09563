//! Tests of the framings.

use super::*;
use crate::backends::declared::Prefix;

fn messages(backend: BackendKind, rules: Rules, body: &str) -> (Vec<String>, Option<String>) {
    let mut frames = Frames::new(backend, rules);
    let mut messages = Vec::new();
    let mut take = |data: &[u8]| {
        messages.push(String::from_utf8_lossy(data).into_owned());
        Flow::Continue
    };
    frames.feed(body.as_bytes(), &mut take).unwrap();
    let mut tail = None;
    frames.finish(&mut |data| tail = Some(String::from_utf8_lossy(data).into_owned()));
    (messages, tail)
}

#[test]
fn audio_takes_comments_for_messages_as_upstream_does() {
    let body = ": ping\n\ndata: A\n\ndata: B";
    let found = messages(BackendKind::OpenAiAudio, Rules::Vllm, body);
    assert_eq!(found, (vec![": ping".into(), "A".into()], Some("B".into())));
    assert_eq!(messages(BackendKind::OpenAiAudio, Rules::Standard, body).0, ["A"]);
}

#[test]
fn responses_join_data_lines_and_pass_over_the_rest() {
    let body = ": c\nevent: x\ndata: A\ndata:B\n\nevent: y\n\ndata:\n\nevent: z\ndata: C";
    let found = messages(BackendKind::OpenAiResponses, Rules::Vllm, body);
    assert_eq!(found, (vec!["A\nB".into(), String::new()], None));
}

#[test]
fn older_names_read_line_by_line() {
    let lines = |backend, body| messages(backend, Rules::Vllm, body);
    assert_eq!(
        lines(BackendKind::Tgi, ": c\ndata:A\n\n data: B\r\nC"),
        (vec!["A".into(), " B".into()], Some("C".into()))
    );
    assert_eq!(lines(BackendKind::SgLang, ":c\ndata:A\ndata: B\n").0, [":c", "data:A", "B"]);
    assert_eq!(lines(BackendKind::VllmGenerate, "{}\0\n{}\n").0, ["{}", "{}"]);
}

fn framed(framing: Framing, pieces: &[&[u8]]) -> (Result<Vec<String>, BadFrame>, bool) {
    let mut frames = Frames::framed(framing);
    let mut messages = Vec::new();
    let mut take = |data: &[u8]| {
        messages.push(String::from_utf8_lossy(data).into_owned());
        Flow::Continue
    };
    let fed = pieces.iter().try_for_each(|piece| frames.feed(piece, &mut take).map(drop));
    let mut has_tail = false;
    frames.finish(&mut |_| has_tail = true);
    (fed.map(|()| messages), has_tail)
}

/// All ways to feed a body in pieces of one size.
fn cut(framing: Framing, body: &[u8]) -> Vec<String> {
    let (whole, tail) = framed(framing, &[body]);
    assert!(!tail, "the body is complete");
    for size in [1, 2, 3, 7, 20] {
        let pieces: Vec<&[u8]> = body.chunks(size).collect();
        assert_eq!(framed(framing, &pieces), (whole.clone(), false), "in pieces of {size}");
    }
    whole.unwrap()
}

#[test]
fn json_values_follow_one_another_in_any_way() {
    let body = br#"{"a":"}\"{"}{"b":[1,{"c":2}]} {"d":3},
        "x" 7 true {"e":{}}"#;
    assert_eq!(
        cut(Framing::Json, body),
        [r#"{"a":"}\"{"}"#, r#"{"b":[1,{"c":2}]}"#, r#"{"d":3}"#, r#""x""#, "7", "true", r#"{"e":{}}"#]
    );
    assert_eq!(cut(Framing::Json, b"[{\"a\":1}\n,\r\n{\"a\":2}]\n"), [r#"{"a":1}"#, r#"{"a":2}"#]);
    assert!(framed(Framing::Json, &[b"{\"a\":"]).1);
}

#[test]
fn lengths_have_any_width_and_order() {
    let prefix = |width, little_endian, skip, counts_head| {
        Framing::LengthPrefixed(Prefix { width, little_endian, skip, counts_head })
    };
    assert_eq!(cut(prefix(4, false, 0, false), b"\0\0\0\x02{}\0\0\0\x03[1]"), ["{}", "[1]"]);
    assert_eq!(cut(prefix(2, true, 0, false), b"\x02\0{}\x03\0[1]"), ["{}", "[1]"]);
    assert_eq!(cut(prefix(4, false, 1, false), b"\0\0\0\0\x02{}"), ["{}"]);
    assert_eq!(cut(prefix(1, false, 0, true), b"\x03{}\x04[1]"), ["{}", "[1]"]);
    assert!(framed(prefix(4, false, 0, false), &[b"\0\0\0\x02{"]).1, "a cut frame shows");
    assert_eq!(framed(prefix(4, false, 0, false), &[b"\xff\0\0\0"]).0, Err(BadFrame::TOO_LONG));
    assert!(framed(prefix(1, false, 0, true), &[b"\0"]).0.is_err());
}

#[test]
fn aws_events_are_named_and_checked() {
    use tacho_testkit::wire::aws_event;
    let text = aws_event("event", "contentBlockDelta", r#"{"delta":{"text":"a"}}"#);
    let stop = aws_event("event", "messageStop", "");
    let body = [&text[..], &stop].concat();
    assert_eq!(
        cut(Framing::AwsEventStream, &body),
        [r#"{"contentBlockDelta":{"delta":{"text":"a"}}}"#, r#"{"messageStop":null}"#]
    );
    let exception = aws_event("exception", "throttlingException", r#"{"message":"slow down"}"#);
    assert_eq!(
        cut(Framing::AwsEventStream, &exception),
        [r#"{":exception":"throttlingException","throttlingException":{"message":"slow down"}}"#]
    );
    for at in [0, 5, 9, 14, 30, text.len() - 2] {
        let mut broken = text.clone();
        broken[at] ^= 1;
        let (read, tail) = framed(Framing::AwsEventStream, &[&broken]);
        assert!(read.is_err() || tail, "a flipped bit at {at}");
    }
}
