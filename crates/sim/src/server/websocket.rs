//! The server's side of a WebSocket (RFC 6455), written for itself: sharing it with the client would hide mistakes.

use std::io;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use hyper::HeaderMap;
use hyper::header::{CONNECTION, HeaderName, HeaderValue, UPGRADE};
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use tokio::io::{AsyncRead, AsyncReadExt};

const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/// Longest frame; audio comes in small ones.
const MAX_FRAME: u64 = 16 << 20;

pub(crate) const TEXT: u8 = 1;
pub(crate) const CLOSE: u8 = 8;
pub(crate) const PING: u8 = 9;
pub(crate) const PONG: u8 = 10;

/// The headers of the response to a handshake; `None` if the request is not one.
pub(crate) fn accept(request: &HeaderMap) -> Option<[(HeaderName, HeaderValue); 3]> {
    let text = |name: &str| request.get(name).and_then(|value| value.to_str().ok());
    let is_handshake =
        text("upgrade")?.eq_ignore_ascii_case("websocket") && text("sec-websocket-version") == Some("13");
    let key = text("sec-websocket-key").filter(|_| is_handshake)?;
    let hash = digest(&SHA1_FOR_LEGACY_USE_ONLY, &[key.as_bytes(), GUID].concat());
    let response = STANDARD.encode(hash);
    Some([
        (UPGRADE, HeaderValue::from_static("websocket")),
        (CONNECTION, HeaderValue::from_static("Upgrade")),
        (HeaderName::from_static("sec-websocket-accept"), HeaderValue::from_str(&response).ok()?),
    ])
}

/// A frame of a server, which is not masked.
pub(crate) fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![0x80 | kind];
    match payload.len() {
        length @ 0..=125 => out.push(length as u8),
        length => {
            out.push(126);
            out.extend((length as u16).to_be_bytes());
        }
    }
    out.extend_from_slice(payload);
    out
}

/// Reads the next frame; messages in fragments are not simulated.
pub(crate) async fn read(from: &mut (impl AsyncRead + Unpin)) -> io::Result<(u8, Vec<u8>)> {
    let mut head = [0; 2];
    from.read_exact(&mut head).await?;
    let length = match head[1] & 0x7f {
        126 => u64::from(from.read_u16().await?),
        127 => from.read_u64().await?,
        length => u64::from(length),
    };
    let is_whole = head[0] & 0xf0 == 0x80 && head[1] & 0x80 != 0 && length <= MAX_FRAME;
    if !is_whole {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut mask = [0; 4];
    from.read_exact(&mut mask).await?;
    let mut payload = vec![0; length as usize];
    from.read_exact(&mut payload).await?;
    payload.iter_mut().zip(mask.iter().cycle()).for_each(|(byte, mask)| *byte ^= mask);
    Ok((head[0] & 0x0f, payload))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handshakes_are_answered_as_the_standard_shows() {
        let mut headers = HeaderMap::new();
        let handshake = [
            ("upgrade", "WebSocket"),
            ("sec-websocket-version", "13"),
            ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ];
        for (name, value) in handshake {
            assert!(accept(&headers).is_none());
            headers.insert(name, HeaderValue::from_static(value));
        }
        let response = accept(&headers).unwrap();
        assert_eq!(response[2].1, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }
}
