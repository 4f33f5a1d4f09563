//! `/v1/realtime` of vLLM: audio in over a WebSocket as it is recorded, text out as it is recognized.

use std::{ops::Range, sync::Arc, time::Duration};

use tacho_core::json::{Dict, Value, write_value};
use tacho_core::{Failure, FailureKind, Observation, Outcome, Request, Timestamp, bounded::Pause};

use super::event::{TextField, UsageField, UsageNames, read_text, read_usage};
use super::members::{Members, members, read_word};
use super::row::{error_in_stream, excerpt, malformed, note_token, push_text};
use super::scan::{Cursor, Kind, NotJson};
use super::{Flow, PayloadSpec, audio};
use crate::base64;
use crate::websocket::{self, Message, PONG, Reader, TEXT, push_frame};

/// Samples per second, which the protocol fixes.
const RATE: u32 = 16_000;
/// Samples per message: those of 4 KiB, as in vLLM's example client.
const CHUNK: usize = 2048;

const BEGIN: &[u8] = br#"{"type": "input_audio_buffer.commit"}"#;
const END: &[u8] = br#"{"type": "input_audio_buffer.commit", "final": true}"#;

/// Input that is sent over a WebSocket while the response is received.
#[derive(Debug)]
pub(crate) struct PacedInput {
    pub(crate) key: String,
    /// What the server must return for the key.
    accept: String,
    /// Length of the input in bytes.
    pub(crate) bytes: usize,
    /// When each part of the input is due, from the start of the input, and the bytes after that part.
    pub(crate) steps: Vec<(Duration, usize)>,
}

/// The message that selects the model, before the fields that all backends share.
pub(super) fn session(payload: &PayloadSpec, request: &Request) -> Result<Dict, &'static str> {
    Ok(tacho_core::dict! { "type": "session.update", "model": payload.model_for(request) })
}

/// All frames of a request, and when they are due: each chunk of audio once its last sample is recorded.
pub(super) fn frames(
    session: Dict,
    payload: &PayloadSpec,
    request: &Request,
) -> Result<(Vec<u8>, PacedInput), &'static str> {
    let samples = audio::samples(request, RATE)?;
    if samples.is_empty() {
        return Err("its audio is empty");
    }
    let speed = f64::from(RATE) * payload.audio_speed.unwrap_or(1.0);
    let (mut out, mut message) = (Vec::new(), Vec::new());
    write_value(&mut message, &Value::Dict(session));
    push_frame(&mut out, TEXT, &message);
    push_frame(&mut out, TEXT, BEGIN);
    let mut ends = vec![(Duration::ZERO, out.len())];
    let mut recorded = 0;
    for chunk in samples.chunks(CHUNK) {
        let bytes: Vec<u8> = chunk.iter().flat_map(|sample| sample.to_le_bytes()).collect();
        let message = format!(r#"{{"type": "input_audio_buffer.append", "audio": "{}"}}"#, base64::encode(&bytes));
        push_frame(&mut out, TEXT, message.as_bytes());
        recorded += chunk.len();
        if recorded == samples.len() {
            push_frame(&mut out, TEXT, END);
        }
        ends.push((Pause::clamped(recorded as f64 / speed), out.len()));
    }
    let (key, accept) = websocket::key();
    let steps = ends.into_iter().map(|(due, end)| (due, out.len() - end)).collect();
    let input = PacedInput { key, accept, bytes: out.len(), steps };
    Ok((out, input))
}

#[derive(Debug)]
pub(super) struct RealtimeDecoder {
    reader: Reader,
    events: Events,
    pongs: Vec<u8>,
}

#[derive(Debug)]
struct Events {
    input: Option<Arc<PacedInput>>,
    /// Whether the handshake is wrong.
    is_refused: bool,
    is_ready: bool,
    ended: bool,
}

impl RealtimeDecoder {
    pub(super) fn new(input: Option<Arc<PacedInput>>) -> Self {
        let events = Events { input, is_refused: false, is_ready: false, ended: false };
        RealtimeDecoder { reader: Reader::default(), events, pongs: Vec::new() }
    }

    /// Takes the handshake's answer to the key.
    pub(super) fn head(&mut self, accept: Option<&str>) {
        self.events.is_refused = self.events.input.as_ref().map(|input| &*input.accept) != accept;
    }

