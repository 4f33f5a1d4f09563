//! The four offline commands: their plan and run, the interface of their engines, and the driver of engines in Python.

mod batches;
mod driver;
mod engine;
mod error;
#[cfg(test)]
mod fuzz;
mod latency;
mod mm_processor;
mod notebook;
mod plan;
mod process;
mod protocol;
mod run;
mod served;
mod startup;
mod throughput;

use batches::Batches;
pub(crate) use batches::check_lengths;
pub use batches::{OfflineWorkload, Sampler, Source};
pub use driver::{LogTap, PythonEngine, PythonSpec, WorkerSource, find_python};
pub use engine::{Batch, Generated, Loaded, OfflineEngine, Sampling, Slot, StageTimes, Step};
pub use error::EngineError;
pub use latency::LatencyPlan;
pub use mm_processor::MmProcessorPlan;
pub use notebook::{Notebook, OFFLINE};
pub use plan::{OfflinePlan, PlanKind};
pub use run::{EngineMaker, Measured, run};
pub use served::{ServedPlan, run_served};
pub use startup::StartupPlan;
pub use throughput::{OfflineLora, ThroughputPlan};
