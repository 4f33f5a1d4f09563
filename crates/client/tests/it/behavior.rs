//! Behavior of the client beyond single responses.

use std::time::Duration;

use tacho_client::control::{
    Caller, ProfilerCall, ProfilerResponse, ServedModel, TokenizeServer, first_model, profile,
};
use tacho_client::{BackendKind, PayloadSpec, Rules};
use tacho_core::{FailureKind, Request};

use crate::scripted::{Keep, Scripted, WHOLE, serve, write_stream};
use crate::wire::{endpoint, send};

fn url(server: &Scripted) -> String {
    format!("http://{}/v1/completions", server.address)
}

pub(crate) fn requests(count: usize) -> Vec<Request> {
    (0..count).map(|index| Request { id: Some(format!("r{index}")), ..Request::text("p", 1, 4) }).collect()
}

pub(crate) fn payload() -> PayloadSpec {
    PayloadSpec { model: "m".into(), ..PayloadSpec::default() }
}

#[test]
fn one_connection_serves_one_request_after_the_other() {
    let server = serve(Box::new(|_, stream| {
        write_stream(stream, &WHOLE);
        Keep::Open
    }));
    let rows = send(endpoint(&url(&server), BackendKind::OpenAi, Rules::Standard), &payload(), &requests(5));
    // The scripted server accepts one connection at a time, so a second one would never get a response.
    assert!(rows.iter().all(|row| row.outcome.is_complete()), "{rows:?}");
    assert!(rows.iter().skip(1).all(|row| row.connect_ns == 0));
    let ids: Vec<_> =
        server.seen.try_iter().filter_map(|seen| seen.header("x-request-id").map(str::to_owned)).collect();
    assert_eq!(ids, ["r0", "r1", "r2", "r3", "r4"]);
}

#[test]
fn a_kept_connection_that_died_costs_no_request() {
    let mut asked = 0;
    let server = serve(Box::new(move |_, stream| {
        asked += 1;
        // Closed after the response, without a `Connection: close`.
        write_stream(stream, &WHOLE);
        if asked == 2 { Keep::Close } else { Keep::Open }
    }));
    let rows = send(endpoint(&url(&server), BackendKind::OpenAi, Rules::Standard), &payload(), &requests(4));
    assert!(rows.iter().all(|row| row.outcome.is_complete()), "{rows:?}");
}

#[test]
fn a_stall_ends_at_the_time_limit() {
    let server = serve(Box::new(|_, stream| {
        use std::io::Write;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        Keep::Open
    }));
    let mut endpoint = endpoint(&url(&server), BackendKind::OpenAi, Rules::Standard);
    endpoint.timeout = Duration::from_millis(150);
    let rows = send(endpoint, &payload(), &requests(1));
    assert_eq!(rows[0].outcome.failure().unwrap().kind, FailureKind::TimedOut);
}

/// The shortest of several attempts: a busy machine is late at times, but not always.
fn soonest(mut took: impl FnMut() -> Duration) -> Duration {
    (0..8).map(|_| took()).min().unwrap()
}