    pub(super) fn is_ready(&self) -> bool {
        self.events.is_ready
    }

    pub(super) fn is_closed(&self) -> bool {
        self.events.ended
    }

    /// Frames to send in response to the server's.
    pub(super) fn take_pongs(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.pongs)
    }

    pub(super) fn feed(&mut self, bytes: &[u8], timestamp: Timestamp, row: &mut Observation) -> Result<Flow, Failure> {
        let RealtimeDecoder { reader, events, pongs } = self;
        if events.is_refused {
            let message = "the server's Sec-WebSocket-Accept does not answer the key: it does not speak WebSocket";
            return Err(Failure { kind: FailureKind::Malformed, message: message.to_owned() });
        }
        reader.feed(bytes, &mut |message| match message {
            Message::Text(data) => events.event(data, timestamp, row),
            Message::Ping(payload) => {
                push_frame(pongs, PONG, payload);
                Ok(Flow::Continue)
            }
            Message::Close(status, reason) => Err(closed(status, reason)),
        })
    }

    pub(super) fn finish(&mut self, row: &Observation) -> Outcome {
        if !self.events.ended {
            let message = format!("the connection ended without transcription.done after {} texts", row.chunks.len());
            return Outcome::failed(FailureKind::Truncated, message);
        }
        match row.chunks.is_empty() {
            true => Outcome::failed(FailureKind::Empty, "transcription.done came without any text"),
            false => Outcome::Complete,
        }
    }
}

/// The failure of a response that the server closed before its end.
fn closed(status: Option<u16>, reason: &[u8]) -> Failure {
    let status = status.map_or_else(|| "without a status".to_owned(), |status| format!("with status {status}"));
    let reason = if reason.is_empty() { String::new() } else { format!(", {:?}", excerpt(reason)) };
    let message = format!("the server closed the WebSocket {status}{reason} before transcription.done");
    Failure { kind: FailureKind::Truncated, message }
}

impl Events {
    /// Handles an event. Texts without characters are no token events: a model for live audio generates one for every
    /// piece of audio.
    fn event(&mut self, data: &[u8], timestamp: Timestamp, row: &mut Observation) -> Result<Flow, Failure> {
        let not_json = |_| malformed("an event is not JSON", data);
        let (event, Kind::Object, _) = Event::read(data).map_err(not_json)? else { return Err(not_json(NotJson)) };
        match event.kind {
            EventKind::Created => self.is_ready = true,
            EventKind::Delta => push(&event.delta, data, timestamp, row)?,
            EventKind::Done => {
                event.usage.note(row);
                if row.chunks.is_empty() {
                    push(&event.text, data, timestamp, row)?;
                }
                self.ended = true;
                return Ok(Flow::Stop);
            }
            EventKind::Error => error_in_stream(event.error.or(Some(0..data.len())), data)?,
            EventKind::Other => {}
        }
        Ok(Flow::Continue)
    }
}

/// Records a text, if it has any characters.
fn push(text: &TextField, data: &[u8], timestamp: Timestamp, row: &mut Observation) -> Result<(), Failure> {
    let before = row.text.len();
    push_text(text, data, row)?;
    if row.text.len() > before {
        note_token(row, timestamp, true);
        row.text_ends.push(row.text.len() as u32);
    }
    Ok(())
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum EventKind {
    Created,
    Delta,
    Done,
    Error,
    #[default]
    Other,
}

impl EventKind {
    fn read(cursor: &mut Cursor<'_>) -> Result<Self, NotJson> {
        Ok(match read_word(cursor)? {
            b"session.created" => EventKind::Created,
            b"transcription.delta" => EventKind::Delta,
            b"transcription.done" => EventKind::Done,
            b"error" => EventKind::Error,
            _ => EventKind::Other,
        })
    }
}

members! {
    struct Event {
        kind: EventKind = b"type" => EventKind::read,
        delta: TextField = b"delta" => read_text,
        text: TextField = b"text" => read_text,
        usage: UsageField,
        /// The value of a truthy `error`.
        error: Option<Range<usize>> = b"error" => Cursor::truthy_span,
    } else |event, cursor| {
        b"usage" if cursor.kind()? == Kind::Object => {
            event.usage = read_usage(cursor, UsageNames::Choices)?.unwrap_or_default();
        },
    }
}
