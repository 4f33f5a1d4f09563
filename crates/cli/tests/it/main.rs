//! The binary from the outside: exit codes, streams, files, traffic.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod backends;
mod http2;
mod recorded;
mod scripted;
mod secure;
mod serve;
mod signals;
mod tacho;
