//! One blocking request, over the same transport as the benchmark's.

use std::time::{Duration, Instant};
use std::{io, sync::Arc};
use tacho_core::Mutex;

use tacho_core::json::{self, Value};
use tacho_core::secret::{ServerText, redact_known, redact_known_json};
use tacho_loadgen::StopSignal;

use crate::transport::connect::{Route, route_headers};
use crate::transport::http1::{self, Head, Reader, Sink};
use crate::transport::link::{Advance, Link};
use crate::transport::sys::{Interest, Poller};
use crate::{
    BackendKind, EndpointSpec, Error, backends::excerpt, endpoint::Headers, sign_in::Signer,
    transport::addresses::AddressRotation, transport::http2::Http2, transport::inflate::Inflate,
};

/// Time between two checks for a stop request.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// Timeout of a call that starts after an immediate stop was requested.
const STOPPED_CALL_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Debug, Clone)]
pub struct Caller {
    endpoint: EndpointSpec,
    route: Route,
    base_path: String,
    limits: Limits,
    stop: Option<StopSignal>,
    patience: Arc<Mutex<Patience>>,
}

/// How long optional calls may still wait, together: a server that does not respond to them costs a few seconds once.
#[derive(Debug)]
struct Patience {
    left: Duration,
    /// Paths that the server has responded to. They may take their time.
    known: Vec<String>,
}

impl Patience {
    const ALL: Duration = Duration::from_secs(5);

    fn new() -> Arc<Mutex<Self>> {
        Arc::new(Mutex::new(Patience { left: Patience::ALL, known: Vec::new() }))
    }

    fn note(&mut self, path: &str, took: Duration, response: &Result<Response, Error>) {
        match response {
            Ok(_) if !self.known.iter().any(|known| known == path) => self.known.push(path.to_owned()),
            Ok(_) => {}
            Err(_) => self.left = self.left.saturating_sub(took),
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) time: Duration,
    pub(super) body: usize,
}

#[derive(Debug, Clone, Default)]
pub struct Response {
    pub status: u16,
    pub reason: ServerText,
    /// The body as the server sent it, with the secrets that it repeats.
    body: Vec<u8>,
}

impl Response {
    pub fn text(&self) -> String {
        redact_known(&String::from_utf8_lossy(&self.body))
    }

    /// The body as JSON; the error does not show it.
    pub fn json(&self) -> Result<Value, json::ParseError> {
        json::parse(&String::from_utf8_lossy(&self.body)).map(redact_known_json)
    }

    /// The body with the secrets in it: a token, or texts to send back.
    pub(crate) fn unredacted(&self) -> &[u8] {
        &self.body
    }
}

impl Caller {
    /// Calls paths below `base_path` of the endpoint's server, with this default timeout.
    pub fn new(endpoint: &EndpointSpec, base_path: &str, timeout: Duration) -> Result<Caller, Error> {
        let url = endpoint.url.with_path(base_path);
        // The same server, independent of a protocol; a backend file says how the API key is sent.
        let backend = if endpoint.backend.declared().is_some() { endpoint.backend } else { BackendKind::OpenAi };
        let endpoint = EndpointSpec { url, backend, ..endpoint.clone() };
        endpoint.remember_secrets();
        let route = Route::find(&endpoint)?;
        let limits = Limits { time: timeout.min(endpoint.timeout), body: 64 << 20 };
        let patience = Patience::new();
        Ok(Caller { endpoint, route, base_path: base_path.to_owned(), limits, stop: None, patience })
    }

    /// A caller that connects directly, as vLLM does for `/tokenize`. A server whose name only the proxy can resolve is
    /// still called through it.
    pub fn without_proxy(&self) -> Caller {
        let endpoint = EndpointSpec { proxy: None, ..self.endpoint.clone() };
        match Route::find(&endpoint) {
            Ok(route) => Caller { route, endpoint, ..self.clone() },
            Err(_) => self.clone(),
        }
    }

    pub fn with_timeout(&self, timeout: Duration) -> Caller {
        let mut caller = self.clone();
        caller.limits.time = timeout;
        caller
    }

    /// A caller that gives up as soon as a stop is requested during a call.
    pub fn with_stop(&self, stop: &StopSignal) -> Caller {
        Caller { stop: Some(stop.clone()), ..self.clone() }
    }

    /// A caller with the stricter of these limits and its own.
    pub(super) fn within(&self, limits: Limits) -> Caller {
        let limits = Limits { time: limits.time.min(self.limits.time), body: limits.body };
        Caller { limits, ..self.clone() }
    }

    /// Like `within`, for a call of `path` that a run can do without: all such calls together wait a few seconds.
    pub(super) fn optional(&self, path: &str, limits: Limits) -> Caller {
        let patience = self.patience.lock();
        let left = if patience.known.iter().any(|known| known == path) { Duration::MAX } else { patience.left };
        self.within(Limits { time: limits.time.min(left), ..limits })
    }

