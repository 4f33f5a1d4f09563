//! Sentences about engines inside this machine.

use tacho_core::event::OfflineNote;

/// What upstream says when the engine collected nothing.
const NO_STATS: &str = "⚠️  Warning: No MM processor stats found in registry.\n   This may indicate that:\n   - No \
                        multimodal requests were processed\n   - Stats were already retrieved (registry is cleared \
                        after retrieval)";

pub(super) fn of(note: &OfflineNote) -> String {
    match note {
        OfflineNote::WarmingUp => "Warming up...".into(),
        OfflineNote::Profiling { profiler, directory } => profiling(profiler, directory),
        OfflineNote::OneProcess => "Setting VLLM_ENABLE_V1_MULTIPROCESSING=0 to collect startup metrics.\n".into(),
        OfflineNote::ColdStarts => "Measuring cold startup time...\n".into(),
        OfflineNote::FillingStarts => "\nWarming up for warm startup measurement...\n".into(),
        OfflineNote::WarmStarts => "\nMeasuring warm startup time...\n".into(),
        OfflineNote::Processing { requests, measured: true } => format!("Processing {requests} requests..."),
        OfflineNote::Processing { requests, measured: false } => format!("Processing {requests} warmup requests..."),
        OfflineNote::NoStageTimes => NO_STATS.into(),
        OfflineNote::AverageLatencies => "no latencies by request: the average over the run stands for each".into(),
    }
}

fn profiling(profiler: &str, directory: &str) -> String {
    match profiler {
        "torch" => format!("Profiling with torch profiler (results will be saved to {directory})..."),
        "proton" => format!("Profiling with Proton (results will be saved under {directory})..."),
        other => format!("Profiling with {other} profiler ..."),
    }
}
