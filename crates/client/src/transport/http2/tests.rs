//! A connection without a socket: any cutting of the bytes, any bytes at all, every way an answer can end.

use proptest::prelude::*;

use super::connection::Http2;
use super::frame::{Frames, Header, Kind, Piece, flags, put};
use crate::transport::http1::{Broken, Head, Reader, Sink};

const REQUEST: &[u8] = b"POST /v1 HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}";

#[derive(Debug, Default, PartialEq)]
struct Collect {
    statuses: Vec<u16>,
    content_type: Option<String>,
    body: Vec<u8>,
}

impl Sink for Collect {
    fn head(&mut self, head: &Head) {
        self.statuses.push(head.status);
        self.content_type = head.content_type.clone();
    }

    fn body(&mut self, bytes: &[u8]) -> bool {
        self.body.extend_from_slice(bytes);
        true
    }
}

/// What came of some reads: the verdict, the answer, whether it is whole, what the server was told.
type Heard = (Result<(), Broken>, Collect, bool, Vec<(Header, Vec<u8>)>);

fn hear(reads: &[&[u8]]) -> Heard {
    let mut http2 = Http2::new(false);
    let mut written = 0;
    http2.output(REQUEST, &mut written);
    let (mut reader, mut sink) = (Reader::new(), Collect::default());
    let mut result = Ok(());
    for bytes in reads {
        result = result.and_then(|()| http2.feed(bytes, &mut reader, &mut sink));
    }
    let told = frames(&http2.output(REQUEST, &mut written));
    (result, sink, reader.ended(), told)
}

fn frames(mut bytes: &[u8]) -> Vec<(Header, Vec<u8>)> {
    let mut frames = Frames::new();
    let mut found = Vec::new();
    let mut body = Vec::new();
    while let Some(piece) = frames.next(&mut bytes).unwrap() {
        match piece {
            Piece::Body(_, bytes) => body.extend_from_slice(bytes),
            Piece::BodyFrame(header) => found.push((header, std::mem::take(&mut body))),
            Piece::Frame(header, payload) => found.push((header, payload.to_vec())),
        }
    }
    found
}

fn frame(kind: Kind, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    put(kind, flags, stream, payload, &mut out);
    out
}

/// Status 200 and a content type, the latter put into the table.
const HEAD: &[u8] = b"\x88\x5f\x0atext/plain";

/// An answer with everything that may come along.
fn answer() -> Vec<u8> {
    [
        frame(Kind::Settings, 0, 0, &[0, 4, 0, 1, 0, 0, 0, 3, 0, 0, 0, 100]),
        frame(Kind::Settings, flags::ACK, 0, &[]),
        frame(Kind::WindowUpdate, 0, 0, &1000_u32.to_be_bytes()),
        // 103, in a block of its own.
        frame(Kind::Headers, flags::END_HEADERS, 1, b"\x08\x03103"),
        frame(
            Kind::Headers,
            flags::PADDED | flags::PRIORITY,
            1,
            &[&[2, 0, 0, 0, 0, 16][..], &HEAD[..3], b"\0\0"].concat(),
        ),
        frame(Kind::Continuation, 0, 1, &HEAD[3..6]),
        frame(Kind::Continuation, flags::END_HEADERS, 1, &HEAD[6..]),
        frame(Kind::Data, 0, 1, b"hello"),
        frame(Kind::Ping, 0, 0, b"12345678"),
        frame(Kind::Data, flags::PADDED, 1, b"\x03 wor\0\0\0"),
        frame(Kind::Other, 0xff, 77, b"whatever"),
        frame(Kind::Data, 0, 1, b""),
        frame(Kind::Data, 0, 1, b"ld"),
        // Trailers, from the table.
        frame(Kind::Headers, flags::END_HEADERS | flags::END_STREAM, 1, b"\xbe"),
    ]
    .concat()
}

#[test]
fn an_answer_is_read_and_the_server_answered() {
    let (result, sink, ended, told) = hear(&[&answer()]);
    assert_eq!((result, ended), (Ok(()), true));
    let expected =
        Collect { statuses: vec![200], content_type: Some("text/plain".into()), body: b"hello world".to_vec() };
    assert_eq!(sink, expected);
    let header = |kind, length| Header { length, kind, flags: flags::ACK, stream: 0 };
    assert_eq!(told, [(header(Kind::Settings, 0), vec![]), (header(Kind::Ping, 8), b"12345678".to_vec())]);
}

