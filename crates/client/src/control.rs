//! The untimed calls around a run: models, tokenizer, metrics, profiler, caches.

mod call;
mod models;
mod server_info;
mod tokenize;

use std::time::Duration;

use call::Limits;
pub use call::{Caller, Response};
pub use models::{ServedModel, first_model, models};
pub use server_info::{ServerInfo, server_info};
use tacho_core::json::Value;
pub use tokenize::TokenizeServer;

use crate::{BackendKind, Error};

/// A busy server may wait for its requests in flight.
const RESET: Limits = Limits { time: Duration::from_secs(60), body: 1 << 20 };

/// Resets the server's caches: SGLang's with one call, vLLM's one by one. Servers without multimodal caches may lack
/// the endpoint for them.
pub fn reset_caches(caller: &Caller, backend: BackendKind) -> Result<(), Error> {
    let (first, others): (_, &[&str]) = match backend {
        BackendKind::SgLang => ("/flush_cache", &[]),
        _ => ("/reset_prefix_cache", &["/reset_mm_cache", "/reset_encoder_cache"]),
    };
    reset(caller, first, false)?;
    others.iter().try_for_each(|path| reset(caller, path, true))
}

fn reset(caller: &Caller, path: &str, optional: bool) -> Result<(), Error> {
    let response = caller.within(RESET).post(path, caller.user_headers(), b"")?;
    let refused = |reason: String| Err(Error::Call { method: "POST", url: caller.url(path), reason });
    match response.status {
        404 if optional => Ok(()),
        404 => refused("the server has no such call: vLLM has it with VLLM_SERVER_DEV_MODE=1".to_owned()),
        // Some servers refuse inside a 200 response.
        200 if is_refusal(&response) => refused("the server refused: is it serving other clients?".to_owned()),
        200 => Ok(()),
        _ => Err(caller.refused("POST", path, &response, "")),
    }
}

fn is_refusal(response: &Response) -> bool {
    response.json().is_ok_and(|response| matches!(response.get("success"), Some(Value::Bool(false))))
}

const START_PROFILE: Limits = RESET;
/// Writing a profile takes minutes for a large model, but not hours.
const STOP_PROFILE: Limits = Limits { time: Duration::from_secs(1800), body: 1 << 20 };

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProfilerCall {
    Start,
    Stop,
}

impl ProfilerCall {
    pub fn path(self) -> &'static str {
        match self {
            ProfilerCall::Start => "/start_profile",
            ProfilerCall::Stop => "/stop_profile",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProfilerResponse {
    Done,
    Missing,
    /// The server has a profiler, but responded with this status.
    Refused(u16),
}

pub fn profile(caller: &Caller, call: ProfilerCall) -> Result<ProfilerResponse, Error> {
    let limits = if call == ProfilerCall::Start { START_PROFILE } else { STOP_PROFILE };
    Ok(match caller.within(limits).post(call.path(), caller.user_headers(), b"")?.status {
        200 => ProfilerResponse::Done,
        404 | 405 => ProfilerResponse::Missing,
        status => ProfilerResponse::Refused(status),
    })
}

/// A slower response describes another time, and delays the run.
const METRICS: Limits = Limits { time: Duration::from_secs(5), body: 64 << 20 };

/// The text of `/metrics`; `None` if the server has no such endpoint.
pub fn metrics_page(caller: &Caller) -> Result<Option<String>, Error> {
    let response = caller.optional("/metrics", METRICS).get("/metrics", caller.user_headers())?;
    Ok((response.status == 200).then(|| response.text()))
}
