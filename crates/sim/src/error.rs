//! What can go wrong when a simulator is set up.

use std::net::SocketAddr;

/// Why a simulator could not be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The engine cannot have these settings.
    #[error(transparent)]
    Engine(#[from] tacho_engine::Error),
    /// A fault rate is not a probability.
    #[error("{name}={value} is not a probability; give a number from 0 to 1")]
    FaultRate {
        /// Which rate.
        name: &'static str,
        /// The value.
        value: f64,
    },
    /// An engine behind a proxy has no such address.
    #[error("{url:?} is not the address of an engine; use one such as http://127.0.0.1:8100")]
    ProxyAddress {
        /// What was given.
        url: String,
    },
    /// The address could not be listened on.
    #[error("cannot listen on {addr}")]
    Bind {
        /// The address.
        addr: SocketAddr,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// A thread or the runtime of the server could not be started.
    #[error("cannot start the simulator's threads")]
    Threads {
        /// Why not.
        #[source]
        source: std::io::Error,
    },
}
