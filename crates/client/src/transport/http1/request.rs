//! Encoding of requests.

use crate::endpoint::Headers;

const USER_AGENT: &str = concat!("tacho/", env!("CARGO_PKG_VERSION"));

pub(crate) fn request(method: &str, target: &str, host: &str, headers: &Headers, body: Option<&[u8]>) -> Vec<u8> {
    let mut headers = headers.clone();
    headers.set_default("Accept", "*/*");
    headers.set_default("Accept-Encoding", "gzip, deflate");
    headers.set_default("User-Agent", USER_AGENT);
    if let Some(body) = body {
        headers.set_default("Content-Length", &body.len().to_string());
        let default = if body.is_empty() { "application/octet-stream" } else { "application/json" };
        headers.set_default("Content-Type", default);
    }
    let mut out = Vec::with_capacity(256 + body.map_or(0, <[u8]>::len));
    let mut line = |parts: [&str; 4]| {
        for part in parts {
            out.extend_from_slice(part.as_bytes());
        }
    };
    line([method, " ", target, " HTTP/1.1\r\n"]);
    line(["Host", ": ", host, "\r\n"]);
    for (name, value) in headers.iter() {
        line([name, ": ", value, "\r\n"]);
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(body.unwrap_or_default());
    out
}

/// A request after its first two lines, the request line and the host.
pub(crate) fn after_host(request: &[u8]) -> &[u8] {
    let mut ends = memchr::memchr_iter(b'\n', request);
    &request[ends.nth(1).map_or(0, |at| at + 1)..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_what_aiohttp_writes() {
        let mut headers = Headers::default();
        headers.set("x-request-id", "r");
        headers.set("accept", "text/plain");
        let text = String::from_utf8(request("POST", "/p", "h:1", &headers, Some(b"{}"))).unwrap();
        let expected = format!(
            "POST /p HTTP/1.1\r\nHost: h:1\r\nx-request-id: r\r\naccept: text/plain\r\nAccept-Encoding: gzip, deflate\r\n\
             User-Agent: {USER_AGENT}\r\nContent-Length: 2\r\nContent-Type: application/json\r\n\r\n{{}}"
        );
        assert_eq!(text, expected);
    }
}
