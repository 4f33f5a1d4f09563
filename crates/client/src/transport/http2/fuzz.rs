//! Fuzzes frames: an error or a response, never a panic or unbounded memory.

use tacho_testkit::fuzz;

use super::Http2;
use crate::fuzz::Received;
use crate::transport::http1::Reader;

const REQUEST: &[u8] = b"POST /v1/completions HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}";

fn frame(kind: u8, flags: u8, stream: u32, content: &[u8]) -> Vec<u8> {
    let length = content.len() as u32;
    let mut frame = length.to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend_from_slice(content);
    frame
}

#[test]
fn fuzz_http2() {
    let settings = frame(4, 0, 0, &[0, 3, 0, 0, 0, 100, 0, 5, 0, 0, 0x40, 0]);
    let acknowledged = frame(4, 1, 0, &[]);
    // Status 200 and a content type from the static table.
    let head = frame(1, 4, 1, &[0x88, 0x5f, 0x04, b'a', b'/', b'b', b'c']);
    let body = frame(0, 0, 1, b"data: {}\n\n");
    let last = frame(0, 1, 1, b"data: [DONE]\n\n");
    let whole = [&settings[..], &acknowledged, &head, &body, &last].concat();
    let refused = [&settings[..], &frame(3, 0, 1, &[0, 0, 0, 7])].concat();
    let gone =
        [&settings[..], &head, &frame(7, 0, 0, &[0, 0, 0, 1, 0, 0, 0, 0]), &frame(8, 0, 0, &[0, 0, 1, 0])].concat();
    let ping = [&settings[..], &frame(6, 0, 0, &[7; 8]), &head, &frame(1, 5, 1, &[0x40, 1, b'x', 1, b'y'])].concat();
    assert_eq!(response(&whole).map(|received| received.body.len()), Some(24), "the seed is a response");
    fuzz("http/2 frames", &[whole, refused, gone, ping], |bytes| drop(response(bytes)));
}

fn response(bytes: &[u8]) -> Option<Received> {
    let (mut http2, mut reader, mut received) = (Http2::new(false), Reader::new(), Received::default());
    http2.begin(REQUEST).ok()?;
    http2.drive();
    for piece in bytes.chunks(64) {
        http2.feed(piece, &mut reader, &mut received).ok()?;
    }
    reader.ended().then_some(received)
}
