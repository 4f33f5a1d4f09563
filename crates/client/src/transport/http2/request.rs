//! A request's head for HTTP/2, out of the bytes that HTTP/1.1 would send. Which of the two a connection speaks is known
//! only when it is open, and requests are written out long before.

use super::hpack;

/// The header block of a request, and where its body begins.
pub(super) fn head(request: &[u8], scheme: &str) -> (Vec<u8>, usize) {
    let mut slots = [httparse::EMPTY_HEADER; 256];
    let mut parsed = httparse::Request::new(&mut slots);
    let body_at = match parsed.parse(request) {
        Ok(httparse::Status::Complete(length)) => length,
        // What we wrote ourselves has a head, unless it has more headers than anyone would accept.
        _ => return (Vec::new(), request.len()),
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let host = parsed.headers.iter().find(|header| header.name.eq_ignore_ascii_case("host"));
    let mut block = Vec::with_capacity(256);
    hpack::encode(":method", parsed.method.unwrap_or_default(), &mut block);
    hpack::encode(":scheme", scheme, &mut block);
    hpack::encode(":authority", &host.map(|host| text(host.value)).unwrap_or_default(), &mut block);
    hpack::encode(":path", parsed.path.unwrap_or_default(), &mut block);
    for header in parsed.headers.iter() {
        let name = header.name.to_ascii_lowercase();
        // These are about HTTP/1.1 connections and must not be passed on.
        if !matches!(
            name.as_str(),
            "host" | "connection" | "keep-alive" | "proxy-connection" | "transfer-encoding" | "upgrade"
        ) {
            hpack::encode(&name, &text(header.value), &mut block);
        }
    }
    (block, body_at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_translated() {
        let request = b"POST /v1 HTTP/1.1\r\nHost: h:1\r\nConnection: close\r\nX-Id: R\r\nContent-Length: 2\r\n\r\n{}";
        let (block, body_at) = head(request, "https");
        assert_eq!(&request[body_at..], b"{}");
        let mut headers = Vec::new();
        let mut note = |name: &[u8], value: &[u8]| {
            headers.push(format!("{}: {}", String::from_utf8_lossy(name), String::from_utf8_lossy(value)));
        };
        hpack::Decoder::new().decode(&block, &mut note).unwrap();
        let expected =
            [":method: POST", ":scheme: https", ":authority: h:1", ":path: /v1", "x-id: R", "content-length: 2"];
        assert_eq!(headers, expected);
    }
}
