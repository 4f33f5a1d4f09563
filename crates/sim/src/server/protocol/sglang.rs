//! `/generate` of SGLang: a text or ids in, the text so far out with every event.

use hyper::body::Bytes;
use tacho_core::json::Value;

use crate::server::request::ask::{Ask, Endpoint};
use crate::server::request::fields::Fields;
use crate::server::request::problem::Problem;
use crate::server::request::prompt::{self, Source};
use crate::server::request::sampling;
use crate::server::response::choice::Piece;
use crate::server::response::escape::{list, quoted};
use crate::server::response::generation::Generation;
use tacho_engine::Finish;

/// Tokens generated unless the request says otherwise.
const NEW_TOKENS: i64 = 128;

/// Returns whether a request at the shared path uses SGLang's fields.
pub(crate) fn is_meant(fields: &Fields) -> bool {
    fields.has("text") || fields.has("input_ids")
}

pub(crate) fn read(fields: &Fields, vocabulary: usize) -> Result<(Ask, Vec<Source>), Problem> {
    let sources = match fields.get("input_ids").and_then(Value::as_list) {
        Some(lists) if lists.iter().all(|list| list.as_list().is_some()) && !lists.is_empty() => lists
            .iter()
            .map(|list| Ok(Source::Ids(prompt::ids(list.as_list().unwrap_or(&[]), vocabulary)?)))
            .collect::<Result<_, Problem>>()?,
        Some(ids) if !ids.is_empty() => vec![Source::Ids(prompt::ids(ids, vocabulary)?)],
        _ => fields.texts("text")?.into_iter().map(|text| Source::Text(text, true)).collect(),
    };
    if sources.is_empty() {
        return Err(Problem::bad_request("Either text, input_ids or input_embeds should be provided."));
    }
    let parameters = fields.within("sampling_params");
    sampling::check(&parameters, vocabulary)?;
    let ask = Ask {
        n: sampling::count(&parameters)?,
        min_tokens: usize::try_from(parameters.int("min_new_tokens")?.unwrap_or(0)).unwrap_or(0),
        ignore_eos: parameters.flag("ignore_eos")?,
        stop: parameters.texts("stop")?,
        keep_stop: parameters.flag("no_stop_trim")?,
        seed: parameters.int("sampling_seed")?.map(|seed| seed as u64),
        stream: fields.flag("stream")?,
        ..Ask::plain(Endpoint::Sglang, Some(parameters.int("max_new_tokens")?.unwrap_or(NEW_TOKENS)))
    };
    Ok((ask, sources))
}

/// Writes the events of one response.
#[derive(Default)]
pub(crate) struct SglangScript {
    text: String,
}

impl SglangScript {
    pub(crate) fn token(&mut self, generation: &Generation, piece: &Piece) -> Bytes {
        self.text.push_str(&piece.text);
        format!("data: {}\n\n", object(generation, 0, &self.text, piece.last)).into()
    }
}

/// The non-streamed response.
pub(crate) fn whole(generation: &Generation, texts: &[&str]) -> Vec<u8> {
    if let [text] = texts {
        return object(generation, 0, text, true).into_bytes();
    }
    let mut out = Vec::new();
    list(&mut out, texts.iter().enumerate(), |out, (index, text)| {
        out.extend_from_slice(object(generation, index, text, true).as_bytes());
    });
    out
}

fn object(generation: &Generation, index: usize, text: &str, last: bool) -> String {
    let choice = &generation.choices[index];
    let reason = match (last, choice.finish) {
        (false, _) => "null".to_owned(),
        (true, Finish::Stop) => match choice.stop_reason() {
            Some(stop) => format!(r#"{{"type":"stop","matched":{}}}"#, quoted(stop)),
            None => r#"{"type":"stop","matched":null}"#.to_owned(),
        },
        (true, Finish::Length) => format!(r#"{{"type":"length","length":{}}}"#, choice.produced),
    };
    format!(
        r#"{{"text":{},"meta_info":{{"id":{},"finish_reason":{reason},"prompt_tokens":{},"completion_tokens":{},"cached_tokens":{}}}}}"#,
        quoted(text),
        quoted(&generation.id),
        choice.prompt.ids.len(),
        choice.produced,
        generation.usage().cached
    )
}
