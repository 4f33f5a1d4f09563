//! `/v1/completions`: the body.

use tacho_core::{Request, dict, json::Dict};

use super::PayloadSpec;

pub(super) fn body(payload: &PayloadSpec, request: &Request) -> Result<Dict, &'static str> {
    Ok(fields(payload, request, None))
}

/// The body of the legacy backends, which always set the temperature.
pub(super) fn legacy_body(payload: &PayloadSpec, request: &Request) -> Result<Dict, &'static str> {
    Ok(fields(payload, request, Some(0.0)))
}

fn fields(payload: &PayloadSpec, request: &Request, temperature: Option<f64>) -> Dict {
    dict! {
        "model": payload.model_for(request),
        "prompt": request.content.to_json(),
        "temperature"?: temperature,
        "repetition_penalty": 1.0,
        "max_tokens": request.output_len,
        "logprobs": payload.logprobs,
        "stream": true,
        "stream_options": include_usage(),
    }
}

/// The body of a DeepSpeed-MII request, before the fields that all backends share.
pub(super) fn mii_body(payload: &PayloadSpec, request: &Request) -> Result<Dict, &'static str> {
    Ok(dict! {
        "model": payload.model_for(request),
        "prompt": request.content.to_json(),
        "max_tokens": request.output_len,
        "temperature": 0.01,
        "top_p": 1.0,
    })
}

pub(super) fn include_usage() -> Dict {
    dict! { "include_usage": true }
}
