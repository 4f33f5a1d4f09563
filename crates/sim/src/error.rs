//! Errors of a simulator's configuration.

use std::net::SocketAddr;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Engine(#[from] tacho_engine::Error),
    #[error("{name}={value} is not a probability; use a number from 0 to 1")]
    FaultRate { name: &'static str, value: f64 },
    #[error("{url:?} is not an address of plain http: use one such as http://127.0.0.1:8100")]
    ProxyAddress { url: String },
    #[error("cannot listen on {addr}{}", taken(source))]
    Bind { addr: SocketAddr, source: std::io::Error },
    #[error("cannot start the simulator's threads")]
    Threads { source: std::io::Error },
}

fn taken(source: &std::io::Error) -> &'static str {
    let is_taken = source.kind() == std::io::ErrorKind::AddrInUse;
    if is_taken { ": stop the server there, or use port 0 for any free one" } else { "" }
}
