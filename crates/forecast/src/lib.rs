//! Cost models of engines: `fit` estimates one from measurements, `predict` simulates a workload with it, `plan` searches
//! for the replicas that a rate needs, `explain` attributes the latencies of a run to causes, and `what_if` forecasts the
//! run with other settings. No sockets, no clock.

pub mod explain;
pub mod fit;
pub mod plan;
pub mod predict;
mod prediction_interval;
mod simulated_run;
mod target;
pub mod what_if;

pub use prediction_interval::PredictionInterval;
pub use target::EngineTarget;
