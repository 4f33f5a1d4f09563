//! Decodes one response body of any protocol: bytes in; timestamps, text and an outcome out.

use tacho_core::{Failure, FailureKind, Observation, Outcome, Timestamp};

use super::declared::{DeclaredDecoder, Framing};
use super::{
    BackendKind, Expected, Flow, Rules, StreamDecoder, audio_stream::AudioDecoder, format::ResponseFormat,
    frames::Frames, messages::MessagesDecoder, realtime::RealtimeDecoder, responses::ResponsesDecoder, row::excerpt,
    scan::is_json, tgi::TgiDecoder, trt_llm::TrtLlmDecoder, whole::WholeDecoder,
};

/// Bytes kept of a body that is not an event stream.
const START: usize = 4 << 10;

/// Decodes one response body. The result does not depend on how the body is split into reads.
#[derive(Debug)]
pub struct ResponseDecoder {
    rules: Rules,
    intake: Intake,
    failure: Option<Failure>,
    /// A failure that upstream reports only if more data follows: it strips its input, so a bad last message is
    /// dropped.
    held: Option<Failure>,
    other_type: Option<Box<OtherType>>,
}

/// A body whose content type is not that of an event stream. Some servers label streams wrongly, so it is parsed
/// anyway; without events, its start goes into the error.
#[derive(Debug)]
struct OtherType {
    mime: String,
    start: Vec<u8>,
}

#[derive(Debug)]
enum Intake {
    Stream(Frames, Decoder),
    Whole(WholeDecoder),
    Speech(Box<AudioDecoder>),
    Realtime(Box<RealtimeDecoder>),
}

#[derive(Debug)]
enum Decoder {
    Choices(StreamDecoder),
    Responses(ResponsesDecoder),
    Messages(MessagesDecoder),
    Tgi(TgiDecoder),
    TrtLlm(TrtLlmDecoder),
    Declared(Box<DeclaredDecoder>),
}

impl ResponseDecoder {
    pub fn new(backend: BackendKind, rules: Rules, expected: &Expected) -> Self {
        let keeps = expected.keeps_reply;
        // A file describes what it wants; upstream knows no files.
        let description = backend.description();
        let rules = if description.is_some() { Rules::Standard } else { rules };
        let unstreamed = expected.unstreamed && rules == Rules::Standard;
        let decoder = match backend.row().format {
            _ if unstreamed => None,
            ResponseFormat::Whole | ResponseFormat::Speech | ResponseFormat::Realtime => None,
            ResponseFormat::Declared => {
                let streamed = description.filter(|declared| declared.framing() != Framing::Whole);
                streamed.map(|declared| Decoder::Declared(Box::new(DeclaredDecoder::new(declared, expected))))
            }
            ResponseFormat::Completions | ResponseFormat::Chat | ResponseFormat::Audio => {
                Some(Decoder::Choices(StreamDecoder::new(backend, rules).expecting(expected)))
            }
            ResponseFormat::Responses => Some(Decoder::Responses(ResponsesDecoder::new(rules, keeps))),
            ResponseFormat::Messages => Some(Decoder::Messages(MessagesDecoder::new(keeps))),
            ResponseFormat::Tgi => Some(Decoder::Tgi(TgiDecoder::new(rules, expected))),
            ResponseFormat::TensorRtLlm => Some(Decoder::TrtLlm(TrtLlmDecoder::new(rules))),
        };
        let intake = match decoder {
            Some(decoder) => Intake::Stream(Frames::new(backend, rules), decoder),
            None if backend.row().format == ResponseFormat::Speech => {
                Intake::Speech(Box::new(AudioDecoder::new(expected.pcm)))
            }
            None if backend.is_websocket() => Intake::Realtime(Box::new(RealtimeDecoder::new(expected.input.clone()))),
            None => Intake::Whole(WholeDecoder::new(backend, rules, expected)),
        };
        ResponseDecoder { rules, intake, failure: None, held: None, other_type: None }
    }

    /// Whether the response is not streamed, so that only its end is timed.
    pub fn is_whole(&self) -> bool {
        matches!(self.intake, Intake::Whole(_))
    }

    /// Whether the response had no end marker, so that the body's framing must show its end. Upstream does not check.
    pub(crate) fn needs_framed_end(&self) -> bool {
        let unmarked = match &self.intake {
            Intake::Stream(_, Decoder::Declared(decoder)) => decoder.is_unmarked(),
            Intake::Stream(_, Decoder::Choices(decoder)) => decoder.needs_framed_end(),
            Intake::Stream(_, decoder) => matches!(decoder, Decoder::TrtLlm(_)),
            Intake::Whole(decoder) => decoder.is_bytes(),
            Intake::Speech(decoder) => decoder.is_bytes(),
            Intake::Realtime(_) => false,
        };
        unmarked && self.rules == Rules::Standard
    }

