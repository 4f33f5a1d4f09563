//! `/embeddings` of an Infinity server: the body.

use tacho_core::Request;
use tacho_core::dict;
use tacho_core::json::{Dict, Value};

use super::PayloadSpec;
use super::embeddings::prompt_or_media;

/// Embeddings of the prompt, or of one media object if there is no prompt.
pub(super) fn body(payload: &PayloadSpec, request: &Request) -> Result<Dict, &'static str> {
    body_of(payload, request, request.content.to_json())
}

/// Embeddings of a text or an image; media replaces the prompt.
pub(super) fn clip_body(payload: &PayloadSpec, request: &Request) -> Result<Dict, &'static str> {
    body_of(payload, request, prompt_or_media(request))
}

fn body_of(payload: &PayloadSpec, request: &Request, prompt: Value) -> Result<Dict, &'static str> {
    let mut body = dict! { "model": payload.model_for(request) };
    if prompt.truthy() {
        body.set("input", prompt);
        return Ok(body);
    }
    let media =
        request.media.as_ref().and_then(Value::as_dict).ok_or("it has neither a prompt nor one media object")?;
    let kind = media.get("type").and_then(Value::as_str).ok_or("its media has no type")?;
    let url = media.get(kind).and_then(|content| content.get("url")).ok_or("its media has no url")?;
    body.set("input", url.clone());
    body.set("modality", kind.split('_').next().unwrap_or(kind));
    Ok(body)
}
