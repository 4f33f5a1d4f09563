//! OAuth 2 client credentials (RFC 6749, section 4.4).

use std::{error::Error as _, time::Duration};

use tacho_core::{Secret, json::parse, secret::remember};

use super::token::{self, Token};
use super::unix_seconds;
use crate::{EndpointSpec, Error, Headers, backends::excerpt, control::Caller, transport::connect::basic};

/// Time limit of a request for a token.
const TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Debug, Clone)]
pub struct OAuthSpec {
    /// The token endpoint, with its own connection settings.
    pub endpoint: Box<EndpointSpec>,
    pub client_id: String,
    pub client_secret: Secret,
    /// The scopes to request, separated by spaces.
    pub scope: Option<String>,
}

pub(super) fn fetch(spec: &OAuthSpec) -> Result<Token, String> {
    remember([spec.client_secret.clone()]);
    let url = &spec.endpoint.url;
    let failed = |error: Error| match error {
        Error::Unreachable { source, .. } => format!("cannot reach the token endpoint {url}: {source}"),
        error => error.source().map_or_else(|| error.to_string(), |source| format!("{error}: {source}")),
    };
    let mut headers = Headers::default();
    headers.set("Content-Type", "application/x-www-form-urlencoded");
    headers.set("Accept", "application/json");
    // The ID and the secret are form-encoded first (section 2.3.1).
    let secret = Secret::new(form_encoded(spec.client_secret.expose()));
    headers.set("Authorization", &basic(&(form_encoded(&spec.client_id), secret)));
    let mut body = "grant_type=client_credentials".to_owned();
    if let Some(scope) = &spec.scope {
        body += &format!("&scope={}", form_encoded(scope));
    }
    let caller = Caller::new(&spec.endpoint, &url.path, TIMEOUT).map_err(failed)?;
    let response = caller.post("", headers, body.as_bytes()).map_err(failed)?;
    let text = String::from_utf8_lossy(response.unredacted());
    if response.status != 200 {
        let reason = explanation(&text);
        return Err(format!("the token endpoint {url} answered {}: {reason}", response.status));
    }
    token::read(&text, unix_seconds()).map_err(|reason| format!("the token endpoint {url} returned no token: {reason}"))
}

/// The standard's error and description, or the beginning of the text.
pub(super) fn explanation(text: &str) -> String {
    let json = parse(text).ok();
    let field = |name: &str| json.as_ref().and_then(|json| json.text(name));
    match (field("error"), field("error_description")) {
        (Some(error), Some(description)) => excerpt(format!("{error}: {description}").as_bytes()),
        (Some(error), None) => excerpt(error.as_bytes()),
        _ => excerpt(text.as_bytes()),
    }
}

/// Encodes a value as in a form, with `%20` for a space, which is valid there too.
fn form_encoded(text: &str) -> String {
    crate::url::percent_encoded(text.bytes(), b"")
}
