//! Scheduler limits: stated by the server, or inferred from runs that reached them.

mod budget;
pub(super) mod known_limits;
mod queue;
pub mod reached;

pub use known_limits::KnownLimits;
