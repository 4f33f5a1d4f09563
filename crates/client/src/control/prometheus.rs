//! The server's metrics page.

use super::Caller;

/// The text of `/metrics`; none when the server has none to give.
pub fn metrics_text(caller: &Caller) -> Option<String> {
    let response = caller.get("/metrics", caller.user_headers()).ok()?;
    (response.status == 200).then(|| String::from_utf8_lossy(&response.body).into_owned())
}
