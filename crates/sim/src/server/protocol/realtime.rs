//! `/v1/realtime`: audio in over a WebSocket, a word of text out for every piece of audio, after a known delay.

use std::{collections::VecDeque, io, sync::Arc};

use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use serde_json::{Value as Json, json};
use tacho_core::json::{Value, parse};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::{sync::mpsc, time::Instant};

use crate::server::websocket::{CLOSE, PING, PONG, TEXT, frame, read};
use crate::{
    faults::Fault, server::app::App, server::request::problem::ON_PURPOSE, server::response::Usage,
    server::wire::ResetSwitch, spec::MediaSpec,
};

/// Samples per second, which the protocol fixes.
const RATE: f64 = 16_000.0;
/// Tokens that vLLM counts per second of audio.
const TOKENS_PER_SECOND: f64 = 12.5;
/// Outputs before a fault.
const BEFORE_FAULT: u64 = 1;
/// Frames that wait to be handled.
const AHEAD: usize = 64;

pub(crate) async fn serve(app: Arc<App>, upgraded: OnUpgrade, fault: Fault, reset: ResetSwitch) {
    let Ok(upgraded) = upgraded.await else { return };
    let (mut from, mut to) = tokio::io::split(TokioIo::new(upgraded));
    // A read that is cancelled would lose bytes.
    let (frames, mut received) = mpsc::channel(AHEAD);
    let reader = tokio::spawn(async move {
        while let Ok(frame) = read(&mut from).await
            && frames.send(frame).await.is_ok()
        {}
    });
    let mut session = Session::new(app, fault, reset);
    // An error means that the client disconnected, or an injected fault.
    let _ = session.run(&mut received, &mut to).await;
    reader.abort();
}

struct Session {
    app: Arc<App>,
    spec: MediaSpec,
    fault: Fault,
    reset: ResetSwitch,
    /// Whether the model was named.
    is_validated: bool,
    is_begun: bool,
    samples: u64,
    words: u64,
    text: String,
    /// What is to be sent, and when.
    due: VecDeque<(Instant, Output)>,
    sent: u64,
}

enum Output {
    Word,
    Done,
}

impl Session {
    fn new(app: Arc<App>, fault: Fault, reset: ResetSwitch) -> Self {
        Session {
            spec: app.spec.media,
            app,
            fault,
            reset,
            is_validated: false,
            is_begun: false,
            samples: 0,
            words: 0,
            text: String::new(),
            due: VecDeque::new(),
            sent: 0,
        }
    }

    async fn run(
        &mut self,
        received: &mut mpsc::Receiver<(u8, Vec<u8>)>,
        to: &mut (impl AsyncWrite + Unpin),
    ) -> io::Result<()> {
        let (id, created) = (self.app.random_id(), self.app.unix_time());
        send(to, &json!({"type": "session.created", "id": format!("sess-{id}"), "created": created})).await?;
        loop {
            let next = self.due.front().map(|(due, _)| *due);
            let sleep = tokio::time::sleep_until(next.unwrap_or_else(Instant::now));
            tokio::select! {
                () = sleep, if next.is_some() => self.output(to).await?,
                message = received.recv() => match message {
                    None => return Ok(()),
                    Some((TEXT, message)) => {
                        if let Err((error, code)) = self.event(&message, Instant::now()) {
                            send(to, &json!({"type": "error", "error": error, "code": code})).await?;
                        }
                    }
                    Some((PING, payload)) => to.write_all(&frame(PONG, &payload)).await?,
                    Some((CLOSE, payload)) => return to.write_all(&frame(CLOSE, &payload)).await,
                    Some(_) => {}
                },
            }
        }
    }

    /// Handles an event; returns an error and its code as vLLM does.
    fn event(&mut self, message: &[u8], now: Instant) -> Result<(), (String, &'static str)> {
        let event = std::str::from_utf8(message).ok().and_then(|text| parse(text).ok());
        let event = event.ok_or_else(|| ("Invalid JSON".to_owned(), "invalid_json"))?;
        match event.text("type") {
            Some("session.update") => {
                let model =
                    event.text("model").ok_or_else(|| ("Missing required field: model".to_owned(), "invalid_event"))?;
                let unknown = |_| (format!("The model `{model}` does not exist."), "model_not_found");
                self.app.resolve(Some(model)).map_err(unknown)?;
                self.is_validated = true;
            }
            Some("input_audio_buffer.append") => {
                let bytes = event.text("audio").and_then(decoded_len).filter(|bytes| *bytes > 0);
                let bytes = bytes.ok_or_else(|| ("Invalid audio data".to_owned(), "invalid_audio"))?;
                self.samples += bytes / 2;
                let heard = (self.samples as f64 / RATE / self.spec.word + 1e-9) as u64;
                while self.is_begun && self.words < heard {
                    self.words += 1;
                    self.due.push_back((now + self.spec.word_delay, Output::Word));
                }
            }
            Some("input_audio_buffer.commit") if !self.is_validated => {
                let message = "Model not validated. Make sure to validate the model by sending a session.update event.";
                return Err((message.to_owned(), "model_not_validated"));
            }
            Some("input_audio_buffer.commit") if event.get("final").is_some_and(Value::truthy) => {
                self.due.push_back((now + self.spec.word_delay, Output::Done));
            }
            Some("input_audio_buffer.commit") => self.is_begun = true,
            other => {
                let name = other.unwrap_or("None");
                return Err((format!("Unknown event type: {name}"), "unknown_event"));
            }
        }
        Ok(())
    }

    /// Sends what is due, or applies the fault.
    async fn output(&mut self, to: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        if self.sent == BEFORE_FAULT {
            match std::mem::replace(&mut self.fault, Fault::None) {
                Fault::Stall(_, pause) => {
                    self.due.iter_mut().for_each(|(due, _)| *due += pause);
                    return Ok(());
                }
                Fault::StreamError(_) => {
                    send(to, &json!({"type": "error", "error": ON_PURPOSE, "code": "processing_error"})).await?;
                    return Err(io::ErrorKind::Other.into());
                }
                Fault::Truncate(_) => {
                    to.write_all(&frame(CLOSE, b"\x03\xf3truncated on purpose")).await?;
                    return Err(io::ErrorKind::Other.into());
                }
                Fault::Disconnect(_) => return Err(self.reset.pull()),
                Fault::None | Fault::Error => {}
            }
        }
        let Some((_, output)) = self.due.pop_front() else { return Ok(()) };
        self.sent += 1;
        match output {
            Output::Word => {
                let word = format!(" word{}", self.sent);
                self.text.push_str(&word);
                send(to, &json!({"type": "transcription.delta", "delta": word})).await
            }
            Output::Done => {
                let (text, tokens) = (std::mem::take(&mut self.text), self.words as usize);
                let prompt = (self.samples as f64 / RATE * TOKENS_PER_SECOND).ceil() as usize;
                let usage = Usage { prompt, completion: tokens, ..Usage::default() }.counts();
                (self.is_begun, self.samples, self.words) = (false, 0, 0);
                send(to, &json!({"type": "transcription.done", "text": text, "usage": usage})).await
            }
        }
    }
}

async fn send(to: &mut (impl AsyncWrite + Unpin), event: &Json) -> io::Result<()> {
    to.write_all(&frame(TEXT, event.to_string().as_bytes())).await?;
    to.flush().await
}

/// Number of bytes of Base64; `None` if it is not Base64.
fn decoded_len(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches('=');
    let is_valid = digits.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/".contains(&byte));
    is_valid.then_some(digits.len() as u64 * 3 / 4)
}
