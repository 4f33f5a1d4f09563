//! The endpoints, one protocol each.

pub(super) mod anthropic;
pub(super) mod audio;
pub(super) mod images;
pub(super) mod info;
pub(super) mod metrics;
pub(super) mod openai;
pub(super) mod others;
pub(super) mod pooling;
pub(super) mod realtime;
pub(super) mod responses;
pub(super) mod speech;

use serde_json::Value;

use super::request::{Ask, Endpoint, Fields, Problem, Source};
use super::response::{Collected, Generation, Script, whole};
use super::{app::App, response::chunks::Chunks};
use anthropic::MessagesScript;
use audio::AudioScript;
use others::Other;
use responses::ResponsesScript;

const EVENTS: &str = "text/event-stream; charset=utf-8";
const PLAIN_EVENTS: &str = "text/event-stream";

/// How requests of an endpoint are read, and how responses are written.
pub(super) struct Protocol {
    pub(super) id_prefix: &'static str,
    pub(super) content_type: &'static str,
    pub(super) read: Read,
    pub(super) script: fn(&Generation) -> Box<dyn Script>,
    pub(super) whole: fn(&Generation, &[Collected]) -> Value,
}

/// Validates a request; prompts are returned separately, not tokenized yet.
type Read = fn(&Fields, &App) -> Result<(Ask, Vec<Source>), Problem>;

impl Endpoint {
    pub(super) fn protocol(self) -> Protocol {
        let row =
            |id_prefix, content_type, read, script, whole| Protocol { id_prefix, content_type, read, script, whole };
        match self {
            Endpoint::Completions => row("cmpl-", EVENTS, openai::completion, Chunks::script, whole::completion),
            Endpoint::Chat => row("chatcmpl-", EVENTS, openai::conversation, Chunks::script, whole::completion),
            Endpoint::Responses => row("resp_", EVENTS, responses::read, ResponsesScript::script, responses::whole),
            Endpoint::Messages => row("chatcmpl-", EVENTS, anthropic::read, MessagesScript::script, anthropic::whole),
            Endpoint::Transcription => {
                row("transcribe-", EVENTS, audio::transcription, AudioScript::script, audio::whole)
            }
            Endpoint::Translation => row("translate-", EVENTS, audio::translation, AudioScript::script, audio::whole),
            Endpoint::Tgi => row("", PLAIN_EVENTS, others::tgi, Other::tgi, others::tgi_whole),
            Endpoint::Triton => row("", PLAIN_EVENTS, others::triton, Other::triton, whole::completion),
            Endpoint::Sglang => row("", PLAIN_EVENTS, others::sglang, Other::sglang, others::sglang_whole),
            Endpoint::Demo => row("", "application/x-ndjson", others::demo, Other::demo, others::demo_whole),
        }
    }
}
