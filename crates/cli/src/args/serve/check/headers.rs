//! Checks of texts that are sent as headers.

use tacho_args::repr::quoted;
use tacho_client::Headers;
use tacho_core::Secret;

use crate::args::error::{ArgumentError, ensure};
use crate::args::serve::ServeArgs;

/// Checks texts that are sent as headers by the client's rule, and names the flag in the error.
pub(super) fn check(args: &ServeArgs) -> Result<(), ArgumentError> {
    let fits = |name: &str, value: &str| {
        let mut headers = Headers::default();
        headers.set(name, value);
        headers.check().is_ok()
    };
    for (name, value) in &args.target.header {
        ensure(fits(name, value), || bad_header("--header", name))?;
    }
    let key = args.target.api_key.as_ref().map(Secret::expose).unwrap_or_default();
    for (flag, name, value) in
        [("--api-key", "Authorization", key), ("--request-id-prefix", "x-request-id", &args.content.request_id_prefix)]
    {
        ensure(fits(name, value), || bad_header(flag, name))?;
    }
    Ok(())
}

pub(super) fn bad_header(flag: &str, name: &str) -> ArgumentError {
    let name = quoted(name);
    ArgumentError::other(format!(
        "{flag}: the header {name} would hold a character that HTTP does not allow, such as a line end"
    ))
}
