//! The subset of HTTP/1.1 that ranks use: requests and responses with a length, on persistent connections.

use std::io::{self, Read, Write};

use tacho_core::Secret;

const MAX_HEAD: usize = 16 << 10;
/// Maximum length of a body: more than the rows of 250 ms take.
const MAX_BODY: usize = 512 << 20;
/// Bytes to reserve before they have arrived.
const PIECE: usize = 1 << 20;

/// The head of a request. Its body is read once the sender is authenticated.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) path: String,
    pub(crate) token: String,
    size: usize,
    length: usize,
}

/// Reads the head of the next request on a connection; `None` if it was closed between two requests.
pub(crate) fn read_request(stream: &mut impl Read, buffer: &mut Vec<u8>) -> io::Result<Option<Head>> {
    let Some(size) = read_head(stream, buffer)? else { return Ok(None) };
    let mut slots = [httparse::EMPTY_HEADER; 32];
    let mut parsed = httparse::Request::new(&mut slots);
    parsed.parse(&buffer[..size]).map_err(io::Error::other)?;
    let length = content_length(parsed.headers)?;
    let token = header(parsed.headers, "authorization").unwrap_or_default();
    let token = token.strip_prefix("Bearer ").unwrap_or_default().to_owned();
    Ok(Some(Head { path: parsed.path.unwrap_or_default().to_owned(), token, size, length }))
}

impl Head {
    pub(crate) fn read_body(&self, stream: &mut impl Read, buffer: &mut Vec<u8>) -> io::Result<Vec<u8>> {
        read_body(stream, buffer, self.size, self.length)
    }
}

pub(crate) fn write_response(stream: &mut impl Write, status: u16, body: &[u8]) -> io::Result<()> {
    let reason = if status == 200 { "OK" } else { "Refused" };
    let head = format!("HTTP/1.1 {status} {reason}\r\nContent-Length: {}\r\n\r\n", body.len());
    stream.write_all(&[head.as_bytes(), body].concat())?;
    stream.flush()
}

pub(crate) fn write_request(
    stream: &mut impl Write,
    host: &str,
    path: &str,
    token: &Secret,
    body: &[u8],
) -> io::Result<()> {
    let token = token.expose();
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\nContent-Length: {length}\r\n\r\n"
    );
    stream.write_all(&[head.as_bytes(), body].concat())?;
    stream.flush()
}

pub(crate) fn read_response(stream: &mut impl Read, buffer: &mut Vec<u8>) -> io::Result<(u16, Vec<u8>)> {
    let gone = || io::Error::new(io::ErrorKind::UnexpectedEof, "the connection ended");
    let head_len = read_head(stream, buffer)?.ok_or_else(gone)?;
    let mut slots = [httparse::EMPTY_HEADER; 32];
    let mut parsed = httparse::Response::new(&mut slots);
    parsed.parse(&buffer[..head_len]).map_err(io::Error::other)?;
    let (status, length) = (parsed.code.unwrap_or(0), content_length(parsed.headers)?);
    Ok((status, read_body(stream, buffer, head_len, length)?))
}

/// Reads until the head is complete; returns its length.
fn read_head(stream: &mut impl Read, buffer: &mut Vec<u8>) -> io::Result<Option<usize>> {
    let mut piece = [0; 16 << 10];
    loop {
        if let Some(at) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            return Ok(Some(at + 4));
        }
        if buffer.len() > MAX_HEAD {
            return Err(io::Error::other("the head is too long"));
        }
        match stream.read(&mut piece)? {
            0 if buffer.is_empty() => return Ok(None),
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => buffer.extend_from_slice(&piece[..count]),
        }
    }
}

/// Reads until the body is complete, and leaves what follows it in the buffer.
fn read_body(stream: &mut impl Read, buffer: &mut Vec<u8>, head: usize, length: usize) -> io::Result<Vec<u8>> {
    let have = buffer.len().min(head + length);
    let mut body = Vec::with_capacity(length.min(PIECE));
    body.extend_from_slice(&buffer[head..have]);
    buffer.drain(..have);
    let missing = (length - body.len()) as u64;
    let read = stream.take(missing).read_to_end(&mut body)?;
    if read as u64 == missing { Ok(body) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

fn header<'h>(headers: &[httparse::Header<'h>], name: &str) -> Option<&'h str> {
    let found = headers.iter().find(|header| header.name.eq_ignore_ascii_case(name))?;
    std::str::from_utf8(found.value).ok()
}

fn content_length(headers: &[httparse::Header<'_>]) -> io::Result<usize> {
    let length = header(headers, "content-length").unwrap_or("0").parse().ok();
    length
        .filter(|&length| length <= MAX_BODY)
        .ok_or_else(|| io::Error::other("the body is too long, or has no valid length"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(input: &mut &[u8], buffer: &mut Vec<u8>) -> io::Result<Option<(Head, Vec<u8>)>> {
        let Some(head) = read_request(input, buffer)? else { return Ok(None) };
        let body = head.read_body(input, buffer)?;
        Ok(Some((head, body)))
    }

    #[test]
    fn requests_and_responses_share_a_connection() {
        let mut wire = Vec::new();
        write_request(&mut wire, "h:1", "/a", &Secret::new("t"), b"one").unwrap();
        write_request(&mut wire, "h:1", "/b", &Secret::new("t"), b"").unwrap();
        let (mut input, mut buffer) = (&wire[..], Vec::new());
        let (head, body) = next(&mut input, &mut buffer).unwrap().unwrap();
        assert_eq!((head.path.as_str(), head.token.as_str(), &body[..]), ("/a", "t", &b"one"[..]));
        assert_eq!(next(&mut input, &mut buffer).unwrap().unwrap().0.path, "/b");
        assert!(next(&mut input, &mut buffer).unwrap().is_none());
        let mut wire = Vec::new();
        write_response(&mut wire, 409, b"no").unwrap();
        assert_eq!(read_response(&mut &wire[..], &mut Vec::new()).unwrap(), (409, b"no".to_vec()));
    }

    #[test]
    fn oversized_and_truncated_messages_are_errors() {
        let mut long = &b"POST / HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n"[..];
        assert!(next(&mut long, &mut Vec::new()).is_err());
        let mut cut = &b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\nabc"[..];
        assert!(next(&mut cut, &mut Vec::new()).is_err());
        let endless = vec![b'x'; MAX_HEAD * 2];
        assert!(next(&mut &endless[..], &mut Vec::new()).is_err());
    }
}
