//! Several processes as one run: the same command started N times, by whatever starts processes anyway.
//!
//! Rank 0 listens; the others join it, agree on the plan and the clock, send their share and hand it their rows. With
//! one rank nothing here is touched.

mod call;
mod clock;
mod error;
mod follower;
#[cfg(test)]
mod fuzz;
mod guest;
mod host;
mod hostlist;
mod http;
mod launcher;
mod line;
mod meeting;
mod place;
mod token;

pub use clock::{Calendar, ClockFit};
pub use error::Error;
pub use follower::{Follower, Order};
pub use guest::{Guest, Reply, Start};
pub use host::{Host, Progress, Share};
pub use launcher::Ranked;
pub use line::Certificate;
pub use meeting::Meeting;
pub use place::{Asked, Gather, OnLost, Place, Terms};
