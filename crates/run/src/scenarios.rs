//! Scenario benchmarks: special workloads on the same engines and the same client.

pub mod batch;
mod cache;
mod grammar;
pub mod schema;
mod score;

pub use cache::reusable;
pub use score::Judge;
