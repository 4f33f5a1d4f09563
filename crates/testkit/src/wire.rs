//! The subset of HTTP/1.1 that tests need: received requests and hand-written responses.

use std::io::{BufRead, Write};

/// A received request.
#[derive(Debug, Clone)]
pub struct Seen {
    /// The request line.
    pub line: String,
    /// The headers in their order.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Seen {
    /// A header's value.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// `GET`, `POST` and so on.
    pub fn method(&self) -> &str {
        self.line.split(' ').next().unwrap_or_default()
    }

    /// The path.
    pub fn path(&self) -> &str {
        self.line.split(' ').nth(1).unwrap_or_default()
    }

    /// The body as JSON; null if it is not JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// The next request of a connection; `None` if it has ended.
pub fn read_request(reader: &mut impl BufRead) -> Option<Seen> {
    let mut line = String::new();
    if reader.read_line(&mut line).ok()? == 0 {
        return None;
    }
    let mut headers = Vec::new();
    loop {
        let mut header = Vec::new();
        reader.read_until(b'\n', &mut header).ok()?;
        let header = String::from_utf8_lossy(&header).trim_end().to_owned();
        if header.is_empty() {
            break;
        }
        let (name, value) = header.split_once(": ").unwrap_or((header.trim_end_matches(':'), ""));
        headers.push((name.to_owned(), value.to_owned()));
    }
    let length = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let mut body = vec![0; length.and_then(|(_, value)| value.parse().ok()).unwrap_or(0)];
    reader.read_exact(&mut body).ok()?;
    Some(Seen { line: line.trim_end().to_owned(), headers, body })
}

/// Writes a complete response.
pub fn write_plain(stream: &mut impl Write, status: u16, reason: &str, kind: &str, body: &[u8]) -> std::io::Result<()> {
    let length = body.len();
    write!(stream, "HTTP/1.1 {status} {reason}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n")?;
    stream.write_all(body)
}

/// Writes a streamed response in HTTP chunks. A disconnected reader is ignored.
pub fn write_stream(stream: &mut impl Write, events: &[&str]) {
    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    for event in events {
        let _ = write!(stream, "{:x}\r\n{event}\r\n", event.len());
    }
    let _ = stream.write_all(b"0\r\n\r\n");
}

/// The events of a short, complete completion.
pub const WHOLE: [&str; 3] = [
    "data: {\"choices\": [{\"index\": 0, \"text\": \"a\", \"finish_reason\": null}]}\n\n",
    "data: {\"choices\": [], \"usage\": {\"prompt_tokens\": 7, \"completion_tokens\": 1}}\n\n",
    "data: [DONE]\n\n",
];
