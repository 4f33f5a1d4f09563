//! WebSocket (RFC 6455): the handshake's keys, the frames that a client sends, and the messages that it receives.

use std::hash::{BuildHasher, RandomState};

use tacho_core::{Failure, FailureKind};

use crate::{backends::Flow, base64};

/// What a server appends to the key before it hashes it (RFC 6455, section 1.3).
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Longest message; no real event is as long.
const MAX_MESSAGE: usize = 32 << 20;
/// Longest payload of a control frame (section 5.5).
const MAX_CONTROL: usize = 125;

/// Kinds of frames (section 5.2).
const CONTINUATION: u8 = 0;
pub(crate) const TEXT: u8 = 1;
pub(crate) const CLOSE: u8 = 8;
const PING: u8 = 9;
pub(crate) const PONG: u8 = 10;

/// A random key, and what the server must return for it.
pub(crate) fn key() -> (String, String) {
    let key = base64::encode([random(), random()].as_flattened());
    let accept = accept(&key);
    (key, accept)
}

fn accept(key: &str) -> String {
    let text = format!("{key}{GUID}");
    base64::encode(ring::digest::digest(&ring::digest::SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes()).as_ref())
}

/// Masks only keep scripts in browsers from writing chosen bytes, so that cheap random numbers do.
fn random() -> [u8; 8] {
    RandomState::new().hash_one(0).to_ne_bytes()
}

