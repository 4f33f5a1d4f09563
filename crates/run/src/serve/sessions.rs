//! Sessions as a workload: a trace, read or synthetic, becomes requests and a plan for the load generator.

mod plan;
mod source;
mod starts;
mod workload;

pub use plan::{SessionSource, SessionsPlan};
pub(in crate::serve) use source::{read, ready};
pub use starts::SessionStart;
pub use workload::SessionWorkload;
