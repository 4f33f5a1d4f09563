//! Scenario benchmarks: special workloads on the same engines and the same client.

pub mod batch;
mod grammar;
mod online;
pub mod schema;
mod score;
mod structured;

pub use online::{Documents, Online, Pass};
use score::Judge;
pub use structured::{answers, save};
