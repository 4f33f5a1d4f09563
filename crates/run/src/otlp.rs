//! Sends a run to an OpenTelemetry collector: OTLP over HTTP, in JSON.

use std::time::Duration;

use tacho_client::{BackendKind, EndpointSpec, Url, control::Caller};

use crate::Error;

const TIMEOUT: Duration = Duration::from_secs(10);

pub struct Collector {
    caller: Caller,
}

impl Collector {
    /// The collector at this address; the paths of signals are appended to its own.
    pub fn at(address: &str) -> Result<Self, Error> {
        let url = Url::parse(address).map_err(Error::Client)?;
        let path = url.path.trim_end_matches('/').to_owned();
        let endpoint = EndpointSpec::new(url, BackendKind::OpenAi);
        Ok(Collector { caller: Caller::new(&endpoint, &path, TIMEOUT).map_err(Error::Client)? })
    }

    /// Posts a body for one signal: `metrics` or `traces`.
    pub fn post(&self, signal: &str, body: &str) -> Result<(), Error> {
        let path = format!("/v1/{signal}");
        let mut headers = self.caller.user_headers();
        headers.set("Content-Type", "application/json");
        let silent = |error| Error::silent(self.caller.url(&path), error);
        let response = self.caller.post(&path, headers, body.as_bytes()).map_err(silent)?;
        match response.status {
            200..=299 => Ok(()),
            status => Err(Error::Collector { url: self.caller.url(&path), status, reason: response.reason.into() }),
        }
    }
}
