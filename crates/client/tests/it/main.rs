//! The client over real sockets, compared with recorded requests and responses.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod bad_servers;
mod behavior;
mod control;
mod declared;
mod declared_refusals;
mod decode;
mod endings;
mod fuzz;
mod http2;
mod proxy;
mod realtime;
mod scale;
mod scripted;
mod secure;
mod sign_in;
mod sse;
mod strict_servers;
mod tls;
mod unix;
mod upstream;
mod wire;
