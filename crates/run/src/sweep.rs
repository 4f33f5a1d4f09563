//! `tacho sweep`: commands run over parameter sets. A sweep is handed what is already stored and hands back each new
//! result as it comes; how commands run, where servers come from and how files are written is its caller's business.

mod combination;
mod serve;
mod session;
mod sla;
mod startup;
mod startup_keys;
mod workload;

pub use serve::serve;
pub use session::SweepPlan;
pub use sla::{SlaPlan, parse_targets, sla};
pub use startup::{StartupPlan, filter_params, startup};
pub use workload::{LoadVariable, WorkloadPlan, workload};
