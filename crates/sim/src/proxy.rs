//! A proxy for disaggregated prefill: one engine computes the prompt, and the response of another is streamed, as in
//! vLLM's example proxy.

use std::net::{SocketAddr, ToSocketAddrs};
use std::{io, sync::Arc};

use http_body_util::{BodyExt, Either, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderValue, TRANSFER_ENCODING};
use hyper::{Method, Request, Response, StatusCode, client::conn::http1, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use serde_json::json;
use tacho_core::dict;
use tacho_core::json::{self, Dict, Value};
use tokio::net::TcpStream;

use crate::error::Error;
use crate::listener::{Listener, Serving};

pub(crate) const MAX_BYTES: usize = 64 << 20;
const THREADS: usize = 2;
const SPLIT: [&str; 2] = ["/v1/completions", "/v1/chat/completions"];

#[derive(Debug, Clone)]
pub struct ProxySpec {
    pub listen: SocketAddr,
    pub prefill: String,
    pub decode: String,
}

#[derive(Debug)]
struct Backends {
    prefill: SocketAddr,
    decode: SocketAddr,
}

type Body = Either<Full<Bytes>, Incoming>;

pub fn start_proxy(spec: &ProxySpec) -> Result<Serving, Error> {
    let backends = Arc::new(Backends { prefill: resolve(&spec.prefill)?, decode: resolve(&spec.decode)? });
    Listener::bind(spec.listen, THREADS)?.serve(move |socket| serve(socket, Arc::clone(&backends)))
}

pub(crate) fn resolve(url: &str) -> Result<SocketAddr, Error> {
    let wrong = || Error::ProxyAddress { url: url.to_owned() };
    let host = url.strip_prefix("http://").ok_or_else(wrong)?.trim_end_matches('/');
    let host = if host.contains(':') { host.to_owned() } else { format!("{host}:80") };
    host.to_socket_addrs().ok().and_then(|mut all| all.next()).ok_or_else(wrong)
}

async fn serve(socket: TcpStream, backends: Arc<Backends>) {
    let service = service_fn(move |request| respond(Arc::clone(&backends), request));
    // An error here means that the client disconnected.
    let _ = auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(socket), service).await;
}

async fn respond(backends: Arc<Backends>, request: Request<Incoming>) -> Result<Response<Body>, io::Error> {
    let response = pass_on(&backends, request).await;
    Ok(response.unwrap_or_else(|error| bad_gateway(&error).map(Either::Left)))
}

/// The response to a request that did not reach its server.
pub(crate) fn bad_gateway(error: &io::Error) -> Response<Full<Bytes>> {
    let message = format!("the proxy could not pass the request on: {error}");
    let body = json!({"error": {"message": message, "type": "BadGateway", "param": null, "code": 502}});
    let mut response = Response::new(Full::from(body.to_string()));
    *response.status_mut() = StatusCode::BAD_GATEWAY;
    response
}

async fn pass_on(backends: &Backends, request: Request<Incoming>) -> Result<Response<Body>, io::Error> {
    let (head, body) = request.into_parts();
    let body = Limited::new(body, MAX_BYTES).collect().await.map_err(io::Error::other)?.to_bytes();
    let path = head.uri.path().to_owned();
    let asked = match std::str::from_utf8(&body).ok().and_then(|text| json::parse(text).ok()) {
        Some(Value::Dict(asked)) if head.method == Method::POST && SPLIT.contains(&path.as_str()) => asked,
        _ => return send(backends.decode, head, body).await,
    };
    let first = send(backends.prefill, head.clone(), json::dumps(&Value::Dict(for_prefill(&asked))).into()).await?;
    if first.status() != StatusCode::OK {
        return Ok(first);
    }
    let computed = first.into_body().collect().await.map_err(io::Error::other)?.to_bytes();
    let computed = json::parse(&String::from_utf8_lossy(&computed)).map_err(io::Error::other)?;
    let second = dict! { ..asked, "kv_transfer_params": computed.get("kv_transfer_params").cloned() };
    send(backends.decode, head, json::dumps(&Value::Dict(second)).into()).await
}

fn for_prefill(asked: &Dict) -> Dict {
    let mut first = dict! {
        ..asked,
        "kv_transfer_params": dict! { "do_remote_decode": true, "do_remote_prefill": false },
        "stream": false,
        "max_tokens": 1_i64,
        "max_completion_tokens"?: asked.get("max_completion_tokens").map(|_| 1_i64),
        "min_tokens": 0_i64,
    };
    first.remove("stream_options");
    first
}

async fn send(to: SocketAddr, head: hyper::http::request::Parts, body: Bytes) -> Result<Response<Body>, io::Error> {
    let socket = TcpStream::connect(to).await?;
    let _ = socket.set_nodelay(true);
    let (mut sender, connection) = http1::handshake(TokioIo::new(socket)).await.map_err(io::Error::other)?;
    tokio::spawn(connection);
    let request = forwarded(to, head, body)?;
    let response = sender.send_request(request).await.map_err(io::Error::other)?;
    Ok(response.map(Either::Right))
}

/// A request as it goes to another server.
pub(crate) fn forwarded(
    to: SocketAddr,
    head: hyper::http::request::Parts,
    body: Bytes,
) -> Result<Request<Full<Bytes>>, io::Error> {
    let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
    let mut request =
        Request::builder().method(head.method).uri(path).body(Full::<Bytes>::from(body)).map_err(io::Error::other)?;
    *request.headers_mut() = head.headers;
    let host = HeaderValue::from_str(&to.to_string()).map_err(io::Error::other)?;
    request.headers_mut().insert(HOST, host);
    request.headers_mut().remove(CONTENT_LENGTH);
    request.headers_mut().remove(TRANSFER_ENCODING);
    let kind = HeaderValue::from_static("application/json");
    request.headers_mut().entry(CONTENT_TYPE).or_insert(kind);
    Ok(request)
}
