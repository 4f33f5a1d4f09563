//! The subset of HTTP/1.1 that tests need: received requests and hand-written responses.

use std::io::{BufRead, Write};

#[derive(Debug, Clone)]
pub struct Seen {
    pub line: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Seen {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    pub fn method(&self) -> &str {
        self.line.split(' ').next().unwrap_or_default()
    }

    pub fn path(&self) -> &str {
        self.line.split(' ').nth(1).unwrap_or_default()
    }

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

/// A frame of AWS's event stream, by its public specification: lengths, headers, payload, and two checksums.
pub fn aws_event(message_type: &str, name: &str, payload: &str) -> Vec<u8> {
    let key = if message_type == "event" { ":event-type" } else { ":exception-type" };
    let mut headers = Vec::new();
    for (key, value) in [(key, name), (":content-type", "application/json"), (":message-type", message_type)] {
        headers.push(key.len() as u8);
        headers.extend(key.bytes());
        headers.push(7);
        headers.extend((value.len() as u16).to_be_bytes());
        headers.extend(value.bytes());
    }
    let total = 12 + headers.len() + payload.len() + 4;
    let mut frame = Vec::with_capacity(total);
    frame.extend((total as u32).to_be_bytes());
    frame.extend((headers.len() as u32).to_be_bytes());
    frame.extend(crc32(&frame).to_be_bytes());
    frame.extend(headers);
    frame.extend(payload.bytes());
    frame.extend(crc32(&frame).to_be_bytes());
    frame
}

/// The checksum of Ethernet and zip, bit by bit.
fn crc32(bytes: &[u8]) -> u32 {
    let shift = |sum: u32, _| if sum & 1 == 1 { sum >> 1 ^ 0xedb8_8320 } else { sum >> 1 };
    !bytes.iter().fold(!0, |sum, &byte| (0..8).fold(sum ^ u32::from(byte), shift))
}
