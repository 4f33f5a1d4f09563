//! `/pooling` and `/rerank` of vLLM: the bodies.

use tacho_core::Request;
use tacho_core::dict;
use tacho_core::json::{Dict, Value};

use super::PayloadSpec;

/// The body of a prompt; members of an object go into the body directly.
pub(super) fn body(payload: &PayloadSpec, request: &Request) -> Result<Dict, &'static str> {
    let mut body = dict! { "model": payload.model_for(request), "truncate_prompt_tokens": -1_i64 };
    match request.content.to_json() {
        Value::Dict(members) => body.update(&members),
        prompt => body.set("input", prompt),
    }
    Ok(body)
}

/// The body of a query and its documents.
pub(super) fn rerank_body(payload: &PayloadSpec, request: &Request) -> Result<Dict, &'static str> {
    let prompt = request.content.to_json();
    let Some([query, documents @ ..]) = prompt.as_list().filter(|texts| texts.len() > 1) else {
        return Err("its prompt is not a query with documents");
    };
    let mut body = Dict::new();
    body.set("model", payload.model_for(request));
    body.set("query", query.clone());
    body.set("documents", documents.to_vec());
    body.set("truncate_prompt_tokens", -1_i64);
    Ok(body)
}
