//! The client over real sockets, against recorded requests and answers.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod behaviour;
mod decode;
mod scripted;
mod sse;
mod upstream;
mod wire;
