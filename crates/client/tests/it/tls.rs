//! TLS over real sockets: certificates, reused connections, large bodies, endings, timeouts.

use std::time::{Duration, Instant};
use std::{io::Write, net::TcpListener};

use tacho_client::control::{Caller, first_model};
use tacho_client::{BackendKind, EndpointSpec, Rules};
use tacho_core::{FailureKind, Request};

use crate::behavior::{payload, requests};
use crate::scripted::{WHOLE, read_request, write_stream};
use crate::secure::{Secure, Secured};
use crate::wire::{endpoint, run, send};

fn answer_all(stream: &mut Secured) {
    while read_request(stream).is_some() {
        write_stream(stream.get_mut(), &WHOLE);
    }
}

fn trusting(server: &Secure) -> EndpointSpec {
    let mut endpoint = endpoint(&server.url(), BackendKind::OpenAi, Rules::Standard);
    endpoint.insecure = true;
    endpoint
}

#[test]
fn an_unknown_certificate_fails_every_request_and_says_so() {
    let server = Secure::start(&[], answer_all);
    let rows = send(endpoint(&server.url(), BackendKind::OpenAi, Rules::Standard), &payload(), &requests(3));
    for row in rows {
        let failure = row.outcome.failure().unwrap();
        assert_eq!(failure.kind, FailureKind::Connect);
        assert!(failure.message.contains("invalid peer certificate"), "{}", failure.message);
        assert!(failure.message.contains("--insecure"), "{}", failure.message);
    }
}

#[test]
fn a_certificate_is_accepted_when_it_is_named_or_none_is_asked_for() {
    let server = Secure::start(&["http/1.1"], answer_all);
    let rows = send(trusting(&server), &payload(), &requests(1));
    assert!(rows[0].outcome.is_complete(), "{rows:?}");
    assert!(rows[0].connect_ns > 0);
    let mut named = endpoint(&server.url(), BackendKind::OpenAi, Rules::Standard);
    let file = server.certificate_file("named");
    named.ca_file = Some(file.clone());
    let rows = send(named, &payload(), &requests(1));
    std::fs::remove_file(file).unwrap();
    assert!(rows[0].outcome.is_complete(), "{rows:?}");
}

#[test]
fn one_connection_carries_many_requests_with_kernel_timestamps() {
    let server = Secure::start(&["http/1.1"], answer_all);
    let driven = run(trusting(&server), &payload(), &requests(200), 1);
    assert!(driven.rows.iter().all(|row| row.outcome.is_complete()));
    assert_eq!(server.connections(), 1);
    let stats = &driven.workers[0];
    assert_eq!((stats.connections, stats.events), (1, 200));
    if cfg!(target_os = "linux") {
        assert!(stats.kernel_timestamps);
        // A lag is recorded only if a read has a kernel timestamp.
        assert!(stats.wake_lags_ns.len() >= 200, "{}", stats.wake_lags_ns.len());
        assert!(stats.wake_lags_ns.iter().any(|&lag| lag > 0));
    }
}

#[test]
fn large_bodies_pass_both_ways() {
    let server = Secure::start(&["http/1.1"], |stream| {
        while let Some(seen) = read_request(stream) {
            // About as many events as the request has bytes, so that no loss goes unnoticed.
            let events = WHOLE[0].repeat(seen.body.len() / WHOLE[0].len());
            let body = events + WHOLE[1] + WHOLE[2];
            let response = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
            stream.get_mut().write_all(response.as_bytes()).unwrap();
        }
    });
    let prompt = "x".repeat(1 << 20);
    let large: Vec<_> = (0..3).map(|_| Request::text(&prompt, 1, 4)).collect();
    let rows = send(trusting(&server), &payload(), &large);
    for row in &rows {
        assert!(row.outcome.is_complete(), "{:?}", row.outcome);
        assert!(row.chunks.len() > (1 << 20) / WHOLE[0].len(), "{}", row.chunks.len());
        assert_eq!(row.text.len(), row.chunks.len());
    }
    assert_eq!(server.connections(), 1);
}

#[test]
fn an_end_without_the_closing_message_is_a_lost_connection() {
    let server = Secure::start(&["http/1.1"], |stream| {
        if read_request(stream).is_some() {
            let response = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n400\r\n{}", WHOLE[0]);
            stream.get_mut().write_all(response.as_bytes()).unwrap();
            stream.get_mut().sock.shutdown(std::net::Shutdown::Both).unwrap();
        }
    });
    let rows = send(trusting(&server), &payload(), &requests(1));
    let failure = rows[0].outcome.failure().unwrap();
    assert_eq!(failure.kind, FailureKind::ConnectionLost, "{}", failure.message);
    assert!(failure.message.contains("without TLS's closing message"), "{}", failure.message);
    assert_eq!(rows[0].chunks.len(), 1);
}

#[test]
fn a_server_that_never_shakes_hands_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}/v1/completions", listener.local_addr().unwrap());
    let limits = [(Duration::from_millis(120), 20), (Duration::from_secs(20), 0)];
    for (connect, total) in limits {
        let mut endpoint = endpoint(&url, BackendKind::OpenAi, Rules::Standard);
        endpoint.connect_timeout = connect;
        endpoint.timeout = if total > 0 { Duration::from_secs(total) } else { Duration::from_millis(120) };
        let began = Instant::now();
        let rows = send(endpoint, &payload(), &requests(1));
        let failure = rows[0].outcome.failure().unwrap();
        assert_eq!(failure.kind, FailureKind::TimedOut);
        assert!(failure.message.ends_with("within 0.12 s"), "{}", failure.message);
        assert!(began.elapsed() < Duration::from_secs(5));
    }
    let patient = endpoint(&url, BackendKind::OpenAi, Rules::Standard);
    let caller = Caller::new(&patient, "", Duration::from_millis(120)).unwrap();
    assert!(first_model(&caller).unwrap_err().to_string().contains("no response within"));
}

#[test]
fn control_calls_go_over_tls_too() {
    let server = Secure::start(&["http/1.1"], |stream| {
        while let Some(seen) = read_request(stream) {
            let body = format!("{} {}", seen.line, seen.body.len());
            let response = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
            stream.get_mut().write_all(response.as_bytes()).unwrap();
        }
    });
    let caller = Caller::new(&trusting(&server), "/base", Duration::from_secs(10)).unwrap();
    let large = vec![b' '; 3 << 20];
    let response = caller.post("/x", caller.user_headers(), &large).unwrap();
    assert_eq!(response.text(), format!("POST /base/x HTTP/1.1 {}", 3 << 20));
    let wary = endpoint(&server.url(), BackendKind::OpenAi, Rules::Standard);
    let caller = Caller::new(&wary, "", Duration::from_secs(10)).unwrap();
    let message = caller.get("/x", caller.user_headers()).unwrap_err().to_string();
    assert!(message.contains("invalid peer certificate"), "{message}");
}
