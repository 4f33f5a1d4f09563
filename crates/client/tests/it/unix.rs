//! Servers on Unix sockets.

use std::io::{BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::mpsc::{Receiver, channel};
use std::{os::fd::AsRawFd, path::PathBuf, time::Duration};

use tacho_client::control::{Caller, first_model};
use tacho_client::{BackendKind, EndpointSpec, Rules};
use tacho_core::FailureKind;

use crate::behavior::{payload, requests};
use crate::scripted::{Seen, WHOLE, read_request, write_stream};
use crate::wire::{endpoint, run, send};

struct Local {
    path: PathBuf,
    seen: Receiver<Seen>,
}

impl Drop for Local {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

fn path(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("tacho-{}-{name}.sock", std::process::id()))
}

fn serve(name: &str, queue: i32) -> Local {
    let path = path(name);
    let listener = UnixListener::bind(&path).unwrap();
    set_queue(&listener, queue);
    let (sender, seen) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, sender) = (stream.unwrap(), sender.clone());
            std::thread::spawn(move || {
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                while let Some(seen) = read_request(&mut reader) {
                    response(&seen, &stream);
                    let _ = sender.send(seen);
                }
            });
        }
    });
    Local { path, seen }
}

#[expect(unsafe_code, reason = "the standard library chooses the length of the queue")]
fn set_queue(listener: &UnixListener, length: i32) {
    // SAFETY: no pointers.
    assert_eq!(unsafe { libc::listen(listener.as_raw_fd(), length) }, 0);
}

fn response(seen: &Seen, mut stream: &UnixStream) {
    if seen.line.starts_with("POST") {
        return write_stream(&mut stream, &WHOLE);
    }
    let body = r#"{"data": [{"id": "n", "root": "org/n"}]}"#;
    let _ = write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
}

fn behind(path: &std::path::Path) -> EndpointSpec {
    let encoded = path.to_str().unwrap().replace('/', "%2F");
    endpoint(&format!("http+unix://{encoded}/base/v1/completions"), BackendKind::OpenAi, Rules::Standard)
}

#[test]
fn requests_and_calls_go_through_a_unix_socket() {
    let server = serve("both", 128);
    let driven = run(behind(&server.path), &payload(), &requests(40), 8);
    assert!(driven.rows.iter().all(|row| row.outcome.is_complete()), "{:?}", driven.rows);
    assert!(!driven.workers[0].kernel_timestamps, "the kernel does not stamp these");
    let seen = server.seen.recv_timeout(Duration::from_secs(5)).unwrap();
    assert_eq!(seen.line, "POST /base/v1/completions HTTP/1.1");
    assert_eq!(seen.header("host"), Some("localhost"));
    let caller = Caller::new(&behind(&server.path), "/base", Duration::from_secs(5)).unwrap();
    assert_eq!(first_model(&caller).unwrap().root, "org/n");
    assert!(caller.url("/v1/models").starts_with("http+unix://%2F"));
}

#[test]
fn more_connections_than_the_listener_queues_are_made_in_the_end() {
    let server = serve("queue", 1);
    let driven = run(behind(&server.path), &payload(), &requests(100), 100);
    assert!(driven.rows.iter().all(|row| row.outcome.is_complete()));
    assert!(driven.workers[0].connections > 2);
}

#[test]
fn a_missing_socket_is_a_connect_failure() {
    let rows = send(behind(&path("missing")), &payload(), &requests(1));
    let failure = rows[0].outcome.failure().unwrap();
    assert_eq!(failure.kind, FailureKind::Connect);
    assert!(failure.message.contains("missing.sock"), "{}", failure.message);
}
