//! The client of a run: its server, and all its requests, encoded before the run.

mod identity;
pub(crate) mod requests;

use std::sync::atomic::{AtomicBool, Ordering};
use std::{io, sync::Arc, time::Duration};

use tacho_core::secret::{redact_known, remember, secrets_of_json};
use tacho_core::{Request, SpillList, SystemClock, json::parse};

use crate::backends::{Encoded, Expected};
use crate::replicas::{Assignment, Replica, Replicas};
use crate::sign_in::{SignIn, Signer};
use crate::transport::{http1, sys};
use crate::{EndpointSpec, Error, Headers, PayloadSpec, ReplicaHealth, Rules, transport::connect::route_headers};
pub use identity::RequestIdentity;
use requests::{Batch, Requests};

/// Generous estimate of open files other than connections.
const OTHER_FILES: u64 = 64;

/// Time between two checks for requests to encode.
const ENCODE_INTERVAL: Duration = Duration::from_millis(5);

#[derive(Debug, Clone, Copy, Default)]
pub struct ClientPlan {
    pub preconnect: usize,
    /// Whether to keep an idle connection in reserve during the run, so that no request waits for one.
    pub spare: bool,
    /// Maximum number of open connections, if known.
    pub at_most: Option<usize>,
}

/// Raises the limit of open files as far as the system allows; returns the number of connections that fit.
pub fn connection_limit() -> u64 {
    sys::raise_open_file_limit().saturating_sub(OTHER_FILES)
}

/// An encoded HTTP request. If requests sign in, its first lines are missing: they are written when it is sent.
#[derive(Clone)]
pub(crate) struct Prepared {
    pub(crate) bytes: Arc<[u8]>,
    pub(crate) expected: Expected,
    pub(crate) assignment: Assignment,
}

impl Prepared {
    /// Remembers the secrets in the body, which may come from a backend file.
    fn remember_secrets(&self) {
        let start = memchr::memmem::find(&self.bytes, b"\r\n\r\n").map_or(0, |at| at + 4);
        if let Ok(body) = parse(&String::from_utf8_lossy(&self.bytes[start..])) {
            remember(secrets_of_json(&body));
        }
    }
}

/// Remembers the secrets in the fields of the requests' own.
fn remember_overrides(requests: &[Request]) {
    let overrides = requests.iter().filter_map(|request| request.overrides.as_ref());
    overrides.for_each(|fields| remember(secrets_of_json(fields)));
}

impl std::fmt::Debug for Prepared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The bytes contain API keys.
        f.debug_struct("Prepared").field("bytes", &self.bytes.len()).field("expected", &self.expected).finish()
    }
}

#[derive(Debug)]
pub struct Client {
    pub(crate) endpoint: EndpointSpec,
    pub(crate) replicas: Replicas,
    pub(crate) plan: ClientPlan,
    payload: PayloadSpec,
    pub(crate) requests: Requests,
    pub(crate) clock: SystemClock,
}

impl Client {
    /// Encodes all requests and resolves the route to the server. Sends nothing.
    pub fn new(
        mut endpoint: EndpointSpec,
        payload: &PayloadSpec,
        requests: &[Request],
        plan: ClientPlan,
        clock: SystemClock,
    ) -> Result<Client, Error> {
        endpoint.name_model(&payload.model);
        endpoint.check()?;
        endpoint.remember_secrets();
        remember(secrets_of_json(&payload.extra_body.clone().into()));
        remember_overrides(requests);
        let limit = sys::raise_open_file_limit();
        let max = plan.at_most.map_or(0, |count| count as u64);
        let needed = max.saturating_add(OTHER_FILES);
        if max > 0 && needed > limit {
            return Err(Error::OpenFiles { connections: max, needed, limit });
        }
        let replicas = Replicas::find(&endpoint)?;
        endpoint.sign_in.as_ref().map_or(Ok(()), SignIn::start)?;
        let requests: Vec<Prepared> = requests
            .iter()
            .enumerate()
            .map(|(index, request)| prepare(&replicas, payload, index, request))
            .collect::<Result<_, _>>()?;
        requests.iter().take(1).for_each(Prepared::remember_secrets);
        Ok(Client { endpoint, replicas, plan, payload: payload.clone(), requests: Requests::new(requests), clock })
    }

    /// Sends `spilled` after the other requests. They are encoded shortly before they are needed. Fails if one of them
    /// cannot be read, or cannot be encoded for this backend.
    pub fn followed_by(mut self, spilled: Arc<SpillList<Request>>) -> Result<Client, Error> {
        let mut chunk = 0;
        while let Some((start, _)) = spilled.chunk(chunk) {
            self.check(self.requests.len() + start, &spilled.read(chunk).map_err(Error::ReadBack)?)?;
            chunk += 1;
        }
        self.requests.follow(spilled);
        Ok(self)
    }

    /// Checks that requests, numbered from `start`, can be encoded for this backend. Fails if one of them cannot.
    pub fn check(&self, start: usize, requests: &[Request]) -> Result<(), Error> {
        remember_overrides(requests);
        (start..).zip(requests).try_for_each(|(index, request)| self.prepare(index, request).map(drop))
    }

    /// Encodes requests ahead of time, until `over` is set. If that fails, a worker hits the same error.
    pub fn write_ahead(&self, over: &AtomicBool) {
        while !over.load(Ordering::Relaxed) {
            let _ = self.requests.encode_ahead(&|start, requests| self.written(start, requests));
            std::thread::sleep(ENCODE_INTERVAL);
        }
    }

    /// The batch that contains a spilled request.
    pub(crate) fn batch(&self, index: usize) -> io::Result<Arc<Batch>> {
        self.requests.batch(index, &|start, requests| self.written(start, requests))
    }