    /// Whether the end marker has arrived, after which nothing can be missing.
    pub(crate) fn is_closed(&self) -> bool {
        match &self.intake {
            Intake::Stream(_, Decoder::Choices(decoder)) => decoder.is_closed(),
            Intake::Stream(_, Decoder::Responses(decoder)) => decoder.is_closed(),
            Intake::Stream(_, Decoder::Messages(decoder)) => decoder.is_closed(),
            Intake::Stream(_, Decoder::Tgi(decoder)) => decoder.is_closed(),
            Intake::Stream(_, Decoder::Declared(decoder)) => decoder.is_closed(),
            Intake::Stream(_, Decoder::TrtLlm(_)) | Intake::Whole(_) => false,
            Intake::Speech(decoder) => decoder.is_closed(),
            Intake::Realtime(decoder) => decoder.is_closed(),
        }
    }

    pub(crate) fn accepts(&self, status: u16) -> bool {
        match &self.intake {
            Intake::Stream(_, Decoder::Declared(decoder)) => decoder.accepts(status),
            Intake::Whole(decoder) => decoder.accepts(status),
            Intake::Stream(..) | Intake::Speech(_) => status == 200,
            Intake::Realtime(_) => status == 101,
        }
    }

    /// Whether the server takes input over a WebSocket, and frames to send in response to its own.
    pub(crate) fn answer(&mut self) -> (bool, Vec<u8>) {
        match &mut self.intake {
            Intake::Realtime(decoder) => (decoder.is_ready(), decoder.take_pongs()),
            _ => (false, Vec::new()),
        }
    }

    /// Takes the headers that determine how to read the body.
    pub fn head(&mut self, content_type: Option<&str>, metadata: Option<&str>) {
        match &mut self.intake {
            Intake::Whole(decoder) => decoder.head(content_type, metadata),
            Intake::Speech(decoder) => decoder.head(content_type),
            Intake::Realtime(decoder) => decoder.head(metadata),
            // Only event streams have a content type of their own.
            Intake::Stream(Frames::Lines(_) | Frames::Values(_) | Frames::Binary(_), Decoder::Declared(_)) => {}
            Intake::Stream(..) => {
                let mime = content_type.unwrap_or_default().split(';').next().unwrap_or_default().trim();
                let events = mime.is_empty() || mime.eq_ignore_ascii_case("text/event-stream");
                self.other_type = (!events).then(|| Box::new(OtherType { mime: mime.to_owned(), start: Vec::new() }));
            }
        }
    }

    /// Decodes the next bytes, which arrived at `timestamp`.
    pub fn feed(&mut self, bytes: &[u8], timestamp: Timestamp, row: &mut Observation) -> Flow {
        if let Some(other_type) = &mut self.other_type {
            let available = START.saturating_sub(other_type.start.len()).min(bytes.len());
            other_type.start.extend_from_slice(&bytes[..available]);
        }
        if self.held.is_some() && !bytes.trim_ascii().is_empty() {
            self.failure = self.held.take();
            return Flow::Stop;
        }
        let (rules, failure, held) = (self.rules, &mut self.failure, &mut self.held);
        let read = match &mut self.intake {
            Intake::Stream(frames, decoder) => {
                let strips = rules == Rules::Vllm && frames.strips_its_end();
                let mut message = |message: &[u8]| {
                    if let Some(found) = held.take() {
                        return stop(failure, found);
                    }
                    match decoder.message(message, rules, timestamp, row) {
                        Ok(()) => Flow::Continue,
                        Err(found) if strips && !is_json(message) => {
                            *held = Some(found);
                            Flow::Continue
                        }
                        Err(found) => stop(failure, found),
                    }
                };
                let fed = frames.feed(bytes, &mut message);
                match held.take_if(|_| frames.has_rest()) {
                    Some(found) => Err(found),
                    None => fed.map_err(|bad| Failure { kind: FailureKind::Malformed, message: bad.0.into() }),
                }
            }
            Intake::Whole(decoder) => decoder.feed(bytes).map(|()| Flow::Continue),
            Intake::Speech(decoder) => decoder.feed(bytes, timestamp, row).map(|()| Flow::Continue),
            Intake::Realtime(decoder) => decoder.feed(bytes, timestamp, row),
        };
        read.unwrap_or_else(|found| stop(&mut self.failure, found))
    }

