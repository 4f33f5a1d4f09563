//! `/v1/audio/speech`: the body. `audio_stream` decodes the responses.

use tacho_core::{AudioFormat, Request, dict, json::Dict};

use super::PayloadSpec;

/// The format of `pcm` in OpenAI's API: 24 kHz, mono, 16 bits.
pub(super) const PCM: AudioFormat = AudioFormat { rate: 24_000, frame_bytes: 2 };

pub(super) fn body(payload: &PayloadSpec, request: &Request) -> Result<Dict, &'static str> {
    Ok(dict! {
        "model": payload.model_for(request),
        "input": text(request)?,
        "voice": "alloy",
        "response_format": "pcm",
    })
}

/// The body as vLLM-Omni's benchmark sends it.
pub(super) fn omni_body(payload: &PayloadSpec, request: &Request) -> Result<Dict, &'static str> {
    Ok(dict! {
        "model": payload.model_for(request),
        "input": text(request)?,
        "stream": true,
        "stream_format": "audio",
        "response_format": "pcm",
    })
}

fn text(request: &Request) -> Result<&str, &'static str> {
    request.content.as_text().ok_or("its prompt is not a text")
}
