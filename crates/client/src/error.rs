//! What ends a run on the client's side. A failed request is not an error but an outcome.

use std::{borrow::Cow, io};

/// Why the client cannot do what it was asked to.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read back the requests that were spilled next to the log; --no-log keeps them in memory")]
    ReadBack(#[source] io::Error),
    #[error("{url:?} is not a server address: {reason}")]
    BadUrl { url: String, reason: &'static str },
    #[error("the {backend} backend needs a URL that ends with {suffixes}, not {url:?}: pass --endpoint")]
    WrongPath { backend: &'static str, suffixes: String, url: String },
    #[error("credentials in the URL and an API key cannot both be sent: leave out one of them")]
    TwoCredentials,
    #[error("the replicas have different credentials in their URLs: pass the same ones, or --header or --api-key")]
    ReplicaCredentials,
    #[error("header {name:?} holds a character that HTTP does not allow")]
    BadHeader { name: String },
    #[error("cannot sign in: {reason}")]
    SignIn { reason: String },
    #[error("cannot find the host {host:?}: check --host or --base-url")]
    Resolve { host: String, source: io::Error },
    #[error("cannot reach {address}: is the server running there? check --host, --port or --base-url")]
    Unreachable { address: String, source: io::Error },
    #[error(
        "{connections} connections may be needed at once, which takes {needed} open files with those of the program, and \
         this process may have {limit}: raise the limit (ulimit -n {needed}) or set --max-concurrency"
    )]
    OpenFiles { connections: u64, needed: u64, limit: u64 },
    #[error("the {backend} backend opens a WebSocket, which is HTTP/1.1 here: remove --http2")]
    Http2WebSocket { backend: &'static str },
    #[error("--http2 cannot go through the proxy {proxy} to an http:// server: use https://, or set NO_PROXY")]
    Http2Proxy { proxy: String },
    #[error(
        "an https:// server cannot be reached through the https:// proxy {proxy}: name an http:// proxy, or set NO_PROXY"
    )]
    TlsInTls { proxy: String },
    #[error("cannot set up TLS for {host:?}")]
    Tls { host: String, source: Box<dyn std::error::Error + Send + Sync> },
    #[error("{method} {url} failed: {reason}")]
    Call { method: &'static str, url: String, reason: String },
    #[error("the model is unknown: pass --model, or add models: {{path: …}} to the backend file")]
    NoModelList,
    #[error("stopped")]
    Stopped,
    #[error("request {index} does not fit the {backend} backend: {reason}")]
    Unfit { index: usize, backend: &'static str, reason: Cow<'static, str> },
    #[error("cannot {what}")]
    System { what: &'static str, source: io::Error },
}
