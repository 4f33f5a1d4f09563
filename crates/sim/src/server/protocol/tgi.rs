//! `/generate_stream` of Text Generation Inference: requests, and one event per token.

use hyper::body::Bytes;
use tacho_core::json::Value;

use crate::server::request::ask::{Ask, Endpoint};
use crate::server::request::fields::Fields;
use crate::server::request::problem::{Invalid, Problem};
use crate::server::request::prompt::Source;
use crate::server::response::choice::{Choice, Piece};
use crate::server::response::escape::{escape, quote, quoted};
use crate::server::response::generation::Generation;

/// Tokens generated unless the request says otherwise.
const NEW_TOKENS: i64 = 100;

pub(crate) fn read(endpoint: Endpoint, fields: &Fields) -> Result<(Ask, Vec<Source>), Problem> {
    let prompt = match fields.required("inputs")? {
        Value::Str(text) => text.clone(),
        other => {
            let finding = Invalid::member("string_type", "inputs", "Input should be a valid string", other);
            return Err(Problem::invalid(&[finding]));
        }
    };
    let parameters = fields.within("parameters");
    let ask = Ask {
        ignore_eos: parameters.flag("ignore_eos_token")?,
        include_usage: parameters.flag("details")?,
        seed: parameters.int("seed")?.map(|seed| seed as u64),
        stop: parameters.texts("stop")?,
        stream: endpoint == Endpoint::Tgi || fields.flag("stream")?,
        ..Ask::plain(endpoint, Some(parameters.int("max_new_tokens")?.unwrap_or(NEW_TOKENS)))
    };
    Ok((ask, vec![Source::Text(prompt, true)]))
}

/// The non-streamed response: an object, with details if requested.
pub(crate) fn whole(generation: &Generation, text: &str) -> Vec<u8> {
    let choice = &generation.choices[0];
    let details = if generation.ask.include_usage { details(choice) } else { String::new() };
    format!(r#"{{"generated_text":{}{details}}}"#, quoted(text)).into_bytes()
}

fn details(choice: &Choice) -> String {
    let reason = if choice.stop_reason().is_some() { "stop_sequence" } else { choice.finish.name() };
    let reason = if reason == "stop" { "eos_token" } else { reason };
    format!(
        r#","details":{{"finish_reason":"{reason}","generated_tokens":{},"seed":null,"input_length":{}}}"#,
        choice.produced,
        choice.prompt.ids.len()
    )
}

/// Writes the events of one response.
#[derive(Default)]
pub(crate) struct TgiScript {
    text: String,
    index: usize,
}

impl TgiScript {
    pub(crate) fn token(&mut self, choice: &Choice, piece: &Piece, wants_details: bool) -> Bytes {
        self.text.push_str(&piece.text);
        self.index += piece.tokens().count();
        let head = format!(r#"data:{{"index":{},"token":{{"id":{},"text":""#, self.index, piece.token);
        let mut out = Vec::with_capacity(head.len() + piece.text.len() + 96);
        out.extend_from_slice(head.as_bytes());
        escape(&mut out, &piece.text);
        out.extend_from_slice(br#"","logprob":-1.0,"special":false},"generated_text":"#);
        if piece.last {
            quote(&mut out, &self.text);
            let details = if wants_details { details(choice) } else { r#","details":null"#.to_owned() };
            out.extend_from_slice(details.as_bytes());
        } else {
            out.extend_from_slice(br#"null,"details":null"#);
        }
        out.extend_from_slice(b"}\n\n");
        out.into()
    }

    pub(crate) fn failure(message: &str) -> Bytes {
        format!("data:{{\"error\":{},\"error_type\":\"generation\"}}\n\n", quoted(message)).into()
    }
}
