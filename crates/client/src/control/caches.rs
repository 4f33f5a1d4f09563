//! Resets the server's caches, so that a run starts cold.

use std::time::Duration;

use tacho_core::json::Value;

use super::call::Limits;
use super::{Caller, Response};
use crate::{BackendKind, Error};

/// A busy server may wait for its requests in flight.
const LIMITS: Limits = Limits { time: Duration::from_secs(60), body: 1 << 20 };

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
    let response = caller.within(LIMITS).post(path, caller.user_headers(), b"")?;
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
