//! The plan of an offline run.

use std::path::PathBuf;

use tacho_core::json::Dict;
use tacho_metrics::offline::EngineNote;

use super::{LatencyPlan, MmProcessorPlan, Sampling, Source, StartupPlan, ThroughputPlan};
use crate::serve::LogPlan;

#[derive(Debug, Clone)]
pub struct OfflinePlan {
    pub engine: EngineNote,
    /// The model, and the tokenizer of the prompts.
    pub source: Source,
    pub sampling: Sampling,
    /// Whether the engine draws its own progress bar.
    pub progress: bool,
    pub profile: bool,
    /// File that a profiler around the engine writes, if there is one.
    pub profile_report: Option<String>,
    pub log: Option<LogPlan>,
    /// File to write the measured requests to, if any.
    pub save_workload: Option<PathBuf>,
    pub kind: PlanKind,
}

#[derive(Debug, Clone)]
pub enum PlanKind {
    Latency(LatencyPlan),
    Startup(StartupPlan),
    Throughput(ThroughputPlan),
    MmProcessor(MmProcessorPlan),
}

impl OfflinePlan {
    /// The log's header, written before the first measurement.
    pub(super) fn about(&self) -> Dict {
        let (kind, planned) = match &self.kind {
            PlanKind::Latency(plan) => ("latency", plan.iterations),
            PlanKind::Startup(plan) => ("startup", plan.cold + plan.warm),
            PlanKind::Throughput(plan) => ("throughput", plan.runs),
            PlanKind::MmProcessor(_) => ("mm-processor", 1),
        };
        tacho_core::dict! {
            "kind": kind,
            "model_id": self.source.model_id.as_str(),
            "backend": self.engine.backend.as_str(),
            "simulated": self.engine.simulated.as_deref(),
            "planned": planned,
        }
    }
}
