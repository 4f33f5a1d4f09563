//! One module per subcommand: compose the parts, return a record. No flags, no terminal, no printing.

mod error;
mod plan;
pub mod serve;
pub mod sweep;

pub use error::Error;
pub use plan::{LoraAssignment, LoraPlan, ModelPlan, ReportPlan, ServePlan, TokenizerPlan, TrafficPlan, WorkloadPlan};
