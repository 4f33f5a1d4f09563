//! `generate_stream` of a Triton model with TensorRT-LLM: requests, and one event per token.

use hyper::body::Bytes;
use tacho_core::json::Value;

use crate::server::request::ask::{Ask, Endpoint};
use crate::server::request::fields::Fields;
use crate::server::request::problem::{Invalid, Problem};
use crate::server::request::prompt::Source;
use crate::server::response::choice::Piece;
use crate::server::response::escape::{escape, quoted};

pub(crate) fn read(fields: &Fields) -> Result<(Ask, Vec<Source>), Problem> {
    let prompt = match fields.required("text_input")? {
        Value::Str(text) => text.clone(),
        other => {
            let finding = Invalid::member("string_type", "text_input", "Input should be a valid string", other);
            return Err(Problem::invalid(&[finding]));
        }
    };
    let min_tokens = usize::try_from(fields.int("min_length")?.unwrap_or(0)).unwrap_or(0);
    let ask = Ask {
        min_tokens,
        stop: stop_words(fields)?,
        seed: fields.int("random_seed")?.map(|seed| seed as u64),
        ..Ask::plain(Endpoint::Triton, fields.int("max_tokens")?)
    };
    Ok((ask, vec![Source::Text(prompt, true)]))
}

/// `stop_words`, which other protocols call `stop`.
fn stop_words(fields: &Fields) -> Result<Vec<String>, Problem> {
    fields.texts(if fields.has("stop_words") { "stop_words" } else { "stop" })
}

pub(crate) fn token(piece: &Piece) -> Bytes {
    let mut out = Vec::with_capacity(piece.text.len() + 200);
    out.extend_from_slice(
        br#"data: {"batch_index":0,"cum_log_probs":0.0,"model_name":"ensemble","model_version":"1","output_log_probs":0.0,"sequence_end":false,"sequence_id":0,"sequence_index":0,"sequence_start":false,"text_output":""#,
    );
    escape(&mut out, &piece.text);
    out.extend_from_slice(b"\"}\n\n");
    out.into()
}

pub(crate) fn failure(message: &str) -> Bytes {
    format!("data: {{\"error\":{}}}\n\n", quoted(message)).into()
}
