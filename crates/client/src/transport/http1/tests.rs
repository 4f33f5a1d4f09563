//! Framings: complete, split and broken.

use proptest::prelude::*;

use super::*;

#[derive(Default)]
struct Collect(Vec<u8>, u16);

impl Sink for Collect {
    fn head(&mut self, head: &Head) {
        self.1 = head.status;
    }

    fn body(&mut self, bytes: &[u8]) -> bool {
        self.0.extend_from_slice(bytes);
        true
    }
}

fn read(reads: &[&[u8]]) -> (Result<(), Broken>, Vec<u8>, bool) {
    let mut reader = Reader::new();
    let mut sink = Collect::default();
    for bytes in reads {
        if let Err(broken) = reader.feed(bytes, &mut sink) {
            return (Err(broken), sink.0, false);
        }
    }
    let reusable = reader.reusable();
    (reader.end_of_input(), sink.0, reusable)
}

const CHUNKED: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
    5\r\nhello\r\n1;x=y\r\n \r\n005\r\nworld\r\n0\r\nX-T: 1\r\n\r\n";

#[test]
fn reads_every_framing() {
    assert_eq!(read(&[CHUNKED]), (Ok(()), b"hello world".to_vec(), true));
    let sized = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi";
    assert_eq!(read(&[sized]), (Ok(()), b"hi".to_vec(), false));
    assert_eq!(read(&[b"HTTP/1.0 200 OK\r\n\r\nto the end"]), (Ok(()), b"to the end".to_vec(), false));
    assert_eq!(read(&[b"HTTP/1.1 204 No Content\r\n\r\n"]), (Ok(()), vec![], false));
}

#[test]
fn notices_what_is_broken() {
    assert_eq!(read(&[&CHUNKED[..CHUNKED.len() - 2]]).0, Err(Broken::Incomplete));
    assert_eq!(read(&[b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhi"]).0, Err(Broken::Incomplete));
    assert_eq!(read(&[b"SSH-2.0-x\r\n\r\n"]).0, Err(Broken::Head));
    assert_eq!(read(&[b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz"]).0, Err(Broken::Chunk));
    assert_eq!(read(&[&vec![b'H'; MAX_HEAD + 1]]).0, Err(Broken::Head));
    let endless = b"HTTP/1.1 100 Continue\r\n\r\n".repeat(MAX_INFORMATIONAL as usize + 1);
    assert_eq!(read(&[&endless]).0, Err(Broken::Head));
    for length in ["+2", "-2", "2x", "0x2", "99999999999999999999999", "2, 3"] {
        let response = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\nhi");
        assert_eq!(read(&[response.as_bytes()]).0, Err(Broken::Head), "{length}");
    }
    for size in ["5 5", "5\r5", "5 x"] {
        let response = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{size}\r\n");
        assert_eq!(read(&[response.as_bytes()]).0, Err(Broken::Chunk), "{size:?}");
    }
    let two_lengths = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nhi";
    assert_eq!(read(&[two_lengths]).0, Err(Broken::Head));
}

#[test]
fn a_head_that_comes_byte_by_byte_costs_no_more_than_its_lines() {
    let head = format!("HTTP/1.1 200 OK\r\nX: {}\r\nContent-Length: 2\r\n\r\nhi", "x".repeat(MAX_HEAD - 100));
    let bytes: Vec<&[u8]> = head.as_bytes().chunks(1).collect();
    let begun = std::time::Instant::now();
    assert_eq!(read(&bytes).0, Ok(()));
    // Parsing it again for every byte would take minutes.
    assert!(begun.elapsed() < std::time::Duration::from_secs(5), "{:?}", begun.elapsed());
    let endless = vec![b'x'; MAX_HEAD];
    let endless: Vec<&[u8]> = [&b"HTTP/1.1 200 OK\r\nX: "[..]].into_iter().chain(endless.chunks(1)).collect();
    assert_eq!(read(&endless).0, Err(Broken::Head));
}

#[test]
fn what_stands_between_chunks_has_an_end() {
    let chunked = |rest: &[u8]| [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", rest].concat();
    let extension = chunked(&[b"1;", &vec![b'x'; 1 << 20][..]].concat());
    assert_eq!(read(&[&extension]).0, Err(Broken::ChunkLine));
    assert_eq!(read(&[&chunked(&vec![b'0'; 1 << 20])]).0, Err(Broken::ChunkLine));
    let trailers = chunked(&[b"0\r\n", "X-A: b\r\n".repeat(1 << 17).as_bytes()].concat());
    assert_eq!(read(&[&trailers]).0, Err(Broken::Trailer));
    let many = chunked(&[&b"1;a=b\r\nx\r\n".repeat(1 << 15)[..], b"0\r\n\r\n"].concat());
    assert_eq!(read(&[&many]).1.len(), 1 << 15);
}

#[test]
fn only_chunks_at_the_outside_are_chunks() {
    let response = |coding: &str| format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: {coding}\r\n\r\n1\r\nx\r\n0\r\n\r\n");
    for coding in ["chunked", "identity, Chunked", "x\r\nTransfer-Encoding: chunked"] {
        assert_eq!(read(&[response(coding).as_bytes()]).1, b"x", "{coding}");
    }
    for coding in ["chunked, identity", "notchunked", "chunked\r\nTransfer-Encoding: gzip"] {
        let (end, body, reusable) = read(&[response(coding).as_bytes()]);
        assert_eq!((end, &body[..], reusable), (Ok(()), &b"1\r\nx\r\n0\r\n\r\n"[..], false), "{coding}");
    }
}

proptest! {
    #[test]
    fn any_cutting_gives_the_same_body(cuts in prop::collection::vec(0..CHUNKED.len(), 0..9)) {
        let mut cuts = cuts;
        cuts.sort_unstable();
        cuts.push(CHUNKED.len());
        let mut start = 0;
        let reads: Vec<&[u8]> = cuts.iter().map(|&end| &CHUNKED[std::mem::replace(&mut start, end)..end]).collect();
        prop_assert_eq!(read(&reads), (Ok(()), b"hello world".to_vec(), true));
    }

    #[test]
    fn never_panics(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = read(&[&bytes]);
        let mut after_head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
        after_head.extend(bytes);
        let _ = read(&[&after_head]);
    }
}
