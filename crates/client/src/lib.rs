//! The streaming HTTP client and its wire protocols.
//!
//! `transport` moves bytes and timestamps them, without JSON. `backends` converts requests to bytes and stream events
//! to tokens, without sockets. `control` makes the untimed calls around a run.

pub mod backends;
mod client;
pub mod control;
mod cookies;
mod endpoint;
mod error;
#[cfg(test)]
mod fuzz;
mod idna;
mod replicas;
pub mod sign_in;
pub mod transport;
mod url;
mod websocket;
mod worker;

use tacho_core::base64;

pub use backends::{BODIES, BackendKind, PayloadSpec, Rules, Task};
pub use client::{Client, ClientPlan, RequestIdentity, connection_limit};
pub use cookies::Cookies;
pub use endpoint::{ClientCertificate, EndpointSpec, Headers, TimestampSource, proxy_for};
pub use error::Error;
pub use replicas::{
    Balance, MAX_REPLICAS, OnReplicaFailure, REMOVED_AFTER, REPLICA, ReplicaHealth, ReplicaPlan, ReplicaSpec,
    addresses_of,
};
pub use sign_in::{SignIn, SignInSpec};
pub use transport::sys::{allowed_processors, pin_thread, return_memory};
pub use url::{Url, host_and_port};
