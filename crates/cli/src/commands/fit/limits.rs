//! Scheduler limits from flags, the server's log and its endpoints.

use std::time::Duration;

use anyhow::Context;
use tacho_client::EndpointSpec;
use tacho_client::control::{Caller, metrics_page};
use tacho_forecast::fit::KnownLimits;

use crate::args::fit::FitArgs;

const TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes read from the start of the log, which contains the limits.
const LOG_START: usize = 4 << 20;

/// Returns the limits stated by any source.
pub(super) fn stated(args: &FitArgs, endpoint: Option<&EndpointSpec>) -> anyhow::Result<KnownLimits> {
    let mut known = KnownLimits::default();
    args.limits.given().iter().for_each(|(name, value)| known.learn(name, *value, "flag"));
    if let Some(path) = &args.limits.server_log {
        let text = std::fs::read(path).with_context(|| format!("--server-log {path} cannot be read"))?;
        known.read(&String::from_utf8_lossy(&text[..text.len().min(LOG_START)]), "server log");
    }
    if let Some(endpoint) = endpoint {
        read_endpoints(&mut known, endpoint);
    }
    Ok(known)
}

/// Endpoints that the server does not have are skipped.
fn read_endpoints(known: &mut KnownLimits, endpoint: &EndpointSpec) {
    let Ok(caller) = Caller::new(endpoint, "", TIMEOUT) else { return };
    if let Ok(Some(page)) = metrics_page(&caller) {
        let line = page.lines().find(|line| line.starts_with("vllm:cache_config_info"));
        known.read(line.unwrap_or_default(), "/metrics");
    }
    if let Ok(models) = caller.get("/v1/models", caller.user_headers()).map(|answer| answer.text()) {
        known.read(&models, "/v1/models");
    }
}
