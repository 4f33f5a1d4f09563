//! Errors of a simulator's configuration.

use std::net::SocketAddr;

/// Why a simulator could not be started.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the message says it")]
pub enum Error {
    /// The engine's settings are invalid.
    #[error(transparent)]
    Engine(#[from] tacho_engine::Error),
    /// A fault rate is not a probability.
    #[error("{name}={value} is not a probability; use a number from 0 to 1")]
    FaultRate { name: &'static str, value: f64 },
    /// The URL of an engine behind the proxy is invalid.
    #[error("{url:?} is not the address of an engine; use one such as http://127.0.0.1:8100")]
    ProxyAddress { url: String },
    /// The address cannot be bound.
    #[error("cannot listen on {addr}")]
    Bind { addr: SocketAddr, source: std::io::Error },
    /// A thread or the runtime of the server could not be started.
    #[error("cannot start the simulator's threads")]
    Threads { source: std::io::Error },
}
