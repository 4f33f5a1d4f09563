//! Several processes as one run: the same command started N times, by whatever starts processes anyway.
//!
//! Rank 0 listens; the others join it, agree on the plan and the clock, send their share and hand it their rows. With
//! one rank nothing here is touched.

mod clock;
mod error;
mod guest;
mod host;
mod hostlist;
mod http;
mod launcher;
mod place;
mod token;

pub use clock::ClockFit;
pub use error::Error;
pub use guest::Guest;
pub use host::{Gathered, Host, Share};
pub use launcher::Ranked;
pub use place::{Asked, Place};
