//! Backends from files, against servers that speak APIs of their own: times, texts, counts and outcomes.

use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use std::{io::Write, net::TcpStream, path::Path};

use tacho_client::backends::{Expected, Flow, ResponseDecoder, built_in_file};
use tacho_client::{BackendKind, PayloadSpec, Rules};
use tacho_core::{FailureKind, Observation, Outcome, Request, Secret, Timestamp, json::parse};
use tacho_testkit::{peak, wire::aws_event};

use crate::decode::{expected, read};
use crate::scripted::{Keep, Script, Scripted, serve};
use crate::wire::{endpoint, send};

/// Odd JSON, one value after another without separators: words in pieces, counts per event, an end flag.
const ODD: &str = r#"
name: odd
request:
  path: /ask
  method: PUT
  headers: { X-Tenant: bench }
  api_key: { header: X-Key }
  body:
    q: { body: "{{ prompt }}", meta: { limit: "{{ max_tokens }}", tag: "{{ class }}" } }
    opts: ["{{ model }}", "n={{ prompt_len }}"]
response:
  framing: json
  status: [200, 203]
  text: "/out/0/w~1o"
  token_event: out
  tokens: count
  count: n
  usage: { prompt: meta.in }
  error: oops
  done: { path: fin, is: true }
"#;

/// Lines with the whole text so far after the prompt.
const CUMULATIVE: &str = r#"
name: cumulative
request:
  path: /grow
  body: |
    {"input": {{ prompt | tojson }}, "n": {{ max_tokens }}}
response:
  framing: json-lines
  text: state.text
  text_is: cumulative
  echoes_prompt: true
  tokens: events
  finish: state.why
  failed_finish: [died]
  done: { path: state.why }
"#;

/// Frames with a little-endian length of two bytes after a flag.
const FRAMED: &str = r#"
name: framed
request: { path: /frames, body: { prompt: "{{ prompt }}" } }
response:
  framing: { length_prefixed: { bytes: 2, endian: little, skip: 1 } }
  text: "t[*]"
  reasoning: r
  usage: { completion: u.o, prompt: u.i }
  done: u
"#;

fn backend(text: &str) -> BackendKind {
    BackendKind::from_text(text, "test").unwrap()
}

/// Backends with framings that no built-in one has.
pub(crate) fn made_up() -> Vec<BackendKind> {
    let aws = FRAMED.replace("{ length_prefixed: { bytes: 2, endian: little, skip: 1 } }", "aws-event-stream");
    [ODD, CUMULATIVE, FRAMED, &aws].into_iter().map(backend).collect()
}

fn framed(message: &str) -> Vec<u8> {
    let mut frame = vec![7];
    frame.extend((message.len() as u16).to_le_bytes());
    frame.extend(message.bytes());
    frame
}

const GAP: Duration = Duration::from_millis(40);
const TOLERANCE: Duration = Duration::from_millis(15);
const ATTEMPTS: usize = 20;

/// A server that writes each message after a pause, and says when it did.
fn paced(status: &'static str, messages: Vec<Vec<u8>>) -> (Scripted, Receiver<Vec<Instant>>) {
    let (sender, times) = channel();
    let script: Script = Box::new(move |_, stream: &mut TcpStream| {
        let mut sent = vec![Instant::now()];
        let _ = stream.write_all(format!("HTTP/1.1 {status}\r\nTransfer-Encoding: chunked\r\n\r\n").as_bytes());
        for message in &messages {
            std::thread::sleep(GAP);
            sent.push(Instant::now());
            let chunk = [format!("{:x}\r\n", message.len()).as_bytes(), message, b"\r\n"].concat();
            let _ = stream.write_all(&chunk);
        }
        let _ = stream.write_all(b"0\r\n\r\n");
        let _ = sender.send(sent);
        Keep::Open
    });
    (serve(script), times)
}

/// Sends a request to a server with these messages, of which the first `tokens` are token events; checks the times. A
/// busy machine delays some of them, so it has several attempts: a wrong time is wrong by a whole gap in all of them.
fn ask(file: &str, status: &'static str, messages: Vec<Vec<u8>>, tokens: usize) -> (Observation, Scripted) {
    let mut errors = Vec::new();
    for _ in 0..ATTEMPTS {
        let (row, server, error) = ask_once(file, status, messages.clone());
        assert_eq!(row.chunks.len(), tokens, "{row:?}");
        if error < TOLERANCE {
            return (row, server);
        }
        errors.push(error);
    }
    panic!("times are wrong by {errors:?}");
}

