//! HTTP/2 over real sockets, with a minimal server. (The simulator has a full one.)

use std::io::{self, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{sync::Arc, time::Duration};

use tacho_client::{BackendKind, Client, ClientPlan, EndpointSpec, Error, Rules, Url, control::Caller};
use tacho_core::{FailureKind, Request, SystemClock};

use crate::behavior::{payload, requests};
use crate::scripted::{WHOLE, read_request, write_stream};
use crate::secure::Secure;
use crate::wire::{endpoint, run, send};

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GO_AWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A request as the server received it.
struct Asked {
    stream: u32,
    head: Vec<u8>,
    body: usize,
}

/// Serves one connection; the script returns the response to each request, and `None` closes the connection.
fn converse<S: Read + Write>(stream: &mut BufReader<S>, script: &dyn Fn(&Asked) -> Option<Vec<u8>>) -> io::Result<()> {
    stream.get_mut().write_all(&frame(SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 1]))?;
    let mut preface = [0; 24];
    stream.read_exact(&mut preface)?;
    assert_eq!(&preface, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    let mut asked = Asked { stream: 0, head: Vec::new(), body: 0 };
    loop {
        let mut header = [0; 9];
        stream.read_exact(&mut header)?;
        let [a, b, c, kind, flags, id @ ..] = header;
        let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
        stream.read_exact(&mut payload)?;
        match kind {
            HEADERS => {
                assert!(u32::from_be_bytes(id) > asked.stream, "streams count up");
                asked = Asked { stream: u32::from_be_bytes(id), head: payload, body: 0 };
            }
            DATA => {
                asked.body += payload.len();
                let more = (payload.len() as u32).to_be_bytes();
                let update = [frame(WINDOW_UPDATE, 0, 0, &more), frame(WINDOW_UPDATE, 0, asked.stream, &more)];
                stream.get_mut().write_all(&update.concat())?;
            }
            _ => continue,
        }
        if flags & 1 != 0 {
            match script(&asked) {
                Some(bytes) => stream.get_mut().write_all(&bytes)?,
                None => return Ok(()),
            }
        }
    }
}

/// Status 200 and a complete stream, event by event, with a ping in between.
fn whole(asked: &Asked) -> Vec<u8> {
    let mut out = frame(HEADERS, 4, asked.stream, b"\x88");
    for event in WHOLE {
        out.extend(frame(DATA, 0, asked.stream, event.as_bytes()));
        out.extend(frame(PING, 0, 0, b"question"));
    }
    out.extend(frame(DATA, 1, asked.stream, b""));
    out
}

fn plain(script: impl Fn(&Asked) -> Option<Vec<u8>> + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let script = Arc::new(script);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, script) = (stream.unwrap(), script.clone());
            std::thread::spawn(move || converse(&mut BufReader::new(stream), &*script));
        }
    });
    address
}

fn speaking_http2(url: &str) -> EndpointSpec {
    let mut endpoint = endpoint(url, BackendKind::OpenAi, Rules::Standard);
    (endpoint.http2, endpoint.insecure) = (true, true);
    endpoint
}

fn to(address: SocketAddr) -> EndpointSpec {
    speaking_http2(&format!("http://{address}/v1/completions"))
}

#[test]
fn a_tls_server_that_offers_http2_gets_it() {
    let server = Secure::start(&["h2", "http/1.1"], |stream| {
        let _ = converse(stream, &|asked| {
            // POST and https have indices in the static table.
            assert_eq!(asked.head[..2], [0x83, 0x87]);
            Some(whole(asked))
        });
    });
    let driven = run(speaking_http2(&server.url()), &payload(), &requests(50), 1);
    assert!(driven.rows.iter().all(|row| row.outcome.is_complete()), "{:?}", driven.rows);
    assert!(driven.rows.iter().all(|row| row.chunks.len() == 1 && row.text == b"a"));
    assert_eq!(server.connections(), 1);
    assert_eq!(driven.workers[0].kernel_timestamps, cfg!(target_os = "linux"));
    let caller = Caller::new(&speaking_http2(&server.url()), "", Duration::from_secs(5)).unwrap();
    let response = caller.post("/x", caller.user_headers(), b"{}").unwrap();
    assert_eq!((response.status, response.text()), (200, WHOLE.concat()));
}

#[test]
fn http1_is_spoken_unless_both_sides_want_http2() {
    let only_http1 = |stream: &mut crate::secure::Secured| {
        while read_request(stream).is_some() {
            write_stream(stream.get_mut(), &WHOLE);
        }
    };
    let modern = Secure::start(&["h2", "http/1.1"], only_http1);
    let mut unasked = speaking_http2(&modern.url());
    unasked.http2 = false;
    assert!(send(unasked, &payload(), &requests(1))[0].outcome.is_complete());
    let old = Secure::start(&["http/1.1"], only_http1);
    assert!(send(speaking_http2(&old.url()), &payload(), &requests(1))[0].outcome.is_complete());
}

#[test]
fn without_tls_http2_is_spoken_at_once_and_large_bodies_pass() {
    let address = plain(|asked| {
        assert!(asked.body > 1 << 20, "{} bytes", asked.body);
        Some(whole(asked))
    });
    let prompt = "x".repeat(1 << 20);
    let large: Vec<_> = (0..3).map(|_| Request::text(&prompt, 1, 4)).collect();
    let driven = run(to(address), &payload(), &large, 1);
    assert!(driven.rows.iter().all(|row| row.outcome.is_complete()), "{:?}", driven.rows[0].outcome);
    assert_eq!(driven.workers[0].connections, 1);
}