#[test]
fn limits_and_pauses_end_when_they_should_and_not_at_the_next_tick() {
    let silent = serve(Box::new(|_, _| Keep::Open));
    let limit = Duration::from_millis(13);
    for first_token_timeout in [None, Some(limit)] {
        let took = soonest(|| {
            let mut endpoint = endpoint(&url(&silent), BackendKind::OpenAi, Rules::Standard);
            endpoint.first_token_timeout = first_token_timeout;
            endpoint.timeout = if first_token_timeout.is_none() { limit } else { endpoint.timeout };
            let row = send(endpoint, &payload(), &requests(1)).remove(0);
            assert_eq!(row.outcome.failure().unwrap().kind, FailureKind::TimedOut);
            row.done.since(row.sent)
        });
        assert!(took >= limit && took < limit + Duration::from_millis(30), "{took:?}");
    }
    let refusing = serve(Box::new(|_, stream| {
        use std::io::Write;
        let _ = stream.write_all(b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n");
        Keep::Open
    }));
    let took = soonest(|| {
        let mut endpoint = endpoint(&url(&refusing), BackendKind::OpenAi, Rules::Standard);
        endpoint.retries = 2;
        let row = send(endpoint, &payload(), &requests(1)).remove(0);
        assert_eq!((row.outcome.failure().unwrap().kind, row.retries), (FailureKind::Http(500), 2));
        row.done.since(row.sent)
    });
    // Two pauses of 100 ms.
    assert!(took >= Duration::from_millis(200) && took < Duration::from_millis(240), "{took:?}");
}

#[test]
fn several_events_in_one_read_are_counted() {
    let chunk = WHOLE[0].repeat(5) + WHOLE[1] + WHOLE[2];
    let server = serve(Box::new(move |_, stream| {
        use std::io::Write;
        let response = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{chunk}", chunk.len());
        let _ = stream.write_all(response.as_bytes());
        Keep::Open
    }));
    let rows = send(endpoint(&url(&server), BackendKind::OpenAi, Rules::Standard), &payload(), &requests(1));
    assert_eq!((rows[0].chunks.len(), rows[0].coalesced), (5, 4));
    assert_eq!(rows[0].text, b"aaaaa");
}

fn json_server(response: fn(&str, &str) -> Option<String>) -> Scripted {
    serve(Box::new(move |seen, stream| {
        use std::io::Write;
        let body = String::from_utf8_lossy(&seen.body).into_owned();
        let text = match response(&seen.line, &body) {
            Some(body) => format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()),
            None => "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_owned(),
        };
        let _ = stream.write_all(text.as_bytes());
        Keep::Close
    }))
}

fn caller(server: &Scripted, path: &str) -> Caller {
    let mut endpoint = endpoint(&url(server), BackendKind::OpenAi, Rules::Standard);
    endpoint.headers.set("X-Team", "a");
    Caller::new(&endpoint, path, Duration::from_secs(5)).unwrap()
}

#[test]
fn the_first_model_is_asked_for_below_the_base_path() {
    let server = json_server(|line, _| {
        (line == "GET /deploy/v1/models HTTP/1.1").then(|| r#"{"data": [{"id": "n", "root": "org/n"}]}"#.to_owned())
    });
    let model = first_model(&caller(&server, "/deploy")).unwrap();
    assert_eq!(model, ServedModel { name: "n".into(), root: "org/n".into() });
    assert_eq!(server.seen.recv().unwrap().header("x-team"), Some("a"));
    assert!(first_model(&caller(&server, "")).unwrap_err().to_string().contains("404"));
}

#[test]
fn the_profiler_is_asked_with_an_empty_body() {
    let server = json_server(|line, _| line.contains("/start_profile").then(String::new));
    assert_eq!(profile(&caller(&server, ""), ProfilerCall::Start).unwrap(), ProfilerResponse::Done);
    assert_eq!(profile(&caller(&server, ""), ProfilerCall::Stop).unwrap(), ProfilerResponse::Missing);
    let seen = server.seen.recv().unwrap();
    assert_eq!(
        (seen.header("content-length"), seen.header("content-type")),
        (Some("0"), Some("application/octet-stream"))
    );
}

#[test]
fn the_servers_tokenizer_is_asked_both_ways() {
    // The server counts characters.
    let server = json_server(|line, body| {
        let body: serde_json::Value = serde_json::from_str(body).unwrap();
        Some(if line.contains("/detokenize") {
            let tokens = body["tokens"].as_array().unwrap();
            let text: String = tokens.iter().map(|token| char::from(token.as_u64().unwrap() as u8)).collect();
            format!(r#"{{"prompt": "{text}"}}"#)
        } else {
            let bytes = body["prompt"].as_str().unwrap().as_bytes();
            format!(r#"{{"tokens": {bytes:?}}}"#)
        })
    });
    let caller = caller(&server, "");
    let tokenizer = TokenizeServer { caller: &caller, model: "m", signed: true };
    let tokens = tokenizer.tokenize("abc").unwrap();
    assert_eq!(tokens, [97, 98, 99]);
    assert_eq!(tokenizer.detokenize(&tokens[..2]).unwrap(), "ab");
}
