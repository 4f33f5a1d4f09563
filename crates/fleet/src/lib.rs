//! Distributed load generation: the same command, started N times by any launcher, is one run.
//!
//! Rank 0 is the coordinator: it listens, and the other ranks (workers) join it, agree on the plan and the clock, send
//! their share of the requests and stream their rows to it. A single process uses none of this.

mod client;
mod clock;
mod connection;
mod coordinator;
mod error;
#[cfg(test)]
mod fuzz;
mod hostlist;
mod http;
mod launcher;
mod membership;
mod message;
mod rendezvous;
mod sweep;
mod token;
mod worker;

pub use clock::{ClockFit, WallClock};
pub use connection::Certificate;
pub use coordinator::{Coordinator, Progress, RankReport};
pub use error::Error;
pub use launcher::LauncherInfo;
pub use membership::{Gather, Membership, OnLost, Policy, RankOptions};
pub use message::Directive;
pub use rendezvous::Rendezvous;
pub use sweep::{Assignment, SweepWorker};
pub use worker::{Start, Worker};