/// Sends the request once; returns the largest error of TTFT and the gaps too.
fn ask_once(file: &str, status: &'static str, messages: Vec<Vec<u8>>) -> (Observation, Scripted, Duration) {
    let backend = backend(file);
    let (server, times) = paced(status, messages);
    let mut endpoint = endpoint(&format!("{}{}", server.url(), backend.default_endpoint()), backend, Rules::Standard);
    endpoint.api_key = Some(Secret::new("secret-key"));
    let payload = PayloadSpec { model: "org/m 1".into(), ..PayloadSpec::default() };
    let row = send(endpoint, &payload, &[Request::text("once", 1, 3)]).remove(0);
    let truth = times.recv_timeout(Duration::from_secs(5)).unwrap();
    let first = row.chunks.first().map_or(Duration::ZERO, |first| first.since(row.sent).abs_diff(truth[1] - truth[0]));
    let gaps = row.chunks.windows(2).zip(truth.windows(2).skip(1));
    let errors = gaps.map(|(ours, theirs)| ours[1].since(ours[0]).abs_diff(theirs[1] - theirs[0]));
    let largest = errors.fold(first, Duration::max);
    (row, server, largest)
}

fn text(row: &Observation) -> &str {
    std::str::from_utf8(&row.text).unwrap()
}

