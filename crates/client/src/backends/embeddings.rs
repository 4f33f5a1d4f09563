//! The bodies of requests without generated text: embeddings in their forms, pooling, reranking.

use tacho_core::json::{Dict, Value};
use tacho_core::{Request, dict};

use super::PayloadSpec;
use super::chat::{MediaPlace, messages};

pub(super) fn body(payload: &PayloadSpec, request: &Request) -> Result<Dict, &'static str> {
    Ok(dict! {
        "model": payload.model_for(request),
        "input": request.content.to_json(),
        "truncate_prompt_tokens": -1_i64,
    })
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

pub(super) fn message_body(
    payload: &PayloadSpec,
    request: &Request,
    prompt: Value,
    position: MediaPlace,
) -> Result<Dict, &'static str> {
    Ok(dict! {
        "model": payload.model_for(request),
        "messages": messages(prompt, request.media.as_ref(), position)?,
        "truncate_prompt_tokens": -1_i64,
    })
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

/// vLLM's pooling; members of an object go into the body directly.
pub(super) fn pooling_body(payload: &PayloadSpec, request: &Request) -> Result<Dict, &'static str> {
    let members = match request.content.to_json() {
        Value::Dict(members) => members,
        prompt => dict! { "input": prompt },
    };
    Ok(dict! { "model": payload.model_for(request), "truncate_prompt_tokens": -1_i64, ..members })
}

pub(super) fn rerank_body(payload: &PayloadSpec, request: &Request) -> Result<Dict, &'static str> {
    let prompt = request.content.to_json();
    let Some([query, documents @ ..]) = prompt.as_list().filter(|texts| texts.len() > 1) else {
        return Err("its prompt is not a query with documents");
    };
    Ok(dict! {
        "model": payload.model_for(request),
        "query": query.clone(),
        "documents": documents.to_vec(),
        "truncate_prompt_tokens": -1_i64,
    })
}

/// Infinity's embeddings of the prompt, or of one media object if there is no prompt.
pub(super) fn infinity_body(payload: &PayloadSpec, request: &Request, prompt: Value) -> Result<Dict, &'static str> {
    let model = payload.model_for(request);
    if prompt.truthy() {
        return Ok(dict! { "model": model, "input": prompt });
    }
    let media =
        request.media.as_ref().and_then(Value::as_dict).ok_or("it has neither a prompt nor one media object")?;
    let kind = media.text("type").ok_or("its media has no type")?;
    let url = media.get(kind).and_then(|content| content.get("url")).ok_or("its media has no url")?;
    Ok(dict! { "model": model, "input": url.clone(), "modality": kind.split('_').next().unwrap_or(kind) })
}
