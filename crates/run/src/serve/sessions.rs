//! Sessions as a workload: a trace, read or generated, becomes requests and a plan for the load generator.

mod dialogue;
mod plan;
mod source;
mod starts;

pub use dialogue::Dialogue;
pub use plan::{SessionSource, SessionsPlan};
pub(in crate::serve) use source::{read, ready};
pub use starts::SessionStart;
