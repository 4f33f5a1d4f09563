//! The control calls of a run: limits of time and size, and stops during calls.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use tacho_client::control::{
    Caller, ProfilerCall, ProfilerResponse, ServerInfo, TokenizeServer, first_model, metrics_page, profile, server_info,
};
use tacho_client::{BackendKind, Error, Rules};
use tacho_loadgen::StopSignal;

use crate::scripted::{Keep, Scripted, serve};
use crate::wire::endpoint;

fn answering(head: &'static str, block: &'static [u8], times: usize) -> Scripted {
    serve(Box::new(move |_, stream: &mut TcpStream| {
        let _ = stream.write_all(head.as_bytes());
        let _ = (0..times).try_for_each(|_| stream.write_all(block));
        Keep::Close
    }))
}

fn caller(address: std::net::SocketAddr, patience: Duration) -> Caller {
    let endpoint = endpoint(&format!("http://{address}/v1/completions"), BackendKind::OpenAi, Rules::Standard);
    Caller::new(&endpoint, "", patience).unwrap()
}

const LONG: Duration = Duration::from_secs(60);

#[test]
fn a_server_that_is_silent_on_side_paths_costs_seconds_once() {
    // Connections are accepted and never answered.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let caller = caller(listener.local_addr().unwrap(), LONG);
    let began = Instant::now();
    assert!(metrics_page(&caller).is_err());
    assert_eq!(server_info(&caller), ServerInfo::default());
    let server = TokenizeServer { caller: &caller, model: "m", signed: false };
    assert!(server.tokenize("a").is_none() && server.tokenize("b").is_none());
    let error = metrics_page(&caller).unwrap_err();
    assert!(error.to_string().ends_with("did not respond to earlier optional calls"), "{error}");
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
}

#[test]
fn a_page_that_never_comes_is_given_up_and_said_to_be() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let error = metrics_page(&caller(listener.local_addr().unwrap(), Duration::from_millis(200))).unwrap_err();
    assert!(error.to_string().contains("no response within 0.2 s"), "{error}");
    let began = Instant::now();
    // The metrics endpoint has a short timeout of its own.
    let error = metrics_page(&caller(listener.local_addr().unwrap(), LONG)).unwrap_err();
    assert!(error.to_string().contains("5 s") && began.elapsed() < Duration::from_secs(15), "{error}");
}

#[test]
fn a_page_that_never_ends_is_given_up() {
    let server = serve(Box::new(|_, stream: &mut TcpStream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
        while stream.write_all(b"x").is_ok() {
            std::thread::sleep(Duration::from_millis(5));
        }
        Keep::Close
    }));
    let error = metrics_page(&caller(server.address, Duration::from_millis(300))).unwrap_err();
    assert!(error.to_string().contains("no response within"), "{error}");
}

#[test]
fn a_stop_ends_a_call_at_once() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let stop = StopSignal::default();
    let caller = caller(listener.local_addr().unwrap(), LONG).with_stop(&stop);
    for _ in 0..2 {
        let began = Instant::now();
        std::thread::scope(|scope| {
            let call = scope.spawn(|| first_model(&caller));
            std::thread::sleep(Duration::from_millis(50));
            stop.request_stop();
            assert!(matches!(call.join().unwrap(), Err(Error::Stopped)));
        });
        assert!(began.elapsed() < Duration::from_secs(5));
    }
    // After an immediate stop the timeout is short, but a fast server still succeeds.
    let began = Instant::now();
    assert!(first_model(&caller).is_err());
    assert!(began.elapsed() < Duration::from_secs(10));
}

#[test]
fn answers_have_a_size() {
    let endless = answering("HTTP/1.1 200 OK\r\n\r\n", &[b'x'; 1 << 20], 100);
    let error = first_model(&caller(endless.address, LONG)).unwrap_err().to_string();
    assert!(error.contains("longer than 16384 KiB"), "{error}");
    let name = Box::leak(format!(r#"{{"data": [{{"id": "{}"}}]}}"#, "m".repeat(5000)).into_boxed_str());
    let long_name = answering("HTTP/1.1 200 OK\r\n\r\n", name.as_bytes(), 1);
    let error = first_model(&caller(long_name.address, LONG)).unwrap_err().to_string();
    assert!(error.contains("5000 bytes long"), "{error}");
}

#[test]
fn a_profiler_that_fails_is_not_missing() {
    for (status, expected) in [
        ("500 Oh", ProfilerResponse::Refused(500)),
        ("404 No", ProfilerResponse::Missing),
        ("200 OK", ProfilerResponse::Done),
    ] {
        let head = Box::leak(format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n").into_boxed_str());
        let server = answering(head, b"", 0);
        assert_eq!(profile(&caller(server.address, LONG), ProfilerCall::Stop).unwrap(), expected);
    }
}

#[test]
fn a_refusal_says_what_the_server_said_but_not_the_key() {
    let head = "HTTP/1.1 401 Unauthorized\r\nContent-Length: 18\r\n\r\n";
    let server = answering(head, b"bad key: sk-abcdef", 1);
    let mut endpoint =
        endpoint(&format!("http://{}/v1/completions", server.address), BackendKind::OpenAi, Rules::Standard);
    endpoint.api_key = Some("sk-abcdef".into());
    let error = first_model(&Caller::new(&endpoint, "", LONG).unwrap()).unwrap_err().to_string();
    assert!(error.contains("401 Unauthorized; bad key: ***; ") && error.contains("OPENAI_API_KEY"), "{error}");
}
