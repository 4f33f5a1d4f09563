//! Transcription over a WebSocket: what is sent, when, and what becomes of a server that breaks the protocol.

use std::io::{Read, Write};
use std::sync::mpsc::{Receiver, channel};
use std::{net::TcpStream, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use tacho_client::{BackendKind, PayloadSpec, Rules};
use tacho_core::json::{Dict, Value, parse};
use tacho_core::{FailureKind, Observation, Outcome, Request};

use crate::scripted::{Keep, Script, Scripted, Seen, serve};
use crate::wire::{endpoint, send};

const CREATED: &str = r#"{"type":"session.created","id":"s"}"#;
const DONE: &str = r#"{"type":"transcription.done","text":" a b","usage":{"prompt_tokens":9,"completion_tokens":5}}"#;

/// The response to the handshake.
fn accept(seen: &Seen, stream: &mut TcpStream) {
    let key = format!("{}258EAFA5-E914-47DA-95CA-C5AB0DC85B11", seen.header("sec-websocket-key").unwrap());
    let hash = ring::digest::digest(&ring::digest::SHA1_FOR_LEGACY_USE_ONLY, key.as_bytes());
    let accept = STANDARD.encode(hash);
    write!(stream, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {accept}\r\n\r\n").unwrap();
}

fn text(stream: &mut TcpStream, message: &str) {
    stream.write_all(&[&[0x81, message.len() as u8][..], message.as_bytes()].concat()).unwrap();
}

/// The next frame of the client: its kind and its unmasked payload.
fn frame(stream: &mut TcpStream) -> Option<(u8, Vec<u8>)> {
    let mut head = [0; 2];
    stream.read_exact(&mut head).ok()?;
    assert!(head[1] & 0x80 != 0, "frames of clients are masked");
    let mut length = usize::from(head[1] & 0x7f);
    if length == 126 {
        let mut long = [0; 2];
        stream.read_exact(&mut long).ok()?;
        length = usize::from(u16::from_be_bytes(long));
    }
    let mut mask = [0; 4];
    stream.read_exact(&mut mask).ok()?;
    let mut payload = vec![0; length];
    stream.read_exact(&mut payload).ok()?;
    payload.iter_mut().zip(mask.iter().cycle()).for_each(|(byte, mask)| *byte ^= mask);
    Some((head[0] & 0x0f, payload))
}

/// A clip of silence at 16 kHz.
fn clip(samples: usize) -> Request {
    let mut media = Dict::new();
    media.set("audio", vec![Value::List(vec![Value::Int(0); samples]), Value::Int(16_000)]);
    Request { media: Some(media.into()), ..Request::text("", 1, 8) }
}

fn transcribe(server: &Scripted, speed: f64, samples: usize) -> Observation {
    let endpoint = endpoint(&format!("{}/v1/realtime", server.url()), BackendKind::OpenAiRealtime, Rules::Standard);
    let payload = PayloadSpec { model: "m".into(), audio_speed: Some(speed), ..PayloadSpec::default() };
    send(endpoint, &payload, &[clip(samples)]).remove(0)
}

/// What a server does after the handshake.
type Then = fn(&mut TcpStream);

/// A server that accepts the WebSocket, then acts, then closes the connection.
fn after_handshake(then: Then) -> Scripted {
    let script: Script = Box::new(move |seen, stream| {
        accept(seen, stream);
        then(stream);
        Keep::Close
    });
    serve(script)
}

/// A server that listens to the end and answers; it passes on the frames that it received.
fn listening() -> (Scripted, Receiver<(u8, Vec<u8>)>) {
    let (sender, frames) = channel();
    let script: Script = Box::new(move |seen, stream| {
        accept(seen, stream);
        text(stream, CREATED);
        // A ping between the fragments of a message.
        stream.write_all(b"\x01\x0a{\"type\":\"x\x89\x02hi\x80\x02\"}").unwrap();
        while let Some((kind, payload)) = frame(stream) {
            let is_last = payload.ends_with(b"\"final\": true}");
            sender.send((kind, payload)).unwrap();
            if is_last {
                for delta in ["", " a", "", " b"] {
                    text(stream, &format!(r#"{{"type":"transcription.delta","delta":"{delta}"}}"#));
                }
                text(stream, DONE);
            }
        }
        Keep::Close
    });
    (serve(script), frames)
}

#[test]
fn audio_is_sent_in_chunks_and_text_is_timed() {
    let (server, frames) = listening();
    let row = transcribe(&server, f64::INFINITY, 5000);
    assert_eq!(row.outcome, Outcome::Complete);
    assert_eq!((row.text.as_slice(), row.chunks.len(), row.text_ends), (&b" a b"[..], 2, vec![2, 4]));
    assert_eq!((row.usage.prompt_tokens, row.usage.completion_tokens), (Some(9), Some(5)));
    let seen = server.seen.recv().unwrap();
    assert_eq!((seen.line.as_str(), seen.header("content-length")), ("GET /v1/realtime HTTP/1.1", None));
    let mut all = Vec::new();
    while all.last().is_none_or(|(kind, _)| *kind != 8) {
        all.push(frames.recv_timeout(Duration::from_secs(20)).expect("the client closes the WebSocket"));
    }
    let frames = all;
    let events: Vec<Value> = frames
        .iter()
        .filter(|(kind, _)| *kind == 1)
        .map(|(_, payload)| parse(std::str::from_utf8(payload).unwrap()).unwrap())
        .collect();
    let member = |at: usize, name: &str| events[at].get(name).and_then(Value::as_str).map(str::to_owned);
    assert_eq!((member(0, "type").as_deref(), member(0, "model").as_deref()), (Some("session.update"), Some("m")));
    assert_eq!((member(1, "type").as_deref(), events[1].get("final")), (Some("input_audio_buffer.commit"), None));
    let sizes: Vec<usize> = (2..5).map(|at| STANDARD.decode(member(at, "audio").unwrap()).unwrap().len()).collect();
    assert_eq!((sizes, events.len()), (vec![4096, 4096, 1808], 6));
    assert!(frames.contains(&(10, b"hi".to_vec())), "the ping is answered");
    assert_eq!(frames.last(), Some(&(8, vec![3, 232])), "the connection is closed in order");
}

#[test]
fn audio_is_sent_at_its_own_speed() {
    let (server, _frames) = listening();
    // 0.3125 s of audio.
    let row = transcribe(&server, 2.5, 5000);
    let end = row.input_end.unwrap().since(row.sent);
    assert!(end >= Duration::from_millis(125) && end < Duration::from_secs(2), "{end:?}");
    assert!(row.chunks[0] > row.input_end.unwrap() && row.connect_ns < end.as_nanos() as u64);
}

#[test]
fn a_server_that_breaks_the_protocol_is_a_failed_request() {
    let cases: [(Then, FailureKind, &str); 7] = [
        (
            |stream| text(stream, r#"{"type":"error","error":"The model `m` does not exist."}"#),
            FailureKind::ErrorInStream,
            "The model `m`",
        ),
        (|stream| stream.write_all(b"\x81\x81abcde").unwrap(), FailureKind::Malformed, "a frame is masked"),
        (|stream| text(stream, "hello"), FailureKind::Malformed, "an event is not JSON: hello"),
        (
            |stream| stream.write_all(b"\x88\x06\x03\xf3oops").unwrap(),
            FailureKind::Truncated,
            "closed the WebSocket with status 1011, \"oops\" before transcription.done",
        ),
        (|_| {}, FailureKind::Truncated, "ended without transcription.done after 0 texts"),
        (|stream| text(stream, DONE), FailureKind::Truncated, "before all of the audio was sent"),
        (
            |stream| {
                text(stream, CREATED);
                while frame(stream).is_some_and(|(_, payload)| !payload.ends_with(b"\"final\": true}")) {}
                text(stream, r#"{"type":"transcription.done","text":""}"#);
            },
            FailureKind::Empty,
            "without any text",
        ),
    ];
    for (then, kind, message) in cases {
        let row = transcribe(&after_handshake(then), f64::INFINITY, 100);
        let failure = row.outcome.failure().unwrap_or_else(|| panic!("{message}"));
        assert_eq!(failure.kind, kind, "{failure:?}");
        assert!(failure.message.contains(message), "{failure:?}");
    }
}

#[test]
fn a_server_without_websockets_is_a_failed_request() {
    let plain = |head: &'static str| {
        let script: Script = Box::new(move |_, stream| {
            stream.write_all(head.as_bytes()).unwrap();
            Keep::Close
        });
        transcribe(&serve(script), 1.0, 100).outcome.failure().unwrap().clone()
    };
    let missing = plain("HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnone");
    assert_eq!((missing.kind, missing.message.as_str()), (FailureKind::Http(404), "Not Found (404): none"));
    let wrong = plain("HTTP/1.1 101 Ok\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: x\r\n\r\n\x01");
    assert!(wrong.message.contains("Sec-WebSocket-Accept"), "{wrong:?}");
}

#[test]
fn audio_that_cannot_be_sent_is_refused() {
    let path = std::env::temp_dir().join(format!("tacho-realtime-{}.mp3", std::process::id()));
    std::fs::write(&path, b"ID3").unwrap();
    let mut media = Dict::new();
    media.set("audio_path", path.to_str().unwrap());
    let request = Request { media: Some(media.into()), ..Request::text("", 1, 8) };
    let body = |request: &Request| BackendKind::OpenAiRealtime.body(&PayloadSpec::default(), request).unwrap_err();
    assert!(body(&request).contains("convert it"));
    std::fs::remove_file(&path).unwrap();
    assert_eq!(body(&clip(0)), "its audio is empty");
}
