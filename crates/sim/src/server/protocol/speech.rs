//! `/v1/audio/speech`: a text in, silence of a known duration out, at a known speed.

use std::{io, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use hyper::body::Bytes;
use serde_json::json;
use tokio::{sync::mpsc, time::Instant};

use crate::server::request::{Fields, ON_PURPOSE, Problem};
use crate::{faults::Fault, server::wire::ResetSwitch, spec::MediaSpec};

/// Frames per second.
const RATE: u32 = 24_000;
/// One channel of 16 bits.
const FRAME_BYTES: u32 = 2;
/// The length that a header states if the real one is not known yet.
const OPEN: u32 = u32::MAX;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Pcm,
    Wav,
}

#[derive(Debug)]
pub(crate) struct Ask {
    pub(crate) model: Option<String>,
    pub(crate) input: String,
    form: Form,
    /// Whether audio is sent in events.
    events: bool,
    /// Whether audio is sent while it is generated.
    streams: bool,
    speed: f64,
}

impl Ask {
    pub(crate) fn read(fields: &Fields) -> Result<Self, Problem> {
        let form = match fields.text("response_format")? {
            Some("pcm") => Form::Pcm,
            None | Some("wav") => Form::Wav,
            Some(other) => {
                let message = format!("expected wav or pcm, the simulated formats, got {other:?}");
                return Err(Problem::parameter("response_format", &message));
            }
        };
        let speed = fields.float("speed")?.unwrap_or(1.0);
        if !(0.25..=4.0).contains(&speed) {
            return Err(Problem::parameter("speed", "expected a number from 0.25 to 4"));
        }
        let events = fields.text("stream_format")? == Some("sse");
        Ok(Ask {
            model: fields.model()?,
            input: fields.required_text("input")?,
            form,
            events,
            streams: events || fields.flag_or_true("stream")?,
            speed,
        })
    }

    pub(crate) fn content_type(&self) -> &'static str {
        match (self.events, self.form) {
            (true, _) => "text/event-stream",
            (false, Form::Pcm) => "audio/pcm",
            (false, Form::Wav) => "audio/wav",
        }
    }
}

/// The chunks of a response: number `k` of the audio is sent when `k` chunks have been generated. The model has no queue.
pub(crate) fn speak(ask: Ask, spec: MediaSpec, tokens: usize, fault: Fault, reset: ResetSwitch) -> Chunks {
    let seconds = spec.seconds_per_token * tokens as f64 / ask.speed;
    let total = ((seconds * f64::from(RATE)).round() as u32).max(1);
    let chunk = if ask.streams { (spec.chunk * f64::from(RATE)).round() as u32 } else { total };
    let chunk = chunk.clamp(1, total);
    let pace = Duration::from_secs_f64(f64::from(chunk) / f64::from(RATE) * spec.rtf);
    let (to, chunks) = mpsc::channel(1);
    tokio::spawn(Speech { ask, tokens, fault, total, chunk, pace }.send(reset, to));
    chunks
}

pub(crate) type Chunks = mpsc::Receiver<io::Result<Bytes>>;

struct Speech {
    ask: Ask,
    tokens: usize,
    fault: Fault,
    /// Frames of the audio, and of a chunk of it.
    total: u32,
    chunk: u32,
    /// Time to generate a chunk.
    pace: Duration,
}

impl Speech {
    /// Sends all chunks; a failed send means that the client has disconnected.
    async fn send(self, reset: ResetSwitch, to: mpsc::Sender<io::Result<Bytes>>) {
        let mut began = Instant::now();
        let mut header = self.header().unwrap_or_default();
        if self.ask.streams && !header.is_empty() && to.send(Ok(std::mem::take(&mut header).into())).await.is_err() {
            return;
        }
        let chunks = self.total.div_ceil(self.chunk);
        // At least one chunk comes before a fault.
        let fails_after = self.fault.fraction().map(|fraction| 1 + (fraction * f64::from(chunks - 1)) as u32);
        for sent in 0..chunks {
            match self.fault {
                _ if fails_after != Some(sent) => {}
                Fault::Stall(_, pause) => began += pause,
                Fault::Truncate(_) => return,
                Fault::StreamError(_) if self.ask.events => {
                    let error = json!({"error": {"message": ON_PURPOSE}});
                    return drop(to.send(Ok(format!("data: {error}\n\n").into())).await);
                }
                _ => return drop(to.send(Err(reset.pull())).await),
            }
            tokio::time::sleep_until(began + self.pace * (sent + 1)).await;
            let frames = self.chunk.min(self.total - sent * self.chunk);
            let audio = self.framed(&vec![0; (frames * FRAME_BYTES) as usize]);
            if to.send(Ok([std::mem::take(&mut header), audio].concat().into())).await.is_err() {
                return;
            }
        }
        if self.ask.events {
            let (input, output) = (self.tokens as u64, u64::from(self.total));
            let usage = json!({"input_tokens": input, "output_tokens": output, "total_tokens": input + output});
            let done = json!({"type": "speech.audio.done", "usage": usage});
            let _ = to.send(Ok(format!("data: {done}\n\n").into())).await;
        }
    }

    /// The header of a WAV file, which is sent before the first audio is ready; nothing for other forms.
    fn header(&self) -> Option<Vec<u8>> {
        let length = if self.ask.streams { OPEN } else { self.total * FRAME_BYTES };
        (self.ask.form == Form::Wav).then(|| self.framed(&wav_header(length)))
    }

    fn framed(&self, bytes: &[u8]) -> Vec<u8> {
        if !self.ask.events {
            return bytes.to_vec();
        }
        let event = json!({"type": "speech.audio.delta", "audio": STANDARD.encode(bytes)});
        format!("data: {event}\n\n").into_bytes()
    }
}

/// A header of 24 kHz mono PCM.
fn wav_header(length: u32) -> Vec<u8> {
    let mut out = b"RIFF".to_vec();
    out.extend(length.saturating_add(36).to_le_bytes());
    out.extend(b"WAVEfmt \x10\0\0\0\x01\0\x01\0");
    out.extend(RATE.to_le_bytes());
    out.extend((RATE * FRAME_BYTES).to_le_bytes());
    out.extend((FRAME_BYTES as u16).to_le_bytes());
    out.extend(16_u16.to_le_bytes());
    out.extend(b"data");
    out.extend(length.to_le_bytes());
    out
}
