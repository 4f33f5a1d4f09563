//! `/v1/audio/speech`: a text in, silence of a known duration out, at a known speed.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::body::{Body, Bytes, Frame};
use tokio::time::{Instant, Sleep};

use crate::faults::Fault;
use crate::server::request::fields::Fields;
use crate::server::request::problem::Problem;
use crate::server::wire::ResetSwitch;
use crate::spec::MediaSpec;

/// Frames per second.
const RATE: u32 = 24_000;
/// One channel of 16 bits.
const FRAME_BYTES: u32 = 2;
/// The length that a header states if the real one is not known yet.
const OPEN: u32 = u32::MAX;

/// How audio is sent.
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

/// The body of a response: chunk `k` of the audio is ready when `k` chunks have been generated.
pub(crate) struct SpeechStream {
    ask: Ask,
    fault: Fault,
    reset: ResetSwitch,
    input_tokens: usize,
    began: Instant,
    /// Frames per chunk, and left to send.
    chunk: u32,
    left: u32,
    total: u32,
    sent_chunks: u32,
    pace: Duration,
    /// Time lost in a stall.
    stalled: Duration,
    /// The next thing to send, and when.
    sleep: Option<Pin<Box<Sleep>>>,
    head: bool,
    ended: bool,
}

impl SpeechStream {
    pub(crate) fn new(ask: Ask, spec: MediaSpec, tokens: usize, fault: Fault, reset: ResetSwitch) -> Self {
        let seconds = spec.seconds_per_token * tokens as f64 / ask.speed;
        let total = ((seconds * f64::from(RATE)).round() as u32).max(1);
        let chunk = if ask.streams { (spec.chunk * f64::from(RATE)).round() as u32 } else { total };
        let chunk = chunk.clamp(1, total);
        SpeechStream {
            ask,
            fault,
            reset,
            input_tokens: tokens,
            began: Instant::now(),
            chunk,
            left: total,
            total,
            sent_chunks: 0,
            pace: Duration::from_secs_f64(f64::from(chunk) / f64::from(RATE) * spec.rtf),
            stalled: Duration::ZERO,
            sleep: None,
            head: true,
            ended: false,
        }
    }

    /// The header of a WAV file, which is sent before the first audio is ready; nothing for other forms.
    fn header(&self) -> Option<Bytes> {
        let is_wav = self.ask.form == Form::Wav;
        let length = if self.ask.streams { OPEN } else { self.total * FRAME_BYTES };
        is_wav.then(|| self.framed(&wav_header(length)))
    }

    /// Bytes of audio as they are sent.
    fn framed(&self, bytes: &[u8]) -> Bytes {
        if !self.ask.events {
            return Bytes::copy_from_slice(bytes);
        }
        let audio = STANDARD.encode(bytes);
        format!("data: {{\"type\":\"speech.audio.delta\",\"audio\":\"{audio}\"}}\n\n").into()
    }

    /// The number of chunks after which the fault occurs, if it does within the response: at least one.
    fn fails_after(&self) -> Option<u32> {
        let chunks = self.total.div_ceil(self.chunk);
        self.fault.place().filter(|_| chunks > 1).map(|place| 1 + (place * f64::from(chunks - 1)) as u32)
    }

    /// Applies a fault that is due; returns the frame to send instead of audio.
    fn apply_fault(&mut self) -> Option<Option<io::Result<Frame<Bytes>>>> {
        if self.fails_after() != Some(self.sent_chunks) {
            return None;
        }
        match std::mem::replace(&mut self.fault, Fault::None) {
            Fault::Stall(_, pause) => {
                self.stalled = pause;
                None
            }
            Fault::Truncate(_) => Some(None),
            Fault::StreamError(_) if self.ask.events => {
                self.ended = true;
                let error = "data: {\"error\":{\"message\":\"the simulator failed this stream on purpose\"}}\n\n";
                Some(Some(Ok(Frame::data(Bytes::from_static(error.as_bytes())))))
            }
            _ => Some(Some(Err(self.reset.pull()))),
        }
    }

    fn next_chunk(&mut self) -> Bytes {
        let frames = self.chunk.min(self.left);
        self.left -= frames;
        self.sent_chunks += 1;
        self.framed(&vec![0; (frames * FRAME_BYTES) as usize])
    }

    fn close(&self) -> Bytes {
        let (input, frames) = (self.input_tokens, self.total);
        let total = input as u64 + u64::from(frames);
        let usage = format!(r#"{{"input_tokens":{input},"output_tokens":{frames},"total_tokens":{total}}}"#);
        format!("data: {{\"type\":\"speech.audio.done\",\"usage\":{usage}}}\n\n").into()
    }
}

impl Body for SpeechStream {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let this = &mut *self;
        if this.ended {
            return Poll::Ready(None);
        }
        if this.ask.streams
            && std::mem::take(&mut this.head)
            && let Some(header) = this.header()
        {
            return Poll::Ready(Some(Ok(Frame::data(header))));
        }
        if this.left == 0 {
            this.ended = true;
            return Poll::Ready(this.ask.events.then(|| Ok(Frame::data(this.close()))));
        }
        if this.sleep.is_none()
            && let Some(instead) = this.apply_fault()
        {
            return Poll::Ready(instead);
        }
        let due = this.began + this.pace * (this.sent_chunks + 1) + this.stalled;
        ready!(this.sleep.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(due))).as_mut().poll(cx));
        this.sleep = None;
        let header = if std::mem::take(&mut this.head) { this.header() } else { None };
        let chunk = this.next_chunk();
        let frame = header.map_or(chunk.clone(), |header| [header, chunk].concat().into());
        Poll::Ready(Some(Ok(Frame::data(frame))))
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
