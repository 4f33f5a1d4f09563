//! One request, waited for, over the same transport as the benchmark's.

use std::io;
use std::time::{Duration, Instant};

use crate::endpoint::Headers;
use crate::transport::connect::{Route, control_endpoint, route_headers};
use crate::transport::http1::{self, Head, Reader, Sink};
use crate::transport::http2::Http2;
use crate::transport::inflate::Inflate;
use crate::transport::link::Link;
use crate::transport::sys::{Interest, Poller};
use crate::{EndpointSpec, Error};

/// No answer to such a call is longer.
const MAX_BODY: usize = 256 << 20;

/// Makes calls to the server of an endpoint.
#[derive(Debug, Clone)]
pub struct Caller {
    endpoint: EndpointSpec,
    route: Route,
    base_path: String,
    timeout: Duration,
}

/// A whole answer.
#[derive(Debug, Clone, Default)]
pub struct Response {
    /// The status.
    pub status: u16,
    /// Its reason phrase.
    pub reason: String,
    /// The body.
    pub body: Vec<u8>,
}

impl Caller {
    /// Calls below `base_path` of the endpoint's server, each given up after `timeout`.
    pub fn new(endpoint: &EndpointSpec, base_path: &str, timeout: Duration) -> Result<Caller, Error> {
        let endpoint = control_endpoint(endpoint, base_path);
        let route = Route::find(&endpoint)?;
        Ok(Caller { endpoint, route, base_path: base_path.to_owned(), timeout })
    }

    /// The same with another patience.
    pub fn with_timeout(&self, timeout: Duration) -> Caller {
        Caller { timeout, ..self.clone() }
    }

    /// The URL of `path`, for messages.
    pub fn url(&self, path: &str) -> String {
        self.endpoint.url.with_path(&format!("{}{path}", self.base_path)).to_string()
    }

    /// The user's headers and the key, as benchmark requests carry them.
    pub fn user_headers(&self) -> Headers {
        self.endpoint.request_headers(None)
    }

    /// A GET.
    pub fn get(&self, path: &str, headers: Headers) -> Result<Response, Error> {
        self.call("GET", path, headers, None)
    }

    /// A POST.
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
        let request = http1::request(method, &self.route.target(&url), &url.host_header(), &headers, body);
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::ConnectionRefused | io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => {
                Error::Unreachable { address: self.route.peer.clone(), source: error }
            }
            _ => Error::Call { method, url: url.to_string(), reason: error.to_string() },
        };
        exchange(&self.route, &request, self.timeout).map_err(failed)
    }
}

#[derive(Default)]
struct Collect {
    response: Response,
    inflate: Option<Inflate>,
    fault: bool,
}

impl Sink for Collect {
    fn head(&mut self, head: &Head) {
        self.response = Response { status: head.status, reason: head.reason.clone(), body: Vec::new() };
        self.inflate = head.encoding.as_deref().and_then(Inflate::for_encoding);
    }

    fn body(&mut self, bytes: &[u8]) -> bool {
        let body = &mut self.response.body;
        let mut take = |bytes: &[u8]| {
            body.extend_from_slice(bytes);
            body.len() <= MAX_BODY
        };
        let wanted = match &mut self.inflate {
            None => take(bytes),
            Some(inflate) => inflate.feed(bytes, &mut take).unwrap_or(false),
        };
        self.fault |= !wanted;
        !self.fault
    }
}

fn exchange(route: &Route, request: &[u8], timeout: Duration) -> io::Result<Response> {
    let deadline = Instant::now() + timeout;
    let mut last = None;
    for attempt in 0..route.addresses.len() {
        match connect(route, attempt, deadline) {
            Ok(waiter) => return waiter.exchange(request, deadline),
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| io::Error::other("no address")))
}

/// A connection that is waited for.
struct Waiter {
    link: Link,
    poller: Poller,
    http2: Option<Http2>,
}

fn connect(route: &Route, attempt: usize, deadline: Instant) -> io::Result<Waiter> {
    let link = Link::open(route, attempt, false)?;
    let mut poller = Poller::new()?;
    poller.add(link.fd(), 0, Interest::ReadWrite)?;
    let mut waiter = Waiter { link, poller, http2: None };
    while !waiter.link.advance()? {
        waiter.wait(deadline, false)?;
    }
    waiter.http2 = waiter.link.speaks_http2(route).then(|| Http2::new(route.tls.is_some()));
    Ok(waiter)
}

impl Waiter {
    /// Waits for bytes, and for room to write where there is something to write.
    fn wait(&mut self, deadline: Instant, unsent: bool) -> io::Result<()> {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "no answer in time"));
        }
        let wanted = if unsent || self.link.wants_write() { Interest::ReadWrite } else { Interest::Read };
        self.poller.modify(self.link.fd(), 0, wanted)?;
        self.poller.wait(left.min(Duration::from_millis(100)), &mut Vec::new())
    }

    /// Writes what the socket takes; tells whether something waits for room in it.
    fn write(&mut self, request: &[u8], written: &mut usize) -> io::Result<bool> {
        let unsent = match &mut self.http2 {
            Some(http2) => {
                http2.flush(&mut self.link, Some((request, written)))?;
                http2.has_output()
            }
            None => {
                if *written < request.len() {
                    *written += self.link.write(&request[*written..])?;
                }
                *written < request.len()
            }
        };
        self.link.flush()?;
        Ok(unsent)
    }

    fn exchange(mut self, request: &[u8], deadline: Instant) -> io::Result<Response> {
        let mut written = 0;
        let mut reader = Reader::new();
        let mut sink = Collect::default();
        let mut buffer = vec![0; 64 << 10];
        let broken = || io::Error::new(io::ErrorKind::InvalidData, "the answer is not whole or not HTTP");
        while !reader.ended() {
            let unsent = self.write(request, &mut written)?;
            match self.link.read(&mut buffer)? {
                None => self.wait(deadline, unsent)?,
                Some(received) if received.count == 0 => reader.end_of_input().map_err(|_| broken())?,
                Some(received) => {
                    let bytes = &buffer[..received.count];
                    let fed = match &mut self.http2 {
                        None => reader.feed(bytes, &mut sink).map(drop),
                        Some(http2) => http2.feed(bytes, &mut reader, &mut sink),
                    };
                    fed.map_err(|_| broken())?;
                    if sink.fault {
                        return Err(broken());
                    }
                }
            }
        }
        Ok(sink.response)
    }
}
