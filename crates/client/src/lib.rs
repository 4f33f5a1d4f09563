//! The streaming HTTP client and the wire protocols it speaks.
//!
//! `transport` moves bytes and timestamps them and knows no JSON; `backends` turn requests into bytes and stream events
//! into tokens and know no sockets; `control` makes the calls around a run, which nobody times.

pub mod backends;
mod client;
pub mod control;
mod endpoint;
mod error;
#[cfg(test)]
mod fuzz;
mod idna;
pub mod transport;
mod url;
pub mod watch;
mod worker;

pub use backends::{BackendKind, PayloadSpec, Rules, Task};
pub use client::{Client, ClientPlan, connection_limit};
pub use endpoint::{EndpointSpec, Headers, TimestampSource, proxy_for};
pub use error::Error;
pub use transport::sys::return_memory;
pub use url::{Url, host_and_port};
