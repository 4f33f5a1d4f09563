//! The server's metrics endpoint.

use std::time::Duration;

use super::Caller;
use super::call::Limits;
use crate::Error;

/// A slower response describes another time, and delays the run.
const LIMITS: Limits = Limits { time: Duration::from_secs(5), body: 64 << 20 };

/// The text of `/metrics`; `None` if the server has no such endpoint.
pub fn metrics_page(caller: &Caller) -> Result<Option<String>, Error> {
    let response = caller.optional("/metrics", LIMITS).get("/metrics", caller.user_headers())?;
    Ok((response.status == 200).then(|| response.text()))
}
