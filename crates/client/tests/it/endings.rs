//! Ends of connections: a response with its end marker is complete, one without is not.

use std::io::{Read, Write};
use std::{net::TcpStream, time::Duration};

use tacho_client::{BackendKind, EndpointSpec, Rules, backends::built_in_file};
use tacho_core::{FailureKind, Observation};

use crate::behavior::{payload, requests};
use crate::scripted::{Keep, WHOLE, read_request, serve};
use crate::secure::Secure;
use crate::wire::{endpoint, send};

const CHUNKED: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

/// A response with its end marker, but without the last chunk of its body.
fn unended() -> String {
    format!("{CHUNKED}{}", chunk(&WHOLE.concat()))
}

fn trusting(server: &Secure) -> EndpointSpec {
    EndpointSpec { insecure: true, ..endpoint(&server.url(), BackendKind::OpenAi, Rules::Standard) }
}

fn ask(response: String, keep: Keep, change: impl Fn(&mut EndpointSpec)) -> Observation {
    let server = serve(Box::new(move |_, stream: &mut TcpStream| {
        stream.write_all(response.as_bytes()).unwrap();
        keep
    }));
    let url = format!("http://{}/v1/completions", server.address);
    let mut endpoint = endpoint(&url, BackendKind::OpenAi, Rules::Standard);
    change(&mut endpoint);
    send(endpoint, &payload(), &requests(1)).remove(0)
}

#[test]
fn an_answer_with_its_closing_mark_is_whole_however_the_connection_ends() {
    let short = |endpoint: &mut EndpointSpec| endpoint.timeout = Duration::from_millis(300);
    for (name, keep) in [("closed", Keep::Close), ("reset", Keep::Reset), ("silent", Keep::Open)] {
        let row = ask(unended(), keep, short);
        assert!(row.outcome.is_complete(), "{name}: {:?}", row.outcome);
        // Not when the timeout expired, but when the last bytes arrived.
        assert_eq!(Some(&row.done), row.chunks.last(), "{name}");
    }
    let strict = ask(unended(), Keep::Close, |endpoint| endpoint.rules = Rules::Vllm);
    assert_eq!(strict.outcome.failure().unwrap().kind, FailureKind::ConnectionLost);
    let cut = ask(format!("{CHUNKED}{}", chunk(WHOLE[0])), Keep::Close, short);
    assert_eq!(cut.outcome.failure().unwrap().kind, FailureKind::ConnectionLost);
}

/// transformers serve never sends `[DONE]`; the last event has the finish reason and the usage.
#[test]
fn a_finish_reason_and_a_complete_body_end_a_stream_without_its_mark() {
    let event = |index: u8, reason: &str, usage: &str| {
        format!(
            "data: {{\"choices\": [{{\"index\": {index}, \"text\": \"a\", \"finish_reason\": {reason}}}]{usage}}}\n\n"
        )
    };
    let last = event(0, "\"length\"", ", \"usage\": {\"prompt_tokens\": 7, \"completion_tokens\": 2}");
    let whole = [event(0, "null", ""), last.clone()].concat();
    let framed = |body: &str| format!("{CHUNKED}{}0\r\n\r\n", chunk(body));
    let file = BackendKind::from_text(built_in_file("openai").unwrap(), "openai").unwrap();
    for backend in [BackendKind::OpenAi, file] {
        let kind = |response: String, keep| {
            let row = ask(response, keep, |endpoint| endpoint.backend = backend);
            let counts = (row.chunks.len(), row.usage.completion_tokens);
            row.outcome.failure().map_or(Err(counts), |failure| Ok(failure.kind))
        };
        assert_eq!(kind(framed(&whole), Keep::Open), Err((2, Some(2))), "{}", backend.name());
        // One without a finish reason, or whose end only the connection shows, may be cut.
        assert_eq!(kind(framed(&event(0, "null", "")), Keep::Open), Ok(FailureKind::Truncated));
        let open_ended = format!("HTTP/1.1 200 OK\r\n\r\n{whole}");
        assert_eq!(kind(open_ended, Keep::Close), Ok(FailureKind::Truncated));
        assert_eq!(kind(format!("{CHUNKED}{}", chunk(&whole)), Keep::Close), Ok(FailureKind::ConnectionLost));
    }
    // A second choice goes on after the first has ended.
    let cut = ask(framed(&[event(1, "null", ""), last].concat()), Keep::Open, |_| {});
    assert_eq!(cut.outcome.failure().unwrap().kind, FailureKind::Truncated);
}

