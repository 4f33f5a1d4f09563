//! `/v1/embeddings` in its four forms: the bodies.

use tacho_core::Request;
use tacho_core::json::{Dict, Value};

use super::PayloadSpec;
use super::chat::{MediaPlace, messages};

/// Embeddings of texts or token IDs.
pub(super) fn body(payload: &PayloadSpec, request: &Request) -> Result<Dict, &'static str> {
    let mut body = Dict::new();
    body.set("model", payload.model_for(request));
    body.set("input", request.content.to_json());
    body.set("truncate_prompt_tokens", -1_i64);
    Ok(body)
}

pub(super) fn chat_body(payload: &PayloadSpec, request: &Request) -> Result<Dict, &'static str> {
    message_body(payload, request, request.content.to_json(), MediaPlace::AfterText)
}

/// Embeddings of a text or an image; an image replaces the text.
pub(super) fn clip_body(payload: &PayloadSpec, request: &Request) -> Result<Dict, &'static str> {
    message_body(payload, request, prompt_or_media(request), MediaPlace::AfterText)
}

/// Embeddings of an image with an instruction, which is a question for every other request.
pub(super) fn vlm2vec_body(payload: &PayloadSpec, request: &Request) -> Result<Dict, &'static str> {
    let prompt = request.content.to_json();
    let prompt = match (has_media(request), is_odd(request.id.as_deref()), &prompt) {
        (false, ..) => prompt,
        (true, false, _) => Value::from("Represent the given image."),
        (true, true, Value::Str(text)) => {
            Value::from(format!("Represent the given image with the following question: {text}"))
        }
        (true, true, _) => return Err("its prompt is not a text"),
    };
    message_body(payload, request, prompt, MediaPlace::BeforeText)
}

fn message_body(
    payload: &PayloadSpec,
    request: &Request,
    prompt: Value,
    place: MediaPlace,
) -> Result<Dict, &'static str> {
    let mut body = Dict::new();
    body.set("model", payload.model_for(request));
    body.set("messages", messages(prompt, request.media.as_ref(), place)?);
    body.set("truncate_prompt_tokens", -1_i64);
    Ok(body)
}

/// The prompt, or an empty one if media replaces it.
pub(super) fn prompt_or_media(request: &Request) -> Value {
    if has_media(request) { Value::from("") } else { request.content.to_json() }
}

fn has_media(request: &Request) -> bool {
    request.media.as_ref().is_some_and(Value::truthy)
}

/// Whether the number at the end of an ID is odd.
fn is_odd(id: Option<&str>) -> bool {
    id.and_then(|id| id.chars().last()).and_then(|last| last.to_digit(10)).is_some_and(|digit| digit % 2 == 1)
}