#[test]
fn odd_json_is_timed_and_counted_as_it_was_sent() {
    let word = |text: &str, count: u32| format!(r#"{{"out": [{{"w/o": "{text}"}}], "n": {count}}}"#).into_bytes();
    let end = br#"{"fin": true, "meta": {"in": 9}}"#.to_vec();
    let messages = vec![word(" a", 1), word(r"\u00e9{", 3), word(" c", 1), end];
    let (row, server) = ask(ODD, "203 Fine", messages, 3);
    assert_eq!((&row.outcome, text(&row)), (&Outcome::Complete, " aé{ c"));
    assert_eq!((row.usage.completion_tokens, row.usage.prompt_tokens), (Some(5), Some(9)));
    assert_eq!(row.token_counts, [(1, 4)], "the second event has three tokens");
    let seen = server.seen.recv().unwrap();
    assert_eq!(seen.line, "PUT /ask HTTP/1.1");
    assert_eq!((seen.header("x-tenant"), seen.header("x-key")), (Some("bench"), Some("secret-key")));
    assert_eq!(seen.header("authorization"), None);
    let body = r#"{"q": {"body": "once", "meta": {"limit": 3}}, "opts": ["org/m 1", "n=1"]}"#;
    assert_eq!(String::from_utf8_lossy(&seen.body), body);
}

#[test]
fn growing_text_counts_when_it_grows() {
    let line =
        |text: &str, why: &str| format!("{{\"state\": {{\"text\": \"{text}\", \"why\": {why}}}}}\n").into_bytes();
    let messages = vec![line("once upon", "null"), line("once upon a", "null"), line("once upon a", "\"length\"")];
    let (row, server) = ask(CUMULATIVE, "200 OK", messages, 2);
    assert_eq!((&row.outcome, text(&row), row.usage.completion_tokens), (&Outcome::Complete, " upon a", Some(2)));
    assert_eq!(server.seen.recv().unwrap().body, b"{\"input\": \"once\", \"n\": 3}");
    let died = vec![line("once upon", "null"), line("once upon", "\"died\"")];
    let (row, _) = ask(CUMULATIVE, "200 OK", died, 1);
    assert_eq!(row.outcome.failure().map(|failure| failure.kind), Some(FailureKind::ErrorInStream));
}

#[test]
fn frames_with_a_length_are_timed_and_counted() {
    let messages =
        [r#"{"r": "hm"}"#, r#"{"t": [" a", "b"]}"#, r#"{"t": [" c"], "u": null}"#, r#"{"u": {"i": 4, "o": 7}}"#];
    let (row, _) = ask(FRAMED, "200 OK", messages.map(framed).to_vec(), 3);
    assert_eq!((&row.outcome, text(&row)), (&Outcome::Complete, " ab c"));
    assert_eq!((row.usage.completion_tokens, row.usage.prompt_tokens), (Some(7), Some(4)));
    assert_eq!((row.first_content, row.first_answer), (Some(row.chunks[0]), Some(row.chunks[1])));
    let (cut, _) = ask(FRAMED, "200 OK", vec![framed(messages[1]), framed(messages[2])[..9].to_vec()], 1);
    assert_eq!(cut.outcome.failure().map(|failure| failure.kind), Some(FailureKind::Truncated));
}

fn example(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/backends").join(name);
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn the_example_of_gemini_reads_its_stream() {
    let event = |parts: &str, count: u32, finish: &str| {
        format!(
            "data: {{\"candidates\": [{{\"content\": {{\"parts\": [{parts}], \"role\": \"model\"}}{finish}, \"index\": 0}}], \
             \"usageMetadata\": {{\"promptTokenCount\": 8, \"candidatesTokenCount\": {count}, \"totalTokenCount\": 20}}}}\r\n\r\n"
        )
        .into_bytes()
    };
    let messages = vec![
        event(r#"{"text": "Once"}"#, 4, ""),
        event(r#"{"text": " upon"}, {"text": " a"}"#, 10, ""),
        event(r#"{"text": " time"}"#, 12, ", \"finishReason\": \"STOP\""),
    ];
    let (row, server) = ask(&example("gemini.yaml"), "200 OK", messages, 3);
    assert_eq!((&row.outcome, text(&row)), (&Outcome::Complete, "Once upon a time"));
    assert_eq!((row.usage.completion_tokens, row.usage.prompt_tokens), (Some(12), Some(8)));
    assert_eq!(row.token_counts, [(0, 4), (1, 10), (2, 12)]);
    let seen = server.seen.recv().unwrap();
    assert_eq!(seen.path(), "/v1beta/models/org%2Fm%201:streamGenerateContent?alt=sse");
    assert_eq!((seen.header("x-goog-api-key"), seen.header("authorization")), (Some("secret-key"), None));
    let body =
        r#"{"contents": [{"role": "user", "parts": [{"text": "once"}]}], "generationConfig": {"maxOutputTokens": 3}}"#;
    assert_eq!(String::from_utf8_lossy(&seen.body), body);
}

#[test]
fn the_example_of_bedrock_reads_its_event_stream() {
    let delta = |text: &str| {
        aws_event("event", "contentBlockDelta", &format!(r#"{{"contentBlockIndex":0,"delta":{{"text":"{text}"}}}}"#))
    };
    let usage = r#"{"usage":{"inputTokens":8,"outputTokens":2,"totalTokens":10},"metrics":{"latencyMs":80}}"#;
    let start = [aws_event("event", "messageStart", r#"{"role":"assistant"}"#), delta("Once")].concat();
    let end =
        [aws_event("event", "messageStop", r#"{"stopReason":"max_tokens"}"#), aws_event("event", "metadata", usage)];
    let (row, server) = ask(&example("bedrock-converse.yaml"), "200 OK", vec![start, delta(" upon"), end.concat()], 2);
    assert_eq!((&row.outcome, text(&row)), (&Outcome::Complete, "Once upon"));
    assert_eq!((row.usage.completion_tokens, row.usage.prompt_tokens), (Some(2), Some(8)));
    assert_eq!(server.seen.recv().unwrap().path(), "/model/org%2Fm%201/converse-stream");
    let slow = aws_event("exception", "throttlingException", r#"{"message":"slow down"}"#);
    let (row, _) = ask(&example("bedrock-converse.yaml"), "200 OK", vec![delta("Once"), slow], 1);
    let failure = row.outcome.failure().unwrap();
    assert_eq!((failure.kind, failure.message.as_str()), (FailureKind::ErrorInStream, "throttlingException"));
    let (cut, _) = ask(&example("bedrock-converse.yaml"), "200 OK", vec![delta("Once")], 1);
    assert_eq!(cut.outcome.failure().map(|failure| failure.kind), Some(FailureKind::Truncated));
}

#[test]
fn the_example_of_kserve_reads_its_document() {
    let tensor =
        |text: &str| format!(r#"{{"name": "text_output", "datatype": "BYTES", "shape": [1], "data": ["{text}"]}}"#);
    let answer = format!(r#"{{"model_name": "m", "model_version": "1", "outputs": [{}]}}"#, tensor("Once upon"));
    let (row, server) = ask(&example("kserve-v2.yaml"), "200 OK", vec![answer.into_bytes()], 0);
    assert_eq!((&row.outcome, text(&row)), (&Outcome::Complete, "Once upon"));
    let seen = server.seen.recv().unwrap();
    assert_eq!(seen.path(), "/v2/models/org%2Fm%201/infer");
    let body = r#"{"inputs": [{"name": "text_input", "shape": [1, 1], "datatype": "BYTES", "data": ["once"]}, {"name": "max_tokens", "shape": [1, 1], "datatype": "INT32", "data": [3]}], "outputs": [{"name": "text_output"}]}"#;
    assert_eq!(String::from_utf8_lossy(&seen.body), body);
    let (row, _) = ask(&example("kserve-v2.yaml"), "200 OK", vec![br#"{"error": "no such model"}"#.to_vec()], 0);
    assert_eq!(row.outcome.failure().map(|failure| failure.message.as_str()), Some("no such model"));
}

#[test]
fn an_unaccepted_status_is_a_failure() {
    let word = br#"{"out": [{"w/o": "a"}], "n": 1, "fin": true}"#.to_vec();
    let backend = backend(ODD);
    for (status, kind) in [("203 Fine", None), ("202 Later", Some(FailureKind::Http(202)))] {
        let (server, _times) = paced(status, vec![word.clone()]);
        let endpoint = endpoint(&format!("{}/ask", server.url()), backend, Rules::Standard);
        let row = send(endpoint, &PayloadSpec::default(), &[Request::text("once", 1, 3)]).remove(0);
        assert_eq!(row.outcome.failure().map(|failure| failure.kind), kind, "{status}");
    }
}

/// Kinds without recordings: the file reads the same bodies in the same way.
#[test]
fn older_kinds_are_read_alike_by_their_files() {
    let tgi = "data:{\"token\":{\"text\":\" a\"},\"generated_text\":null}\n\n\
               data:{\"token\":{\"text\":\" b\"},\"generated_text\":\" a b\",\"details\":{\"generated_tokens\":2}}\n\n";
    let choices = "data: {\"choices\": [{\"text\": \"a\"}], \"usage\": {\"prompt_tokens\": 9, \"completion_tokens\": 3}}\n\ndata: [DONE]\n\n";
    let bodies = [
        ("tgi", tgi),
        ("tgi", &tgi[..60]),
        ("tgi", "data:{\"error\":\"overloaded\"}\n\n"),
        ("tensorrt-llm", "data: {\"text_output\":\" a\"}\n\ndata: {\"text_output\":\"\\u00e9\"}\n\n"),
        ("tensorrt-llm", ""),
        ("deepspeed-mii", r#"{"choices": [{"text": "a"}]}"#),
        ("deepspeed-mii", "{bad"),
        ("deepspeed-mii", "{  }"),
        ("deepspeed-mii", r#"{"error": {"message": "m"}}"#),
        ("sglang", choices),
        ("lmdeploy", choices),
        ("scalellm", choices),
        ("llama.cpp", choices),
        ("llama.cpp", &choices[..choices.len() - 16]),
        ("vllm-generate", "{\"text\": [\"once\"]}\n{\"text\": [\"once upon\"]}\n{\"text\": [\"once upon\\n\"]}\n"),
        ("vllm-generate", "{\"text\": [\"once up"),
        ("vllm-generate", "{\"error\": \"aborted\"}\n"),
    ];
    for (name, body) in bodies {
        let own = BackendKind::from_name(name).unwrap();
        let file = backend(built_in_file(name).unwrap());
        let row = |backend| {
            let expected = expected(backend, "{}");
            let pieces: Vec<&[u8]> = body.as_bytes().chunks(9).collect();
            let row = read(backend, Rules::Standard, &expected, &pieces);
            let kind = row.outcome.failure().map(|failure| failure.kind);
            // The text of a failed response does not count.
            (kind, kind.is_none().then_some((row.text, row.chunks, row.usage, row.first_content)))
        };
        assert_eq!(row(file), row(own), "{name}: {body}");
    }
}

#[test]
fn requests_without_streams_are_read_whole() {
    let file = backend(built_in_file("openai-chat").unwrap());
    let body = r#"{"choices": [{"message": {"content": "a"}}], "usage": {"completion_tokens": 2}}"#;
    let row = read(file, Rules::Standard, &expected(file, r#"{"stream": false}"#), &[body.as_bytes()]);
    assert_eq!((&row.outcome, text(&row), row.usage.completion_tokens), (&Outcome::Complete, "a", Some(2)));
    assert!(row.chunks.is_empty());
}

/// The body for a request with labels, media and members of its own.
#[test]
fn bodies_have_all_that_a_request_has() {
    let file = r#"
request:
  path: /x
  extras: true
  body:
    a: "{{ row.k | default(omit) }}"
    b: "{{ labels }}"
    c: "{{ media }}"
    d: "{{ token_ids }}"
    e: "{{ session }}-{{ id }}"
    f: ["{{ omit }}", "{{ max_tokens / 2 }}", 1.0, ~]
    g: "{% for word in prompt.split() %}{{ loop.index }}{{ word }} {% endfor %}"
    h: "{{ extra_body.top_p }}"
    "**": "{{ {'i': 1} }}"
response: { framing: whole, text: t }
"#;
    let backend = backend(file);
    let mut request = Request::text("x é", 1, 3);
    request.overrides = Some(parse(r#"{"k": [1, null], "z": 0}"#).unwrap());
    request.media = Some(parse(r#"[{"type": "image_url"}]"#).unwrap());
    request.labels = request.labels.with("class", "chat");
    request.session = Some("s".into());
    let extra_body = parse(r#"{"top_p": 0.5}"#).unwrap().as_dict().unwrap().clone();
    let payload = PayloadSpec { extra_body, ..PayloadSpec::default() };
    let body = backend.body(&payload, &request).unwrap();
    assert_eq!(
        String::from_utf8(body).unwrap(),
        r#"{"a": [1, null], "b": {"class": "chat"}, "c": [{"type": "image_url"}], "e": "s-", "f": [1.5, 1.0, null], "g": "1x 2\u00e9 ", "h": 0.5, "i": 1, "top_p": 0.5, "k": [1, null], "z": 0}"#
    );
}

#[test]
fn no_cut_of_a_body_changes_what_is_read() {
    let body: Vec<u8> = [r#"{"t": ["a"]}"#, r#"{"t": ["b\n"], "r": "x"}"#, r#"{"u": {"o": 2}}"#]
        .iter()
        .flat_map(|message| framed(message))
        .collect();
    let row = |size: usize| {
        let mut decoder = ResponseDecoder::new(backend(FRAMED), Rules::Standard, &Expected::default());
        let mut row = Observation::dispatched(0, Timestamp::ZERO, Timestamp::ZERO);
        let flows = body.chunks(size).map(|piece| decoder.feed(piece, Timestamp(1), &mut row));
        assert!(flows.collect::<Vec<_>>().iter().all(|flow| *flow == Flow::Continue));
        row.outcome = decoder.finish(Timestamp(1), &mut row);
        row
    };
    for size in 1..body.len() {
        assert_eq!(row(size), row(body.len()), "in pieces of {size}");
    }
}

/// Whether events are like the one before or read in full, reading them allocates nothing once buffers have grown.
#[test]
fn events_cost_no_allocation() {
    let chat = |text: &str, more: &str| {
        format!(
            "data: {{\"choices\": [{{\"delta\": {{\"content\": \"{text}\"}}, \"finish_reason\": null{more}}}]}}\n\n"
        )
        .into_bytes()
    };
    let usage = |at: usize| chat("xyz", &format!("}}], \"usage\": {{\"completion_tokens\": {at}}}, \"x\": [{{"));
    let alike: Vec<_> = (0..200).map(|at| chat(&format!("{:03}", at), "")).collect();
    let escaped: Vec<_> = (0..200).map(|at| chat(["\\n", "\\t\\u00e9"][at % 2], "")).collect();
    let counted: Vec<_> = (0..200).map(|at| usage(100 + at)).collect();
    for (name, events) in [("alike", alike), ("escaped", escaped), ("counted", counted)] {
        let file = backend(built_in_file("openai-chat").unwrap());
        let mut decoder = ResponseDecoder::new(file, Rules::Standard, &Expected::default());
        let mut row = Observation::dispatched(0, Timestamp::ZERO, Timestamp::ZERO);
        row.chunks.reserve(300);
        row.text.reserve(4000);
        row.text_ends.reserve(300);
        row.token_counts.reserve(300);
        let mut feed = |events: &[Vec<u8>]| {
            events.iter().for_each(|event| assert_eq!(decoder.feed(event, Timestamp(1), &mut row), Flow::Continue));
        };
        feed(&events[..4]);
        assert_eq!(peak(|| feed(&events[4..])).1, 0, "{name}");
        assert_eq!(row.chunks.len(), 200, "{name}");
    }
}
