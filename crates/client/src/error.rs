//! What ends a run on the client's side. A failed request is not an error but an outcome.

use std::io;

/// Why the client cannot do what it was asked to.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Spilled requests cannot be read.
    #[error("cannot read back the requests that were spilled next to the log; --no-log keeps them in memory")]
    ReadBack(#[source] io::Error),
    /// Not an address.
    #[error("{url:?} is not a server address: {reason}")]
    BadUrl {
        /// What was given.
        url: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The URL does not fit the protocol.
    #[error("the {backend} backend needs a URL that ends with {suffixes}, not {url:?}: pass --endpoint")]
    WrongPath {
        /// The backend's name.
        backend: &'static str,
        /// What the URL must end with.
        suffixes: String,
        /// What it is.
        url: String,
    },
    /// Two ways to authenticate.
    #[error("credentials in the URL and an API key cannot both be sent: leave out one of them")]
    TwoCredentials,
    /// A header that HTTP does not allow.
    #[error("header {name:?} holds a character that HTTP does not allow")]
    BadHeader {
        /// Its name.
        name: String,
    },
    /// The name cannot be looked up.
    #[error("cannot find the host {host:?}: check --host or --base-url")]
    Resolve {
        /// The name.
        host: String,
        /// What the resolver said.
        #[source]
        source: io::Error,
    },
    /// Nothing listens at the address.
    #[error("cannot reach {address}: is the server running there? check --host, --port or --base-url")]
    Unreachable {
        /// Where we tried.
        address: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// More connections are needed than the system allows.
    #[error(
        "{connections} connections may be needed at once, which takes {needed} open files with those of the program, and \
         this process may have {limit}: raise the limit (ulimit -n {needed}) or set --max-concurrency"
    )]
    OpenFiles {
        /// Connections that the schedule may open.
        connections: u64,
        /// The files that takes.
        needed: u64,
        /// How many may be open.
        limit: u64,
    },
    /// HTTP/2 without TLS has no way through a proxy.
    #[error("--http2 cannot go through the proxy {proxy} to an http:// server: use https://, or set NO_PROXY")]
    Http2Proxy {
        /// The proxy.
        proxy: String,
    },
    /// TLS inside TLS, which is not spoken.
    #[error(
        "an https:// server cannot be reached through the https:// proxy {proxy}: name an http:// proxy, or set NO_PROXY"
    )]
    TlsInTls {
        /// The proxy.
        proxy: String,
    },
    /// TLS cannot be set up.
    #[error("cannot set up TLS for {host:?}")]
    Tls {
        /// The server's name.
        host: String,
        /// What the library said.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A call around the run failed.
    #[error("{method} {url} failed: {reason}")]
    Call {
        /// GET or POST.
        method: &'static str,
        /// The whole URL, without credentials.
        url: String,
        /// What happened.
        reason: String,
    },
    /// A stop was asked for during a call.
    #[error("stopped")]
    Stopped,
    /// A request cannot be written in the backend's protocol.
    #[error("request {index} does not fit the {backend} backend: {reason}")]
    Unfit {
        /// Which request.
        index: usize,
        /// The backend's name.
        backend: &'static str,
        /// Why not.
        reason: &'static str,
    },
    /// The operating system refused something basic.
    #[error("cannot {what}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What it said.
        #[source]
        source: io::Error,
    },
}
