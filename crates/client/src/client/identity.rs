//! The identity of a request: what is sent, without what differs between runs of the same workload. The host, the base
//! URL's path, secrets, request ids and the random parts of a WebSocket are left out.

use tacho_core::Request;
use tacho_core::secret::{is_secret_name, redact_url};

use super::{compose, refuse_compression};
use crate::{EndpointSpec, Error, PayloadSpec, backends::Encoded, websocket};

/// Headers that differ between runs.
const PER_RUN: [&str; 2] = ["x-request-id", "sec-websocket-key"];

#[derive(Debug)]
pub struct RequestIdentity {
    endpoint: EndpointSpec,
    payload: PayloadSpec,
    target: String,
}

impl RequestIdentity {
    /// For requests to this endpoint; `base_path` is the path of the base URL.
    pub fn new(mut endpoint: EndpointSpec, base_path: &str, payload: &PayloadSpec) -> Self {
        endpoint.name_model(&payload.model);
        let path = endpoint.url.path.strip_prefix(base_path).unwrap_or(&endpoint.url.path);
        let target = format!("{} {}", endpoint.backend.method(), redact_url(path));
        RequestIdentity { endpoint, payload: payload.clone(), target }
    }

    /// Passes the parts of a request's identity to `take`: method, path and headers; the body; the times of its parts if
    /// it is sent in several. Fails if the request cannot be encoded for this backend.
    pub fn parts(&self, index: usize, request: &Request, mut take: impl FnMut(&[u8])) -> Result<(), Error> {
        let (mut headers, Encoded { mut body, expected }) = compose(&self.endpoint, &self.payload, index, request)?;
        refuse_compression(&self.endpoint, &expected, &mut headers);
        let mut head = self.target.clone();
        for (name, value) in headers.iter().filter(|(name, _)| self.is_shared(name)) {
            head += &format!("\n{}: {value}", name.to_ascii_lowercase());
        }
        take(head.as_bytes());
        if let Some(input) = &expected.input {
            let micros: Vec<u128> = input.steps.iter().map(|(due, _)| due.as_micros()).collect();
            take(format!("{micros:?}").as_bytes());
            websocket::unmask(&mut body);
        }
        take(&body);
        Ok(())
    }

    /// Whether a header is equal in all runs of the same workload.
    fn is_shared(&self, name: &str) -> bool {
        let is = |other: &str| other.eq_ignore_ascii_case(name);
        let backend = self.endpoint.backend;
        let is_key = || backend.key_headers().iter().any(|(key, _)| is(key));
        !is_secret_name(name) && !is_key() && !PER_RUN.into_iter().chain(backend.id_header()).any(is)
    }
}