    pub fn url(&self, path: &str) -> String {
        self.endpoint.url.with_path(&format!("{}{path}", self.base_path)).to_string()
    }

    /// The user's headers and the API key, as benchmark requests send them.
    pub fn user_headers(&self) -> Headers {
        self.endpoint.request_headers(None)
    }

    pub(super) fn backend(&self) -> BackendKind {
        self.endpoint.backend
    }

    /// Whether calls carry a credential that changes.
    pub(super) fn signs_in(&self) -> bool {
        self.endpoint.sign_in.is_some()
    }

    pub fn get(&self, path: &str, headers: Headers) -> Result<Response, Error> {
        self.call("GET", path, headers, None)
    }

    pub fn post(&self, path: &str, headers: Headers, body: &[u8]) -> Result<Response, Error> {
        self.call("POST", path, headers, Some(body))
    }

    fn call(
        &self,
        method: &'static str,
        path: &str,
        mut headers: Headers,
        body: Option<&[u8]>,
    ) -> Result<Response, Error> {
        route_headers(&self.endpoint, &mut headers);
        let url = self.endpoint.url.with_path(&format!("{}{path}", self.base_path));
        headers.check()?;
        if let Some(sign_in) = &self.endpoint.sign_in {
            sign_in.describe_body(&mut headers, body.unwrap_or_default());
        }
        let request = http1::request(method, &self.route.target(&url), &url.host_header(), &headers, body);
        let request = self.endpoint.cookies.added_to(&request, &url, self.endpoint.rules).unwrap_or(request);
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::Interrupted => Error::Stopped,
            io::ErrorKind::ConnectionRefused | io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => {
                Error::Unreachable { address: self.route.peer.clone(), source: error }
            }
            _ => Error::Call { method, url: url.to_string(), reason: ServerText::new(&error.to_string()).into() },
        };
        let send = |request: &[u8]| {
            let call = Call::begin(self);
            let response = call.exchange(&self.route, request).map_err(failed);
            let mut patience = self.patience.lock();
            patience.note(path, call.began.elapsed(), &response);
            response
        };
        let Some(sign_in) = &self.endpoint.sign_in else { return send(&request) };
        let rest = http1::after_host(&request);
        let mut signer = Signer::new(sign_in, &self.route, &url, method)?;
        let signed = |signer: &mut Signer| [&signer.head_for(method, &self.route, &url, rest)[..], rest].concat();
        let response = send(&signed(&mut signer))?;
        if sign_in.is_refusal(response.status) && sign_in.renew(signer.version()) {
            return send(&signed(&mut Signer::new(sign_in, &self.route, &url, method)?));
        }
        Ok(response)
    }

    /// The error for an unexpected status, with the server's message.
    pub(super) fn refused(&self, method: &'static str, path: &str, response: &Response, hint: &str) -> Error {
        let Response { status, reason, body } = response;
        let message = excerpt(body);
        let parts = [format!("the server answered {status} {reason}"), message, hint.to_owned()];
        let reason =
            parts.iter().map(|part| part.trim()).filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ");
        Error::Call { method, url: self.url(path), reason }
    }
}

/// One call in flight: its deadline, its size limit, and whether it was cancelled.
struct Call<'c> {
    limits: Limits,
    began: Instant,
    stop: Option<&'c StopSignal>,
    /// The stop requests before the call: draining, immediate.
    stops_before: (bool, bool),
}

impl<'c> Call<'c> {
    fn begin(caller: &'c Caller) -> Self {
        let stop = caller.stop.as_ref();
        let stops_before = stop.map_or((false, false), |stop| (stop.draining(), stop.immediate()));
        let mut limits = caller.limits;
        if stops_before.1 {
            limits.time = limits.time.min(STOPPED_CALL_TIMEOUT);
        }
        Call { limits, began: Instant::now(), stop, stops_before }
    }

    /// The remaining time; an error if there is none or the call was cancelled.
    fn left(&self) -> io::Result<Duration> {
        if self.stop.is_some_and(|stop| (stop.draining(), stop.immediate()) != self.stops_before) {
            return Err(io::Error::new(io::ErrorKind::Interrupted, "stopped"));
        }
        let left = self.limits.time.saturating_sub(self.began.elapsed());
        if left.is_zero() {
            let text = match self.limits.time {
                Duration::ZERO => "given up, since the server did not respond to earlier optional calls".to_owned(),
                time => format!("no response within {} s", time.as_secs_f64()),
            };
            return Err(io::Error::new(io::ErrorKind::TimedOut, text));
        }
        Ok(left)
    }

    fn exchange(&self, route: &Route, request: &[u8]) -> io::Result<Response> {
        let waiter = self.connect(route)?;
        waiter.exchange(self, request)
    }