#[test]
fn a_connection_begins_with_its_preface_and_carries_stream_after_stream() {
    let mut http2 = Http2::new(true);
    let mut written = 0;
    let bytes = http2.output(REQUEST, &mut written);
    assert_eq!(written, REQUEST.len());
    let sent = frames(bytes.strip_prefix(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap());
    let kinds: Vec<_> = sent.iter().map(|(header, _)| (header.kind, header.flags, header.stream)).collect();
    let expected = [
        (Kind::Settings, 0, 0),
        (Kind::WindowUpdate, 0, 0),
        (Kind::Headers, flags::END_HEADERS, 1),
        (Kind::Data, flags::END_STREAM, 1),
    ];
    assert_eq!(kinds, expected);
    assert_eq!(sent[3].1, b"{}");
    let mut reader = Reader::new();
    let end = flags::END_HEADERS | flags::END_STREAM;
    http2.feed(&frame(Kind::Headers, end, 1, b"\x88"), &mut reader, &mut Collect::default()).unwrap();
    assert!(reader.reusable());
    let get = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n";
    let sent = frames(&http2.output(get, &mut 0));
    assert_eq!((sent.len(), sent[0].0.flags, sent[0].0.stream), (1, end, 3));
}

#[test]
fn a_body_waits_for_the_servers_windows() {
    let request = [b"POST / HTTP/1.1\r\nHost: h\r\n\r\n", &vec![b'x'; 200_000][..]].concat();
    let mut http2 = Http2::new(false);
    let (mut written, mut reader, mut sink) = (0, Reader::new(), Collect::default());
    let mut body = Vec::new();
    let mut collect = |bytes: &[u8]| {
        let before = body.len();
        body.extend(
            frames(bytes).into_iter().filter(|(header, _)| header.kind == Kind::Data).flat_map(|(_, part)| part),
        );
        body.len() - before
    };
    let first = http2.output(&request, &mut written);
    collect(&first[24..]);
    while collect(&http2.output(&request, &mut written)) > 0 {}
    assert_eq!(written, request.len() - 200_000 + 65_535);
    let mut open = |http2: &mut Http2, bytes: Vec<u8>| http2.feed(&bytes, &mut reader, &mut sink).unwrap();
    open(&mut http2, frame(Kind::WindowUpdate, 0, 0, &1_000_000_u32.to_be_bytes()));
    assert_eq!(collect(&http2.output(&request, &mut written)), 0, "the stream's own window is still shut");
    open(&mut http2, frame(Kind::Settings, 0, 0, &[0, 4, 0, 1, 0, 0x10]));
    assert_eq!(collect(&http2.output(&request, &mut written)), 0x1_0010 - 65_535);
    open(&mut http2, frame(Kind::WindowUpdate, 0, 1, &1_000_000_u32.to_be_bytes()));
    while collect(&http2.output(&request, &mut written)) > 0 {}
    assert_eq!((written, body.len()), (request.len(), 200_000));
}

#[test]
fn answers_end_badly_in_ways_that_are_told_apart() {
    let head = frame(Kind::Headers, flags::END_HEADERS, 1, b"\x88");
    let after_head = |frame: Vec<u8>| hear(&[&head, &frame]).0;
    assert_eq!(after_head(frame(Kind::Reset, 0, 1, &2_u32.to_be_bytes())), Err(Broken::Reset(2)));
    assert_eq!(after_head(frame(Kind::Reset, 0, 9, &2_u32.to_be_bytes())), Ok(()));
    assert_eq!(after_head(frame(Kind::GoAway, 0, 0, &[0, 0, 0, 0, 0, 0, 0, 11])), Err(Broken::GoneAway(11)));
    assert_eq!(after_head(frame(Kind::GoAway, 0, 0, &[0, 0, 0, 1, 0, 0, 0, 0, b'x'])), Ok(()));
    for broken in [
        frame(Kind::PushPromise, 0, 1, &[0; 8]),
        frame(Kind::Continuation, 0, 1, b""),
        frame(Kind::Ping, 0, 0, b"short"),
        frame(Kind::Settings, 0, 0, b"short"),
        frame(Kind::Settings, 0, 0, &[0, 4, 0xff, 0, 0, 0]),
        frame(Kind::WindowUpdate, 0, 0, &[0; 4]),
        frame(Kind::WindowUpdate, 0, 1, &[0x7f, 0xff, 0xff, 0xff]),
        frame(Kind::Headers, flags::END_HEADERS, 1, b"\x88"),
        frame(Kind::Headers, flags::PADDED, 1, b"\x05"),
        frame(Kind::Headers, flags::END_HEADERS, 1, b"\xff"),
        frame(Kind::Data, flags::PADDED, 1, b"\x05hi"),
        frame(Kind::Data, 0, 0, b"hi"),
        [frame(Kind::Headers, 0, 1, b"\x88"), frame(Kind::Ping, 0, 0, b"12345678")].concat(),
        vec![0xff; 9],
    ] {
        assert!(matches!(after_head(broken.clone()), Err(Broken::Http2(_))), "{broken:?}");
    }
    assert!(matches!(hear(&[&frame(Kind::Data, 0, 1, b"hi")]).0, Err(Broken::Http2(_))));
    assert!(matches!(hear(&[b"HTTP/1.1 400 Bad Request\r\n\r\n"]).0, Err(Broken::Http2(_))));
}

#[test]
fn refusals_are_known_as_such_and_farewells_end_the_reuse() {
    let mut http2 = Http2::new(false);
    http2.output(REQUEST, &mut 0);
    let refusal = frame(Kind::Reset, 0, 1, &7_u32.to_be_bytes());
    http2.feed(&refusal, &mut Reader::new(), &mut Collect::default()).unwrap_err();
    assert!(http2.has_refused() && !http2.is_going_away());
    let farewell = frame(Kind::GoAway, 0, 0, &[0; 8]);
    http2.feed(&farewell, &mut Reader::new(), &mut Collect::default()).unwrap();
    assert!(http2.is_going_away());
}

#[test]
fn endless_questions_end_the_connection() {
    let pings = frame(Kind::Ping, 0, 0, b"12345678").repeat(100_000);
    assert!(matches!(hear(&[&pings]).0, Err(Broken::Http2(_))));
}

fn some_frames() -> impl Strategy<Value = Vec<u8>> {
    let kind = prop::sample::select(vec![
        Kind::Data,
        Kind::Headers,
        Kind::Reset,
        Kind::Settings,
        Kind::Ping,
        Kind::GoAway,
        Kind::WindowUpdate,
        Kind::Continuation,
    ]);
    let one = (kind, any::<u8>(), 0..4_u32, prop::collection::vec(any::<u8>(), 0..20));
    let frame = one.prop_map(|(kind, flags, stream, payload)| frame(kind, flags, stream, &payload));
    prop::collection::vec(frame, 0..12).prop_map(|frames| frames.concat())
}

proptest! {
    #[test]
    fn any_cutting_gives_the_same_answer(cuts in prop::collection::vec(0..10_000_usize, 0..12)) {
        let bytes = answer();
        let mut at: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
        at.sort_unstable();
        at.push(bytes.len());
        let mut start = 0;
        let reads: Vec<&[u8]> = at.iter().map(|&end| &bytes[std::mem::replace(&mut start, end)..end]).collect();
        prop_assert_eq!(hear(&reads), hear(&[&bytes]));
        prop_assert_eq!(hear(&bytes.chunks(1).collect::<Vec<_>>()), hear(&[&bytes]));
    }

    #[test]
    fn never_panics(bytes in prop::collection::vec(any::<u8>(), 0..300), frames in some_frames()) {
        let _ = hear(&[&bytes]);
        let _ = hear(&[&frames]);
        let whole = answer();
        let _ = hear(&[&whole[..bytes.len().min(whole.len())], &frames]);
    }

    #[test]
    fn broken_frames_are_broken_however_they_are_cut(frames in some_frames()) {
        let whole = hear(&[&frames]);
        let bytewise = hear(&frames.chunks(1).collect::<Vec<_>>());
        prop_assert_eq!((whole.0, whole.1, whole.2), (bytewise.0, bytewise.1, bytewise.2));
    }
}