    fn written(&self, start: usize, requests: &[Request]) -> io::Result<Vec<Prepared>> {
        let written = (start..).zip(requests).map(|(index, request)| self.prepare(index, request));
        written.collect::<Result<_, _>>().map_err(io::Error::other)
    }

    pub(crate) fn prepare(&self, index: usize, request: &Request) -> Result<Prepared, Error> {
        prepare(&self.replicas, &self.payload, index, request)
    }

    /// What writes the credential into the requests of one thread, for each replica; empty if they do not sign in.
    pub(crate) fn signers(&self) -> io::Result<Vec<Signer>> {
        let Some(sign_in) = &self.endpoint.sign_in else { return Ok(Vec::new()) };
        let replicas = (0..self.replicas.len()).map(|at| &self.replicas[at]);
        let method = self.endpoint.backend.method();
        let signers = replicas.map(|replica| Signer::new(sign_in, &replica.route, &replica.endpoint.url, method));
        signers.collect::<Result<_, _>>().map_err(io::Error::other)
    }

    /// A request with this body and one additional header.
    pub(crate) fn with_body(&self, body: &[u8], header: Option<(&str, &str)>, expected: Expected) -> Prepared {
        let replica = &self.replicas[0];
        let mut headers = replica.endpoint.request_headers(None);
        if let Some((name, value)) = header {
            headers.set_default(name, value);
        }
        Prepared { bytes: encoded(replica, headers, body, &expected), expected, assignment: Assignment::default() }
    }

    /// The bytes of a request for one of the replicas.
    pub(crate) fn bytes_for(&self, prepared: &Prepared, replica: usize) -> Arc<[u8]> {
        // A request that signs in gets its head later.
        let bytes = match replica == prepared.assignment.encoded_for() || self.endpoint.sign_in.is_some() {
            true => prepared.bytes.clone(),
            false => self.replicas[replica].readdressed(&prepared.bytes),
        };
        let (url, rules) = (&self.replicas[replica].endpoint.url, self.endpoint.rules);
        self.endpoint.cookies.added_to(&bytes, url, rules).map_or(bytes, Into::into)
    }

    /// The request with this index as it is sent, with secrets redacted; without the first lines if it signs in.
    pub fn shown(&self, index: usize) -> String {
        let bytes = self.requests.get(index).map(|prepared| &prepared.bytes[..]).unwrap_or_default();
        redact_known(&String::from_utf8_lossy(bytes))
    }

    /// What happened to each replica; empty if there is one server.
    pub fn replica_health(&self) -> Vec<ReplicaHealth> {
        self.replicas.health()
    }
}

fn prepare(replicas: &Replicas, payload: &PayloadSpec, index: usize, request: &Request) -> Result<Prepared, Error> {
    let assignment = replicas.assignment(index, request);
    let replica = &replicas[assignment.encoded_for()];
    let (headers, Encoded { body, expected }) = compose(&replica.endpoint, payload, index, request)?;
    Ok(Prepared { bytes: encoded(replica, headers, &body, &expected), expected, assignment })
}

/// The headers of a request, without those of HTTP itself and of the route, and its body.
fn compose(
    endpoint: &EndpointSpec,
    payload: &PayloadSpec,
    index: usize,
    request: &Request,
) -> Result<(Headers, Encoded), Error> {
    let backend = endpoint.backend;
    let mut encoded =
        backend.encode(payload, request).map_err(|reason| Error::Unfit { index, backend: backend.name(), reason })?;
    encoded.expected.keeps_logprobs = payload.keeps_logprobs;
    let mut headers = endpoint.request_headers(request.id.as_deref());
    for (name, value) in endpoint.headers_of(request.labels.get("class")).into_iter().flat_map(Headers::iter) {
        headers.set(name, value);
    }
    if let Some(session) = &request.session {
        headers.set_default(&endpoint.session_header, &header_text(session));
    }
    if let Some(input) = &encoded.expected.input {
        headers.set("Sec-WebSocket-Key", &input.key);
    }
    headers.check()?;
    Ok((headers, encoded))
}

fn encoded(replica: &Replica, mut headers: Headers, body: &[u8], expected: &Expected) -> Arc<[u8]> {
    let Replica { endpoint, route, .. } = replica;
    refuse_compression(endpoint, expected, &mut headers);
    route_headers(endpoint, &mut headers);
    let url = &endpoint.url;
    let (frames, body) = if endpoint.backend.is_websocket() { (body, &[][..]) } else { (&[][..], body) };
    // A GET request may have no body.
    let body = Some(body).filter(|body| !body.is_empty() || endpoint.backend.method() != "GET");
    let request = |headers: &Headers| {
        http1::request(endpoint.backend.method(), &route.target(url), &url.host_header(), headers, body)
    };
    let mut bytes = match &endpoint.sign_in {
        None => request(&headers),
        Some(sign_in) => {
            sign_in.describe_body(&mut headers, body.unwrap_or_default());
            http1::after_host(&request(&headers)).to_vec()
        }
    };
    bytes.extend_from_slice(frames);
    bytes.into()
}

/// A proxy that compresses a stream holds its tokens back. vLLM accepts compression.
fn refuse_compression(endpoint: &EndpointSpec, expected: &Expected, headers: &mut Headers) {
    if endpoint.rules == Rules::Standard && !expected.unstreamed && !endpoint.backend.answers_whole() {
        headers.set_default("Accept-Encoding", "identity");
    }
}

/// A name as a header value: unprintable characters are percent-encoded, as in URLs.
fn header_text(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_graphic() && byte != b'%' || byte == b' ';
    let written = |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    name.trim().bytes().map(written).collect()
}
