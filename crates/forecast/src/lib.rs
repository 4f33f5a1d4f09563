//! Capacity planning from a fitted cost model: `fit` estimates the model from measurements, `predict` simulates a workload
//! with it, and `plan` searches for the replicas that a rate needs. No sockets, no clock.

pub mod fit;
pub mod plan;
pub mod predict;
mod prediction_interval;
mod simulated_run;
mod target;

pub use prediction_interval::PredictionInterval;
pub use target::EngineTarget;
