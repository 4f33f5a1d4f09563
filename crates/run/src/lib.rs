//! One module per subcommand: it composes the parts and returns a record. No flags, no terminal, no printing.

pub mod ab_test;
pub mod auto_tune;
pub mod backend_check;
mod error;
pub mod experiment;
pub mod multi_turn;
pub mod offline;
pub mod otlp;
mod plan;
pub mod rebuild;
pub mod scenarios;
pub mod selfcheck;
pub mod serve;
mod side_call;
pub mod suite;
pub mod sweep;
mod telemetry;

pub use error::Error;
pub use plan::{
    BusyProfile, Cancellation, FailureLimit, LoraAssignment, LoraPlan, ModelPlan, NamedTokenizer, Precision, Replayed,
    ReportPlan, ServePlan, StopPlan, TokenizerPlan, TrafficPlan, WorkloadPlan,
};
pub use telemetry::TelemetryPlan;