    /// Ends the body, as framed, at `timestamp` and returns the outcome.
    pub fn finish(&mut self, timestamp: Timestamp, row: &mut Observation) -> Outcome {
        if let Intake::Stream(frames, decoder) = &mut self.intake {
            let anywhere = frames.ends_anywhere() && self.rules == Rules::Vllm;
            let (failure, rules) = (&mut self.failure, self.rules);
            if frames.has_rest() {
                *failure = self.held.take().or(failure.take());
            }
            frames.finish(&mut |message| {
                if anywhere || message == b"[DONE]" || is_json(message) {
                    if let Err(found) = decoder.message(message, rules, timestamp, row) {
                        *failure = Some(found);
                    }
                } else if rules == Rules::Standard {
                    *failure = Some(unfinished(message));
                }
            });
        }
        if let Intake::Speech(decoder) = &mut self.intake
            && let Err(found) = decoder.end(timestamp, row)
        {
            self.failure.get_or_insert(found);
        }
        self.verdict(row)
    }

    /// The outcome of the bytes so far.
    pub fn verdict(&mut self, row: &mut Observation) -> Outcome {
        if let Some(failure) = self.failure.take() {
            return Outcome::Failed(failure);
        }
        let outcome = match &mut self.intake {
            Intake::Whole(decoder) => decoder.finish(row),
            Intake::Speech(decoder) => decoder.finish(row),
            Intake::Realtime(decoder) => decoder.finish(row),
            Intake::Stream(_, decoder) => match decoder {
                Decoder::Choices(decoder) => decoder.finish(row),
                Decoder::Responses(decoder) => decoder.finish(row),
                Decoder::Messages(decoder) => decoder.finish(row),
                Decoder::Tgi(decoder) => decoder.finish(row),
                Decoder::TrtLlm(decoder) => decoder.finish(row),
                Decoder::Declared(decoder) => decoder.finish(row),
            },
        };
        match (&self.other_type, self.rules) {
            (Some(other_type), Rules::Standard) if is_empty(&outcome) && !other_type.is_events() => {
                other_type.outcome()
            }
            _ => outcome,
        }
    }
}

/// The failure of a stream that did not end with an event: truncated, or not a stream.
fn unfinished(message: &[u8]) -> Failure {
    let begun = matches!(message.trim_ascii_start().first(), None | Some(b'{' | b'['));
    let (kind, what) = match begun {
        true => (FailureKind::Truncated, "the stream ended inside an event"),
        false => (FailureKind::Malformed, "the stream ended with text that is not an event"),
    };
    Failure { kind, message: format!("{what}: {}", excerpt(message)) }
}

fn is_empty(outcome: &Outcome) -> bool {
    outcome.failure().is_some_and(|failure| failure.kind == FailureKind::Empty)
}

impl OtherType {
    /// Whether the body starts like an event stream or is empty.
    fn is_events(&self) -> bool {
        let start = self.start.trim_ascii_start();
        start.is_empty() || [&b":"[..], b"data", b"event", b"id", b"retry"].iter().any(|field| start.starts_with(field))
    }

    fn outcome(&self) -> Outcome {
        let message = format!("the response is {}, not a stream of events: {}", self.mime, excerpt(&self.start));
        Outcome::failed(FailureKind::Malformed, message)
    }
}

fn stop(verdict: &mut Option<Failure>, found: Failure) -> Flow {
    *verdict = Some(found);
    Flow::Stop
}

impl Decoder {
    /// Decodes one message. As in the standard, a message without data is ignored and invalid UTF-8 is replaced: some
    /// servers split a character between two tokens.
    fn message(
        &mut self,
        message: &[u8],
        rules: Rules,
        timestamp: Timestamp,
        row: &mut Observation,
    ) -> Result<(), Failure> {
        if rules == Rules::Vllm {
            return self.read(message, timestamp, row);
        }
        if message.is_empty() {
            return Ok(());
        }
        match self.read(message, timestamp, row) {
            Err(_) if message.trim_ascii().is_empty() => Ok(()),
            Err(_) if std::str::from_utf8(message).is_err() => {
                self.read(String::from_utf8_lossy(message).as_bytes(), timestamp, row)
            }
            read => read,
        }
    }

    fn read(&mut self, message: &[u8], timestamp: Timestamp, row: &mut Observation) -> Result<(), Failure> {
        match self {
            Decoder::Choices(decoder) => decoder.event(message, timestamp, row),
            Decoder::Responses(decoder) => decoder.event(message, timestamp, row),
            Decoder::Messages(decoder) => decoder.event(message, timestamp, row),
            Decoder::Tgi(decoder) => decoder.event(message, timestamp, row),
            Decoder::TrtLlm(decoder) => decoder.event(message, timestamp, row),
            Decoder::Declared(decoder) => decoder.event(message, timestamp, row),
        }
    }
}