#[test]
fn the_closing_message_of_tls_ends_an_answer_at_once() {
    // The server closes TLS for writing but leaves the connection open.
    let server = Secure::start(&["http/1.1"], |stream| {
        if read_request(stream).is_some() {
            let response = format!("HTTP/1.1 200 OK\r\n\r\n{}", WHOLE.concat());
            stream.get_mut().write_all(response.as_bytes()).unwrap();
            stream.get_mut().conn.send_close_notify();
            stream.get_mut().flush().unwrap();
            let _ = stream.get_mut().sock.read(&mut [0; 64]);
            let _ = stream.get_mut().sock.read(&mut [0; 64]);
        }
    });
    let rows = send(trusting(&server), &payload(), &requests(1));
    assert!(rows[0].outcome.is_complete(), "{:?}", rows[0].outcome);
    assert!(rows[0].done.since(rows[0].sent) < Duration::from_secs(5));
}

#[test]
fn an_answer_with_its_closing_mark_needs_no_closing_message_of_tls() {
    let server = Secure::start(&["http/1.1"], |stream| {
        if read_request(stream).is_some() {
            stream.get_mut().write_all(unended().as_bytes()).unwrap();
            stream.get_mut().sock.shutdown(std::net::Shutdown::Both).unwrap();
        }
    });
    let rows = send(trusting(&server), &payload(), &requests(1));
    assert!(rows[0].outcome.is_complete(), "{:?}", rows[0].outcome);
}

#[test]
fn a_redirected_request_keeps_its_headers() {
    let mut first = true;
    let server = serve(Box::new(move |_, stream: &mut TcpStream| {
        let moved = "HTTP/1.1 307 T\r\nLocation: /v2/completions\r\nContent-Length: 0\r\n\r\n".to_owned();
        let response = if std::mem::take(&mut first) { moved } else { unended() + "0\r\n\r\n" };
        stream.write_all(response.as_bytes()).unwrap();
        Keep::Open
    }));
    let mut asked = requests(1);
    asked[0].id = Some("r-7".into());
    let mut endpoint =
        endpoint(&format!("http://{}/v1/completions", server.address), BackendKind::OpenAi, Rules::Standard);
    endpoint.headers.set("X-Team", "red");
    let rows = send(endpoint, &payload(), &asked);
    assert!(rows[0].outcome.is_complete(), "{:?}", rows[0].outcome);
    let [first, second] = [server.seen.recv().unwrap(), server.seen.recv().unwrap()];
    assert_eq!(second.line, "POST /v2/completions HTTP/1.1");
    assert_eq!(first.headers, second.headers);
    assert_eq!((second.header("x-request-id"), second.header("x-team")), (Some("r-7"), Some("red")));
    assert_eq!(first.body, second.body);
}

#[test]
fn what_servers_call_an_error_is_one() {
    for (name, event) in [
        ("an abort", r#"{"choices":[{"text":"","finish_reason":"abort"}]}"#),
        ("an error", r#"{"choices":[{"text":"","finish_reason":"error"}]}"#),
        ("a detail", r#"{"detail":"out of memory"}"#),
        ("a message", r#"{"code":500,"message":"out of memory"}"#),
    ] {
        let body = format!("{}data: {event}\n\n{}", WHOLE[0], WHOLE[2]);
        let response = format!("{CHUNKED}{}0\r\n\r\n", chunk(&body));
        let row = ask(response.clone(), Keep::Open, |_| {});
        let failure = row.outcome.failure().unwrap_or_else(|| panic!("{name}: a success"));
        assert_eq!(failure.kind, FailureKind::ErrorInStream, "{name}");
        assert!(failure.message.contains("memory") || failure.message.contains("aborted the response"), "{name}");
        assert!(ask(response, Keep::Open, |endpoint| endpoint.rules = Rules::Vllm).outcome.is_complete(), "{name}");
    }
}

#[test]
fn a_server_that_repeats_the_key_does_not_put_it_into_the_report() {
    let response = "HTTP/1.1 401 No\r\nContent-Length: 20\r\n\r\nbad key sk-abcdefghij".replace("20", "21");
    let row = ask(response, Keep::Open, |endpoint| endpoint.api_key = Some("sk-abcdefghij".into()));
    assert_eq!(row.outcome.failure().unwrap().message, "No (401): bad key ***");
}
