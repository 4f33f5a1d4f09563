//! The simulator over real sockets: wire format, endpoints, faults and load.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod ahead;
mod client;
mod endpoints;
mod faults;
mod guided;
mod hostile;
mod load;
mod pooling;
mod protocols;
mod refusals;
mod shapes;
