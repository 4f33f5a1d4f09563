//! Writers of streamed responses, one per protocol: opening, tokens and end.

use std::collections::VecDeque;

use hyper::body::Bytes;

use super::choice::Piece;
use super::chunks::{self, Chunks};
use super::generation::Generation;
use super::repeated::Repeated;
use crate::server::protocol::anthropic::MessagesScript;
use crate::server::protocol::audio::AudioScript;
use crate::server::protocol::demo::DemoScript;
use crate::server::protocol::responded::ResponsesScript;
use crate::server::protocol::sglang::SglangScript;
use crate::server::protocol::tgi::TgiScript;
use crate::server::protocol::triton;
use crate::server::request::ask::Endpoint;
use crate::server::request::problem::Problem;

/// The writer of one stream.
pub(crate) enum Script {
    OpenAi(Chunks),
    Responses(Box<ResponsesScript>),
    Messages(Box<MessagesScript>),
    Sglang(SglangScript),
    Audio(AudioScript),
    Tgi(TgiScript),
    Triton,
    Demo(DemoScript),
}

impl Script {
    /// The writer for a request.
    pub(crate) fn new(generation: &Generation) -> Self {
        match generation.ask.endpoint {
            Endpoint::Completions | Endpoint::Chat => Script::OpenAi(Chunks::new(generation)),
            Endpoint::Responses => Script::Responses(Box::new(ResponsesScript::new(generation))),
            Endpoint::Transcription | Endpoint::Translation => Script::Audio(AudioScript::new(generation)),
            Endpoint::Messages => Script::Messages(Box::default()),
            Endpoint::Sglang => Script::Sglang(SglangScript::default()),
            Endpoint::Tgi | Endpoint::TgiWhole => Script::Tgi(TgiScript::default()),
            Endpoint::Triton => Script::Triton,
            Endpoint::Demo => Script::Demo(DemoScript::new(generation)),
        }
    }

    /// The content type of such a stream.
    pub(crate) fn content_type(endpoint: Endpoint) -> &'static str {
        match endpoint {
            Endpoint::Demo => "application/x-ndjson",
            Endpoint::Tgi | Endpoint::TgiWhole | Endpoint::Triton | Endpoint::Sglang => "text/event-stream",
            _ => "text/event-stream; charset=utf-8",
        }
    }

    /// Events before the first token.
    pub(crate) fn open(&mut self, generation: &Generation, out: &mut VecDeque<Bytes>) {
        match self {
            Script::OpenAi(chunks) if generation.ask.endpoint == Endpoint::Chat => {
                let choices = generation.choices.iter().enumerate();
                out.extend(choices.map(|(index, choice)| chunks.role(index, &choice.prompt.ids)));
            }
            Script::Responses(script) => script.open(generation, out),
            Script::Messages(script) => script.open(generation, out),
            _ => {}
        }
    }

    /// Events of one piece; `repeated` is the echoed prompt.
    pub(crate) fn token(
        &mut self,
        generation: &Generation,
        index: usize,
        piece: &Piece,
        repeated: Option<&Repeated>,
        out: &mut VecDeque<Bytes>,
    ) {
        let choice = &generation.choices[index];
        match self {
            Script::OpenAi(chunks) if choice.call.is_some() && choice.produced > generation.reasoning() => {
                chunks.call(index, choice, piece, out);
            }
            Script::OpenAi(chunks) => out.push_back(chunks.token(index, choice, piece, repeated)),
            Script::Responses(script) => script.token(generation, piece, out),
            Script::Messages(script) => script.token(generation, piece, out),
            Script::Sglang(script) => out.push_back(script.token(generation, piece)),
            Script::Audio(script) => out.push_back(script.token(generation, piece)),
            Script::Tgi(script) => out.push_back(script.token(choice, piece, generation.ask.include_usage)),
            Script::Triton => out.push_back(triton::token(piece)),
            Script::Demo(script) => out.push_back(script.token(index, piece)),
        }
    }

    /// Events after the last token.
    pub(crate) fn close(&mut self, generation: &Generation, out: &mut VecDeque<Bytes>) {
        match self {
            Script::OpenAi(chunks) => {
                if generation.ask.include_usage {
                    out.push_back(chunks.usage(generation.usage()));
                }
                out.push_back(chunks::done());
            }
            Script::Responses(script) => script.close(generation, out),
            Script::Messages(script) => script.close(generation, out),
            Script::Sglang(_) => out.push_back(chunks::done()),
            Script::Audio(script) => script.close(generation, out),
            Script::Tgi(_) | Script::Triton | Script::Demo(_) => {}
        }
    }

    /// An error in place of the rest.
    pub(crate) fn fail(&mut self, problem: &Problem, out: &mut VecDeque<Bytes>) {
        match self {
            Script::OpenAi(_) | Script::Audio(_) => out.extend([chunks::failure(&problem.body), chunks::done()]),
            Script::Responses(script) => out.push_back(script.failure(&problem.message)),
            Script::Messages(_) => out.push_back(MessagesScript::failure(&problem.message)),
            Script::Sglang(_) => out.extend([chunks::failure(&problem.body), chunks::done()]),
            Script::Tgi(_) => out.push_back(TgiScript::failure(&problem.message)),
            Script::Triton => out.push_back(triton::failure(&problem.message)),
            Script::Demo(_) => out.push_back(format!("{}\n", problem.body).into()),
        }
    }
}