    fn connect(&self, route: &Route) -> io::Result<Waiter> {
        let link = Link::open(route, &mut AddressRotation::new(&route.addresses), false)?;
        let mut poller = Poller::new()?;
        poller.add(link.fd(), 0, Interest::ReadWrite)?;
        let mut waiter = Waiter { link, poller, http2: None };
        loop {
            let further = match waiter.link.advance()? {
                Advance::Open(..) => break,
                Advance::Watch(fd) => Some(fd),
                Advance::Waiting => waiter.link.try_next_address(self.began.elapsed()),
            };
            match further {
                Some(fd) => waiter.poller.add(fd, 0, Interest::ReadWrite)?,
                None => waiter.wait(self, false)?,
            }
        }
        waiter.http2 = waiter.link.speaks_http2(route).then(|| Http2::new(route.tls.is_some()));
        Ok(waiter)
    }
}

struct Collect {
    response: Response,
    inflate: Option<Inflate>,
    max: usize,
    fault: Option<Fault>,
}

#[derive(Clone, Copy)]
enum Fault {
    TooLong,
    Compression,
}

impl Collect {
    fn new(max: usize) -> Self {
        Collect { response: Response::default(), inflate: None, max, fault: None }
    }

    fn error(&self) -> Option<io::Error> {
        let text = match self.fault? {
            Fault::TooLong => format!("the response is longer than {} KiB", self.max >> 10),
            Fault::Compression => "the response's compression is broken".to_owned(),
        };
        Some(io::Error::new(io::ErrorKind::InvalidData, text))
    }
}

impl Sink for Collect {
    fn head(&mut self, head: &Head) {
        self.response = Response { status: head.status, reason: ServerText::new(&head.reason), body: Vec::new() };
        self.inflate = head.encoding.as_deref().and_then(Inflate::for_encoding);
    }

    fn body(&mut self, bytes: &[u8]) -> bool {
        let (body, max) = (&mut self.response.body, self.max);
        let mut take = |bytes: &[u8]| {
            let fits = body.len() + bytes.len() <= max;
            body.extend_from_slice(if fits { bytes } else { &[] });
            fits
        };
        let taken = match &mut self.inflate {
            None => Ok(take(bytes)),
            Some(inflate) => inflate.feed(bytes, &mut take),
        };
        self.fault = match taken {
            Ok(true) => None,
            Ok(false) => Some(Fault::TooLong),
            Err(_) => Some(Fault::Compression),
        };
        self.fault.is_none()
    }
}

struct Waiter {
    link: Link,
    poller: Poller,
    http2: Option<Http2>,
}

impl Waiter {
    /// Waits until the socket is readable or, with unsent bytes, writable.
    fn wait(&mut self, call: &Call<'_>, unsent: bool) -> io::Result<()> {
        let left = call.left()?;
        let wanted = if unsent || self.link.wants_write() { Interest::ReadWrite } else { Interest::Read };
        self.poller.modify(self.link.fd(), 0, wanted)?;
        self.poller.wait(left.min(STOP_CHECK_INTERVAL), &mut Vec::new())
    }

    /// Writes as much as the socket accepts; returns whether more is left.
    fn write(&mut self, request: &[u8], written: &mut usize) -> io::Result<bool> {
        let unsent = match &mut self.http2 {
            Some(http2) => {
                http2.flush(&mut self.link, Some((request, written)))?;
                http2.has_output()
            }
            None => {
                if *written < request.len() {
                    *written += self.link.write([&[], &request[*written..]])?;
                }
                *written < request.len()
            }
        };
        self.link.flush()?;
        Ok(unsent)
    }

    fn exchange(mut self, call: &Call<'_>, request: &[u8]) -> io::Result<Response> {
        let mut written = 0;
        let mut reader = Reader::new();
        let mut sink = Collect::new(call.limits.body);
        let mut buffer = vec![0; 64 << 10];
        let broken = || {
            io::Error::new(
                io::ErrorKind::InvalidData,
                "the response is incomplete or not HTTP: does it speak TLS, with https://?",
            )
        };
        while !reader.ended() {
            let unsent = self.write(request, &mut written)?;
            let Some(received) = self.link.read(&mut buffer)? else {
                self.wait(call, unsent)?;
                continue;
            };
            // A response that never ends must time out too.
            call.left()?;
            let bytes = &buffer[..received.count];
            let fed = match &mut self.http2 {
                None => reader.feed(bytes, &mut sink).map(drop),
                Some(http2) => http2.feed(bytes, &mut reader, &mut sink),
            };
            if let Some(error) = sink.error() {
                return Err(error);
            }
            fed.map_err(|_| broken())?;
            if (received.count == 0 || received.last) && !reader.ended() {
                reader.end_of_input().map_err(|_| broken())?;
            }
        }
        Ok(sink.response)
    }
}
