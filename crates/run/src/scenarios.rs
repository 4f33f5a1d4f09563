//! Scenario benchmarks: special workloads on the same engines and the same client.

mod grammar;
mod online;
pub mod schema;
mod score;
mod structured;

pub use online::{Documents, Online, Pass, run_batches};
pub(crate) use score::Constraint;
use score::Judge;
pub use structured::{responses, save};