/// Appends a frame with a whole message, masked as those of clients must be.
pub(crate) fn push_frame(out: &mut Vec<u8>, kind: u8, payload: &[u8]) {
    out.push(0x80 | kind);
    match payload.len() {
        length @ 0..=125 => out.push(0x80 | length as u8),
        length @ 126..=0xffff => {
            out.push(0x80 | 126);
            out.extend_from_slice(&(length as u16).to_be_bytes());
        }
        length => {
            out.push(0x80 | 127);
            out.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
    let random = random();
    let mask = &random[..4];
    out.extend_from_slice(mask);
    out.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
}

/// Sets the masks of frames to zero, so that equal messages have equal bytes.
pub(crate) fn unmask(mut frames: &mut [u8]) {
    while let [_, length, ..] = *frames {
        let (at, length) = match length & 0x7f {
            126 => (4, u16::from_be_bytes([frames[2], frames[3]]) as usize),
            127 => (10, u64::from_be_bytes(frames[2..10].try_into().expect("eight bytes")) as usize),
            length => (2, usize::from(length)),
        };
        let (mask, rest) = frames[at..].split_at_mut(4);
        let (payload, rest) = rest.split_at_mut(length);
        payload.iter_mut().zip(mask.iter().cycle()).for_each(|(byte, mask)| *byte ^= mask);
        mask.fill(0);
        frames = rest;
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Message<'m> {
    Text(&'m [u8]),
    /// Must be answered with a pong of the same payload.
    Ping(&'m [u8]),
    /// The status and its reason.
    Close(Option<u16>, &'m [u8]),
}

/// Splits the bytes of a server into messages.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    /// The start of a frame.
    pending: Vec<u8>,
    /// The fragments of a message so far.
    message: Option<Vec<u8>>,
}

/// A frame and its length in bytes.
struct Frame<'f> {
    last: bool,
    kind: u8,
    payload: &'f [u8],
    length: usize,
}

impl Reader {
    /// Passes each complete message to `on`, until that returns stop. Fails as `on` does, or on invalid frames.
    pub(crate) fn feed(
        &mut self,
        bytes: &[u8],
        on: &mut impl FnMut(Message<'_>) -> Result<Flow, Failure>,
    ) -> Result<Flow, Failure> {
        let mut pending = std::mem::take(&mut self.pending);
        let held = !pending.is_empty();
        if held {
            pending.extend_from_slice(bytes);
        }
        let all = if held { &pending[..] } else { bytes };
        let (mut at, mut flow) = (0, Flow::Continue);
        while flow == Flow::Continue
            && let Some(frame) = Frame::read(&all[at..]).map_err(broken)?
        {
            at += frame.length;
            flow = self.take(&frame, on)?;
        }
        if held {
            pending.drain(..at);
        } else {
            pending.extend_from_slice(&bytes[at..]);
        }
        self.pending = pending;
        Ok(flow)
    }

    fn take(
        &mut self,
        frame: &Frame<'_>,
        on: &mut impl FnMut(Message<'_>) -> Result<Flow, Failure>,
    ) -> Result<Flow, Failure> {
        match (frame.kind, &mut self.message) {
            (TEXT, None) if frame.last => on(Message::Text(frame.payload)),
            (TEXT, None) => {
                self.message = Some(frame.payload.to_vec());
                Ok(Flow::Continue)
            }
            (CONTINUATION, Some(message)) => {
                if message.len() + frame.payload.len() > MAX_MESSAGE {
                    return Err(broken("a message is longer than any real one"));
                }
                message.extend_from_slice(frame.payload);
                match self.message.take_if(|_| frame.last) {
                    Some(message) => on(Message::Text(&message)),
                    None => Ok(Flow::Continue),
                }
            }
            (TEXT, Some(_)) => Err(broken("a message begins before the last one has ended")),
            (CONTINUATION, None) => Err(broken("a fragment belongs to no message")),
            (PING, _) => on(Message::Ping(frame.payload)),
            (PONG, _) => Ok(Flow::Continue),
            (CLOSE, _) => {
                let status = frame.payload.first_chunk().map(|status| u16::from_be_bytes(*status));
                on(Message::Close(status, frame.payload.get(2..).unwrap_or_default()))
            }
            (2, _) => Err(broken("a message is binary, not text")),
            _ => Err(broken("a frame is of an unknown kind")),
        }
    }
}

fn broken(what: &str) -> Failure {
    Failure { kind: FailureKind::Malformed, message: format!("the WebSocket is broken: {what}") }
}

impl<'f> Frame<'f> {
    fn read(bytes: &'f [u8]) -> Result<Option<Self>, &'static str> {
        let [first, second, rest @ ..] = bytes else { return Ok(None) };
        let (last, kind, short) = (first & 0x80 != 0, first & 0x0f, usize::from(second & 0x7f));
        if first & 0x70 != 0 {
            return Err("a frame uses an extension that was not negotiated");
        }
        if second & 0x80 != 0 {
            return Err("a frame is masked, which only those of clients may be");
        }
        if kind >= CLOSE && (!last || short > MAX_CONTROL) {
            return Err("a control frame is fragmented or longer than 125 bytes");
        }
        let (length, head) = match (short, rest) {
            (126, [a, b, ..]) => (usize::from(u16::from_be_bytes([*a, *b])), 4),
            (127, rest) if rest.len() >= 8 => {
                let length = rest.first_chunk().map_or(u64::MAX, |length| u64::from_be_bytes(*length));
                (usize::try_from(length).unwrap_or(usize::MAX), 10)
            }
            (126 | 127, _) => return Ok(None),
            (length, _) => (length, 2),
        };
        if length > MAX_MESSAGE {
            return Err("a message is longer than any real one");
        }
        let payload = bytes.get(head..head + length);
        Ok(payload.map(|payload| Frame { last, kind, payload, length: head + length }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The messages of bytes that arrive in parts of this size, as text.
    fn read(bytes: &[u8], size: usize) -> Result<Vec<String>, Failure> {
        let (mut reader, mut seen) = (Reader::default(), Vec::new());
        for part in bytes.chunks(size) {
            reader.feed(part, &mut |message| {
                seen.push(match message {
                    Message::Text(text) => String::from_utf8_lossy(text).into_owned(),
                    Message::Ping(payload) => format!("ping {}", payload.len()),
                    Message::Close(status, reason) => format!("close {status:?} {}", String::from_utf8_lossy(reason)),
                });
                Ok(Flow::Continue)
            })?;
        }
        Ok(seen)
    }

    #[test]
    fn the_accept_value_is_the_hash_of_the_key() {
        // The example of RFC 6455, section 1.3.
        assert_eq!(accept("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        let (first, second) = (key(), key());
        assert_eq!(first.0.len(), 24);
        assert_ne!(first.0, second.0);
    }

    #[test]
    fn messages_do_not_depend_on_how_bytes_arrive() {
        // The examples of RFC 6455, section 5.7: a message, a fragmented one around a ping, long ones, and a close.
        let mut bytes = b"\x81\x05Hello\x01\x03Hel\x89\x05Hello\x80\x02lo\x8a\x00\x81\x7e\x01\x00".to_vec();
        bytes.extend([b'x'; 256]);
        bytes.extend(b"\x81\x7f\0\0\0\0\0\x01\0\0");
        bytes.extend([b'y'; 65_536]);
        bytes.extend(b"\x88\x05\x03\xe8bye");
        let expected: Vec<String> = vec![
            "Hello".into(),
            "ping 5".into(),
            "Hello".into(),
            "x".repeat(256),
            "y".repeat(65_536),
            "close Some(1000) bye".into(),
        ];
        for size in [1, 2, 3, 7, 1000, usize::MAX] {
            assert_eq!(read(&bytes, size).as_ref(), Ok(&expected), "{size}");
        }
    }

    #[test]
    fn broken_frames_are_refused() {
        for bytes in [
            &b"\xc1\x00"[..],
            b"\x81\x81aaaab",
            b"\x89\x7e\x00\x80",
            b"\x09\x00",
            b"\x80\x00",
            b"\x01\x00\x81\x00",
            b"\x82\x00",
            b"\x83\x00",
            b"\x81\x7f\x7f\xff\xff\xff\xff\xff\xff\xff",
        ] {
            assert!(read(bytes, usize::MAX).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn frames_are_masked() {
        for length in [0, 5, 125, 126, 65_535, 65_536] {
            let payload: Vec<u8> = (0..length).map(|at| at as u8).collect();
            let mut frame = Vec::new();
            push_frame(&mut frame, TEXT, &payload);
            let head = frame.len() - length;
            let mask: [u8; 4] = frame[head - 4..head].try_into().unwrap();
            frame[1] &= 0x7f;
            frame.drain(head - 4..head);
            let start = frame.len() - length;
            frame[start..].iter_mut().zip(mask.iter().cycle()).for_each(|(byte, mask)| *byte ^= mask);
            assert_eq!(read(&frame, usize::MAX), Ok(vec![String::from_utf8_lossy(&payload).into_owned()]), "{length}");
        }
    }

    #[test]
    fn unmasked_frames_of_equal_messages_are_equal() {
        let frames = |count: usize| {
            let mut frames = Vec::new();
            for length in [0, 5, 126, 65_536, count] {
                push_frame(&mut frames, TEXT, &vec![7; length]);
            }
            unmask(&mut frames);
            frames
        };
        assert_eq!(frames(3), frames(3));
        assert!(frames(3) != frames(4) && frames(3).ends_with(&[7, 7, 7]));
    }

    proptest::proptest! {
        #[test]
        fn never_panics(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200), size in 1_usize..40) {
            let _ = read(&bytes, size);
        }
    }
}
