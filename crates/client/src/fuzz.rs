//! Fuzzes responses and URLs: an error or a value, never a panic, an abort or unbounded memory, and the same result for
//! any split of the bytes. `TACHO_FUZZ_COUNT=1000000 cargo test --release -p tacho-client fuzz -- --nocapture
//! --test-threads=1` tries a million inputs of each kind on all cores.

use std::io::Write;

use tacho_testkit::{Counted, fuzz};

use crate::transport::http1::{Broken, Head, Reader, Sink};
use crate::websocket::{Message, Reader as MessageReader};
use crate::{Url, backends::Flow, endpoint::proxy_for, transport::inflate::Inflate};

#[global_allocator]
static COUNTED: Counted = Counted;

#[derive(Debug, Default, PartialEq)]
pub(crate) struct Received {
    pub(crate) heads: Vec<Head>,
    pub(crate) body: Vec<u8>,
}

impl Sink for Received {
    fn head(&mut self, head: &Head) {
        self.heads.push(head.clone());
    }

    fn body(&mut self, bytes: &[u8]) -> bool {
        self.body.extend_from_slice(bytes);
        true
    }
}

fn read(pieces: &[&[u8]]) -> (Result<bool, Broken>, Received) {
    let (mut reader, mut received) = (Reader::new(), Received::default());
    for piece in pieces {
        if let Err(broken) = reader.feed(piece, &mut received) {
            return (Err(broken), received);
        }
    }
    (Ok(reader.ended()), received)
}

#[test]
fn fuzz_http1() {
    let good = [
        &b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: keep-alive, x\r\n\r\nhello"[..],
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n1A\r\nabcdefghijklmnopqrstuvwxyz\r\n0\r\nT: x\r\n\r\n",
        b"HTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 404 Not\r\nTransfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.0 204 No\r\nContent-Length: 3, 3\r\nContent-Encoding: gzip\r\nLocation: /x\r\n\r\n",
    ];
    fuzz("http/1 responses", &good, |bytes| {
        let whole = read(&[bytes]);
        let bytewise: Vec<&[u8]> = bytes.chunks(1).collect();
        // A head that is too long is detected earlier if it arrives in pieces.
        if whole.0 != Err(Broken::Head) {
            assert_eq!(read(&bytewise), whole);
        }
    });
}

#[test]
fn fuzz_compressed_answers() {
    let text = b"data: {\"choices\": [{\"text\": \"a\"}]}\n\n".repeat(20);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&text).unwrap();
    let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    zlib.write_all(&text).unwrap();
    let good = [gzip.finish().unwrap(), zlib.finish().unwrap()];
    fuzz("compressed responses", &good, |bytes| {
        for coding in ["gzip", "deflate"] {
            let mut inflate = Inflate::for_encoding(coding).unwrap();
            let mut length = 0;
            let _ = inflate.feed(bytes, &mut |piece| {
                length += piece.len();
                length < 1 << 24
            });
            let _ = inflate.finish();
        }
    });
}

/// The messages of a WebSocket, and whether it is intact.
fn messages(pieces: &[&[u8]]) -> (bool, Vec<String>) {
    let (mut reader, mut all) = (MessageReader::default(), Vec::new());
    let mut keep = |message: Message<'_>| {
        all.push(format!("{message:?}"));
        Ok(Flow::Continue)
    };
    let intact = pieces.iter().all(|piece| reader.feed(piece, &mut keep).is_ok());
    (intact, all)
}

#[test]
fn fuzz_websockets() {
    let long = [&[0x81, 126, 1, 0][..], &[b'x'; 256]].concat();
    let good = [
        &b"\x81\x05hello\x89\x02ab\x01\x03one\x80\x03two\x88\x05\x03\xe8bye"[..],
        b"\x81\x7f\0\0\0\0\0\0\0\x02{}\x8a\0\x81\0",
        &long,
    ];
    assert_eq!(messages(&[good[0]]).1.len(), 4);
    fuzz("websocket messages", &good, |bytes| {
        let bytewise: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(messages(&bytewise), messages(&[bytes]));
    });
}

#[test]
fn fuzz_urls() {
    let good = [
        &b"http://user:pw@h\xc3\xbcst.example:8000/v1/a%20b?key=x#f"[..],
        b"https://[fe80::1%25eth0]:65535/",
        b"unix:///tmp/s.sock:/v1",
        b"localhost:80",
    ];
    fuzz("urls", &good, |bytes| {
        let text = String::from_utf8_lossy(bytes);
        let Ok(url) = Url::parse(&text) else { return };
        let _ = (url.host_header(), url.authority(), url.peer(), url.origin(), url.with_path("/v1").to_string());
        let _ = proxy_for(&url, &|name| (name == "no_proxy").then(|| text.clone().into_owned())).is_ok();
    });
}
