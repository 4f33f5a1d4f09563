//! Protocols as pure functions: request to body, response bytes to tokens.

mod audio;
mod audio_file;
mod audio_stream;
mod charset;
mod chat;
mod completions;
mod declared;
mod embeddings;
mod event;
mod expected;
mod form;
mod format;
mod frames;
mod images;
mod kind;
mod members;
mod messages;
mod payload;
mod realtime;
mod reply;
mod response;
mod responses;
mod row;
mod scan;
mod speech;
mod sse;
mod stream;
mod template;
mod tgi;
mod tools;
mod trt_llm;
mod unstreamed;
mod wav;
mod whole;

pub use declared::{BODIES, BUILT_IN_FILES, Declared, FileError, Trace, TraceEvent, built_in_file};
pub use expected::{Encoded, Expected};
pub use format::{Flow, Rules};
use format::{ResponseFormat, Sequences};
pub use kind::BackendKind;
pub use payload::PayloadSpec;
pub(crate) use realtime::PacedInput;
pub use response::ResponseDecoder;
pub(crate) use row::excerpt;
pub use stream::StreamDecoder;
pub use tacho_core::Task;

use std::borrow::Cow;

use tacho_core::Request;
use tacho_core::json::{Dict, Value, write_value};

impl BackendKind {
    /// Encodes the request: the body, byte for byte as upstream sends it, and the properties that the decoder needs.
    pub fn encode(self, payload: &PayloadSpec, request: &Request) -> Result<Encoded, Cow<'static, str>> {
        if let Some(declared) = self.description() {
            return declared.encode(payload, request);
        }
        let fields = self.fields(payload, request)?;
        let mut expected = Expected::of(request);
        if self.is_websocket() {
            let (body, input) = realtime::frames(fields, payload, request)?;
            expected.input = Some(input.into());
            return Ok(Encoded { body, expected });
        }
        let expected = match self.row().format {
            ResponseFormat::Tgi => expected.fixed_by(payload),
            ResponseFormat::TensorRtLlm => expected,
            ResponseFormat::Speech => expected.into_speech(&fields, payload),
            _ if self.task() == Task::Pooling => expected.encoded_as(&fields),
            _ => Expected { unstreamed: payload.unstreams(&fields, request), ..expected },
        };
        let body = match self {
            BackendKind::OpenAiAudio => audio::body(&fields, request)?,
            BackendKind::OpenAiImageEdits => images::form(&fields, request)?,
            _ => {
                let mut text = Vec::with_capacity(256);
                write_value(&mut text, &Value::Dict(fields));
                text
            }
        };
        Ok(Encoded { body, expected })
    }

    pub fn body(self, payload: &PayloadSpec, request: &Request) -> Result<Vec<u8>, Cow<'static, str>> {
        self.encode(payload, request).map(|encoded| encoded.body)
    }

    /// The members of the body: the protocol's own, then the shared ones.
    fn fields(self, payload: &PayloadSpec, request: &Request) -> Result<Dict, &'static str> {
        let row = self.row();
        let mut fields = (row.body)(payload, request)?;
        if payload.ignore_eos && row.takes_ignore_eos {
            fields.set("ignore_eos", true);
        }
        if row.takes_extras {
            payload.merge(&mut fields, request);
        }
        match self {
            BackendKind::AnthropicMessages => tools::rewrite(tools::Form::Messages, &mut fields),
            // For other requests, upstream sends the content as given.
            BackendKind::OpenAiResponses if request.session.is_some() || request.chat_messages.is_some() => {
                tools::rewrite(tools::Form::Responses, &mut fields);
            }
            _ => {}
        }
        Ok(fields)
    }

    /// Number of sequences of a request; vLLM's `num_input_sequences`.
    pub fn input_sequences(self, request: &Request) -> u64 {
        use tacho_core::Content;
        match (self.row().sequences, &request.content) {
            (Sequences::Prompt, Content::Texts(texts)) => texts.len().max(1) as u64,
            (Sequences::Prompt, Content::Json(Value::List(items))) => match items.first() {
                Some(Value::Str(_) | Value::List(_)) => items.len() as u64,
                _ => 1,
            },
            (Sequences::Documents, Content::Texts(texts)) => texts.len().saturating_sub(1) as u64,
            (Sequences::Documents, Content::Ids(ids)) => ids.len().saturating_sub(1) as u64,
            (Sequences::Documents, Content::Json(Value::List(items))) => items.len().saturating_sub(1) as u64,
            _ => 1,
        }
    }

    /// Seconds of audio in a request; vLLM's `input_audio_duration`. Zero unless the protocol sends audio files.
    pub fn audio_seconds(self, request: &Request) -> Result<f64, &'static str> {
        let sends_audio = matches!(self.row().format, ResponseFormat::Audio | ResponseFormat::Realtime);
        if sends_audio { audio::seconds(request) } else { Ok(0.0) }
    }
}
