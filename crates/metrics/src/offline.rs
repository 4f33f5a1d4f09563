//! Records of the offline commands: measurements, and metrics in vLLM's definitions.

mod drift;
mod mm_processor;
mod startup;
mod throughput;

pub use drift::drift;
pub use mm_processor::{MmProcessor, StageStatistics, encoder_calls, stage_statistics};
pub use startup::{LoggedStart, Phase, Start, Startup};
pub use throughput::Throughput;

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

/// A run of an offline command.
#[derive(Debug, Clone, PartialEq)]
pub struct OfflineRecord {
    /// The model.
    pub model_id: String,
    /// The engine.
    pub engine: EngineNote,
    /// The measurements of the command.
    pub measured: OfflineKind,
}

/// The iterations of one batch.
#[derive(Debug, Clone, PartialEq)]
pub struct Latency {
    /// Seconds of each iteration.
    pub latencies: Vec<f64>,
    /// Iterations that were to be measured.
    pub planned: u64,
}

/// The measurements of an offline command.
#[derive(Debug, Clone, PartialEq)]
pub enum OfflineKind {
    /// Of `tacho latency`.
    Latency(Latency),
    /// Of `tacho startup`.
    Startup(Startup),
    /// Of `tacho throughput`.
    Throughput(Throughput),
    /// Of `tacho mm-processor`.
    MmProcessor(MmProcessor),
    /// A profile instead of measurements.
    Profile,
}

impl OfflineKind {
    /// Returns whether nothing was measured.
    pub fn is_empty(&self) -> bool {
        match self {
            OfflineKind::Latency(latency) => latency.latencies.is_empty(),
            OfflineKind::Startup(startup) => startup.cold.is_empty() && startup.warm.is_empty(),
            OfflineKind::Throughput(throughput) => throughput.failed == throughput.num_requests,
            OfflineKind::MmProcessor(processor) => processor.completed == 0,
            OfflineKind::Profile => false,
        }
    }
}

/// Percent and value for [`PERCENTS`].
pub fn percentiles(values: &[f64]) -> Vec<(u32, f64)> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    PERCENTS.iter().map(|&percent| (percent, percentile(&sorted, f64::from(percent)))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::mean;

    #[test]
    fn numbers_are_numpys_to_the_last_bit() {
        let latencies = [0.06409892599981504, 0.08316190700020343, 0.06329391300005227, 0.0321315119999781];
        assert_eq!(mean(&latencies), 0.06067156450001221);
        let values: Vec<f64> = percentiles(&latencies).into_iter().map(|(_, value)| value).collect();
        let expected = [
            0.04148023230000035,
            0.05550331275003373,
            0.06369641949993365,
            0.06886467124991213,
            0.07744301270008691,
            0.08259001757019177,
        ];
        assert_eq!(values, expected);
    }
}