#[test]
fn a_reset_is_a_lost_answer_that_names_the_code() {
    let address = plain(|asked| {
        let begun = [frame(HEADERS, 4, asked.stream, b"\x88"), frame(DATA, 0, asked.stream, WHOLE[0].as_bytes())];
        Some([begun.concat(), frame(RESET, 0, asked.stream, &2_u32.to_be_bytes())].concat())
    });
    let rows = send(to(address), &payload(), &requests(2));
    for row in rows {
        let failure = row.outcome.failure().unwrap();
        assert_eq!(failure.kind, FailureKind::ConnectionLost);
        assert!(failure.message.contains("INTERNAL_ERROR"), "{}", failure.message);
        assert_eq!(row.chunks.len(), 1);
    }
}

#[test]
fn a_refused_request_is_sent_once_more() {
    let count = AtomicUsize::new(0);
    let address = plain(move |asked| {
        Some(match count.fetch_add(1, Ordering::Relaxed) {
            0 => frame(RESET, 0, asked.stream, &7_u32.to_be_bytes()),
            1 => [whole(asked), frame(GO_AWAY, 0, 0, &[0; 8])].concat(),
            _ => whole(asked),
        })
    });
    let driven = run(to(address), &payload(), &requests(3), 1);
    assert!(driven.rows.iter().all(|row| row.outcome.is_complete()), "{:?}", driven.rows);
    assert_eq!(driven.workers[0].connections, 3, "one refused, one said farewell, one went on");
}

/// One token, then the end of the response.
fn token_then(asked: &Asked, end: Vec<u8>) -> Vec<u8> {
    let head = frame(HEADERS, 4, asked.stream, b"\x88");
    [head, frame(DATA, 0, asked.stream, WHOLE[0].as_bytes()), end].concat()
}

#[test]
fn an_answer_that_has_begun_is_never_asked_for_again() {
    for farewell in [true, false] {
        let count = Arc::new(AtomicUsize::new(0));
        let counted = count.clone();
        let address = plain(move |asked| {
            counted.fetch_add(1, Ordering::Relaxed);
            let refused = frame(RESET, 0, asked.stream, &7_u32.to_be_bytes());
            let end = if farewell { frame(GO_AWAY, 0, 0, &[0; 8]) } else { refused };
            Some(token_then(asked, end))
        });
        let rows = send(to(address), &payload(), &requests(1));
        let failure = rows[0].outcome.failure().unwrap();
        assert_eq!(failure.kind, FailureKind::ConnectionLost, "{}", failure.message);
        assert_eq!((rows[0].chunks.len(), count.load(Ordering::Relaxed)), (1, 1));
    }
}

#[test]
fn a_length_that_is_not_kept_is_no_answer() {
    // Status 200 and a content length of 9, from the static table.
    let address = plain(|asked| {
        let head = frame(HEADERS, 4, asked.stream, b"\x88\x0f\x0d\x019");
        Some([head, frame(DATA, 1, asked.stream, WHOLE.concat().as_bytes())].concat())
    });
    let rows = send(to(address), &payload(), &requests(1));
    assert!(!rows[0].outcome.is_complete());
}

#[test]
fn settings_are_kept_to() {
    // A maximum frame size of one byte violates the standard.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.write_all(&frame(SETTINGS, 0, 0, &[0, 5, 0, 0, 0, 1]));
        let _ = stream.read(&mut [0; 4096]);
        std::thread::sleep(Duration::from_millis(300));
    });
    let rows = send(to(address), &payload(), &requests(1));
    assert!(!rows[0].outcome.is_complete());
    // No streams at all for a while, then one at a time.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut stream = BufReader::new(stream);
        stream.get_mut().write_all(&frame(SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 0])).unwrap();
        std::thread::sleep(Duration::from_millis(100));
        let _ = converse(&mut stream, &|asked| Some(whole(asked)));
    });
    let mut patient = to(address);
    patient.timeout = Duration::from_secs(5);
    let rows = send(patient, &payload(), &requests(2));
    assert!(rows.iter().all(|row| row.outcome.is_complete()), "{rows:?}");
}

#[test]
fn a_connection_that_ends_inside_an_answer_is_lost() {
    let address = plain(|asked| (asked.stream == 1).then(|| whole(asked)));
    // The second request of the connection gets no response; its second attempt is the first on a new connection.
    let rows = send(to(address), &payload(), &requests(2));
    assert!(rows.iter().all(|row| row.outcome.is_complete()), "{rows:?}");
    let address = plain(|_| None);
    let rows = send(to(address), &payload(), &requests(1));
    assert_eq!(rows[0].outcome.failure().unwrap().kind, FailureKind::ConnectionLost);
}

#[test]
fn an_http1_server_that_is_spoken_http2_to_is_malformed() {
    let server = crate::scripted::serve(Box::new(|_, stream| {
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
        crate::scripted::Keep::Open
    }));
    let rows = send(to(server.address), &payload(), &requests(1));
    let failure = rows[0].outcome.failure().unwrap();
    assert_eq!(failure.kind, FailureKind::Malformed, "{}", failure.message);
    assert!(failure.message.contains("HTTP/2"), "{}", failure.message);
}

#[test]
fn plain_http2_does_not_go_through_proxies() {
    let mut endpoint = to("127.0.0.1:1".parse().unwrap());
    endpoint.proxy = Some(Url::parse("http://127.0.0.1:3128").unwrap());
    let client = Client::new(endpoint, &payload(), &requests(1), ClientPlan::default(), SystemClock::start());
    assert!(matches!(client, Err(Error::Http2Proxy { .. })));
}
