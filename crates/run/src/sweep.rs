//! `tacho sweep`: commands run over parameter sets. A sweep gets the stored results and returns each new one as it
//! comes; the caller runs commands, starts servers and writes files.

mod combination;
mod serve;
mod session;
mod sla;
mod startup;
mod startup_keys;
mod workload;

pub use serve::serve;
pub use session::SweepPlan;
pub use sla::{SearchFlags, SlaPlan, parse_targets, sla};
pub use startup::{StartupPlan, filter_params, startup};
pub use workload::{LoadVariable, WorkloadPlan, workload};
