//! Records of the offline commands: measurements, and metrics in vLLM's definitions.

mod drift;
mod latency;
mod mm_processor;
mod startup;
mod throughput;

pub use drift::Drift;
pub use latency::LatencyRecord;
pub use mm_processor::{MmProcessorRecord, StageStatistics, encoder_calls, stage_statistics};
pub use startup::{Phase, Start, StartupRecord};
pub use throughput::ThroughputRecord;

use tacho_core::json::Dict;

use crate::percentile::percentile;

/// The percentiles of vLLM's latency and startup reports.
pub const PERCENTS: [u32; 6] = [10, 25, 50, 75, 90, 99];

/// The engine that ran.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EngineNote {
    /// `--backend`, or the engine's name.
    pub backend: String,
    /// The simulator's profile, when times are simulated.
    pub simulated: Option<String>,
    /// Versions of the engine and its libraries.
    pub versions: Dict,
    /// Directory of the profiler's output.
    pub profile_dir: Option<String>,
}

/// Percent and value for [`PERCENTS`].
pub fn percentiles(values: &[f64]) -> Vec<(u32, f64)> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    PERCENTS.iter().map(|&percent| (percent, percentile(&sorted, f64::from(percent)))).collect()
}
