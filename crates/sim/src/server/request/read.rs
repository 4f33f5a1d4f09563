//! Dispatch of a request to the reader of its protocol.

use super::ask::{Ask, Endpoint};
use super::fields::Fields;
use super::problem::Problem;
use super::prompt::Source;
use crate::server::app::App;
use crate::server::protocol::{anthropic, audio, demo, openai, responses, sglang, tgi, triton};

/// Validates a request; prompts are returned separately, not tokenized yet.
pub(crate) fn ask(endpoint: Endpoint, fields: &Fields, app: &App) -> Result<(Ask, Vec<Source>), Problem> {
    let vocabulary = app.spec.tokenizer.full_vocab_size();
    match endpoint {
        Endpoint::Completions => openai::completion(fields, vocabulary),
        Endpoint::Chat => openai::conversation(fields, app),
        Endpoint::Responses => responses::read(fields, app),
        Endpoint::Messages => anthropic::read(fields, app),
        Endpoint::Transcription | Endpoint::Translation => audio::read(endpoint, fields),
        Endpoint::Tgi | Endpoint::TgiWhole => tgi::read(endpoint, fields),
        Endpoint::Triton => triton::read(fields),
        Endpoint::Sglang => sglang::read(fields, vocabulary),
        Endpoint::Demo => demo::read(fields, vocabulary),
    }
}
