//! Metrics of the server and of the machines, as they were scraped during a run.

mod accessors;
pub mod dcgm;
pub(crate) mod diffusion;
pub mod phase_energy;
mod prometheus;
pub mod server_metrics;
pub(crate) mod speculative;
pub mod telemetry;
pub mod vocabulary;
