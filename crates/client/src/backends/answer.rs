//! Reads one answer's body, whatever the protocol: bytes in, stamps, text and a verdict out.

use tacho_core::{Failure, FailureKind, Observation, Outcome, Stamp};

use super::frames::Frames;
use super::generate::GenerateDecoder;
use super::responses::ResponsesDecoder;
use super::scan::is_json;
use super::stream::excerpt;
use super::tgi::TgiDecoder;
use super::trt_llm::TrtLlmDecoder;
use super::whole::WholeDecoder;
use super::{BackendKind, Expected, Flow, Rules, StreamDecoder, Task};

/// Reads one answer's body. Any way of cutting it into pieces gives the same result.
#[derive(Debug)]
pub struct AnswerDecoder {
    rules: Rules,
    intake: Intake,
    failure: Option<Failure>,
}

#[derive(Debug)]
enum Intake {
    Stream(Frames, Decoder),
    Whole(WholeDecoder),
}

#[derive(Debug)]
enum Decoder {
    Choices(StreamDecoder),
    Responses(ResponsesDecoder),
    Tgi(TgiDecoder),
    TrtLlm(TrtLlmDecoder),
    Generate(GenerateDecoder),
}

impl AnswerDecoder {
    /// A decoder for the answer to one request.
    pub fn new(backend: BackendKind, rules: Rules, expected: &Expected) -> Self {
        let decoder = match backend {
            BackendKind::OpenAiResponses => Decoder::Responses(ResponsesDecoder::new(rules)),
            BackendKind::Tgi => Decoder::Tgi(TgiDecoder::new(rules, expected)),
            BackendKind::TensorRtLlm => Decoder::TrtLlm(TrtLlmDecoder::new(rules)),
            BackendKind::VllmGenerate => Decoder::Generate(GenerateDecoder::new(rules, expected)),
            _ => Decoder::Choices(StreamDecoder::new(backend, rules)),
        };
        let intake = if backend.task() == Task::Pooling || backend == BackendKind::DeepSpeedMii {
            Intake::Whole(WholeDecoder::new(backend, rules, expected))
        } else {
            Intake::Stream(Frames::new(backend, rules), decoder)
        };
        AnswerDecoder { rules, intake, failure: None }
    }

    /// Whether the answer comes whole, so that its end is all there is to time.
    pub fn is_whole(&self) -> bool {
        matches!(self.intake, Intake::Whole(_))
    }

    /// Takes note of the headers that say how to read the body.
    pub fn head(&mut self, content_type: Option<&str>, metadata: Option<&str>) {
        if let Intake::Whole(decoder) = &mut self.intake {
            decoder.head(content_type, metadata);
        }
    }

    /// Takes the next bytes, which arrived at `stamp`.
    pub fn feed(&mut self, bytes: &[u8], stamp: Stamp, row: &mut Observation) -> Flow {
        let failure = &mut self.failure;
        let fits = match &mut self.intake {
            Intake::Stream(frames, decoder) => {
                frames.feed(bytes, &mut |message| decoder.message(message, stamp, row, failure)).ok()
            }
            Intake::Whole(decoder) => decoder.feed(bytes).then_some(Flow::Continue),
        };
        fits.unwrap_or_else(|| {
            let message = "a message is longer than any real one".into();
            self.failure = Some(Failure { kind: FailureKind::Malformed, message });
            Flow::Stop
        })
    }

    /// The body has ended as its framing said, at `stamp`: the verdict.
    pub fn finish(&mut self, stamp: Stamp, row: &mut Observation) -> Outcome {
        if let Intake::Stream(frames, decoder) = &mut self.intake {
            let anywhere = frames.ends_anywhere() && self.rules == Rules::Vllm;
            let (failure, rules) = (&mut self.failure, self.rules);
            frames.finish(&mut |message| {
                if anywhere || message == b"[DONE]" || is_json(message) {
                    decoder.message(message, stamp, row, failure);
                } else if rules == Rules::Standard {
                    let message = format!("the stream ended inside an event: {}", excerpt(message));
                    *failure = Some(Failure { kind: FailureKind::Truncated, message });
                }
            });
        }
        self.verdict(row)
    }

    /// The verdict on what has been read.
    pub fn verdict(&mut self, row: &mut Observation) -> Outcome {
        if let Some(failure) = self.failure.take() {
            return Outcome::Failed(failure);
        }
        match &mut self.intake {
            Intake::Whole(decoder) => decoder.finish(row),
            Intake::Stream(_, decoder) => match decoder {
                Decoder::Choices(decoder) => decoder.finish(row),
                Decoder::Responses(decoder) => decoder.finish(row),
                Decoder::Tgi(decoder) => decoder.finish(row),
                Decoder::TrtLlm(decoder) => decoder.finish(row),
                Decoder::Generate(decoder) => decoder.finish(row),
            },
        }
    }
}

impl Decoder {
    fn message(&mut self, message: &[u8], stamp: Stamp, row: &mut Observation, failure: &mut Option<Failure>) -> Flow {
        let read = match self {
            Decoder::Choices(decoder) => return decoder.event(message, stamp, row),
            Decoder::Responses(decoder) => decoder.event(message, stamp, row),
            Decoder::Tgi(decoder) => decoder.event(message, stamp, row),
            Decoder::TrtLlm(decoder) => decoder.event(message, stamp, row),
            Decoder::Generate(decoder) => decoder.event(message, stamp, row),
        };
        match read {
            Ok(()) => Flow::Continue,
            Err(found) => {
                *failure = Some(found);
                Flow::Stop
            }
        }
    }
}
