//! Metrics per turn and per session. The session is the unit, because its requests depend on each other.

mod reuse;
mod spread;
mod step;
mod steps;
mod summary;
mod times;
mod turns;
mod uncached;
mod waits;

pub use spread::Spread;
pub use step::SessionStep;
pub use steps::Steps;
pub use summary::{Reuse, SessionEnds, SessionSummary};
pub use turns::TurnSummary;
pub use uncached::UncachedSummary;
pub use waits::Waits;
