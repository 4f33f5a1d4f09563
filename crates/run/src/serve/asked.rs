//! What is known of each request before it is sent, as far as a result needs it.

use tacho_client::BackendKind;
use tacho_core::Request;
use tacho_rowlog::Asked;

use crate::Error;

/// What is asked by each request.
///
/// # Errors
/// When a sound cannot be measured.
pub(super) fn of(backend: BackendKind, requests: &[Request]) -> Result<Vec<Asked>, Error> {
    requests.iter().enumerate().map(|(index, request)| one(backend, index, request)).collect()
}

fn one(backend: BackendKind, index: usize, request: &Request) -> Result<Asked, Error> {
    Ok(Asked {
        prompt_len: request.prompt_len,
        output_len: request.output_len,
        input_sequences: backend.input_sequences(request),
        audio_seconds: audio_seconds(backend, index, request)?,
        lora: request.lora.clone(),
        request_id: request.id.clone(),
    })
}

/// How long the sound of a request plays; nothing for protocols that send none.
fn audio_seconds(backend: BackendKind, index: usize, request: &Request) -> Result<f64, Error> {
    if backend != BackendKind::OpenAiAudio {
        return Ok(0.0);
    }
    let unfit = |reason| tacho_client::Error::Unfit { index, backend: backend.name(), reason };
    backend.audio_seconds(request).map_err(|reason| unfit(reason).into())
}
