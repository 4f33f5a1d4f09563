//! Notes of an offline benchmark.

use super::note::notes;

/// vLLM's warning if the engine collected nothing.
const NO_STATS: &str = "⚠️  Warning: No MM processor stats found in registry.\n   This may indicate that:\n   - No \
                        multimodal requests were processed\n   - Stats were already retrieved (registry is cleared \
                        after retrieval)";

notes! {
    /// Notes of an offline benchmark.
    OfflineNote, layout;
    WarmingUp => "Warming up...";
    Profiling { profiler: String, directory: String } => profiling(profiler, directory);
    OneProcess => "Setting VLLM_ENABLE_V1_MULTIPROCESSING=0 to collect startup metrics.\n";
    ColdStarts => "Measuring cold startup time...\n";
    FillingStarts => "\nWarming up for warm startup measurement...\n";
    WarmStarts => "\nMeasuring warm startup time...\n";
    Processing { requests: u64, measured: bool } =>
        format!("Processing {requests}{} requests...", if *measured { "" } else { " warmup" });
    NoStageTimes => NO_STATS;
    AverageLatencies => "no latencies by request: the average over the run stands for each";
}

fn profiling(profiler: &str, directory: &str) -> String {
    match profiler {
        "torch" => format!("Profiling with torch profiler (results will be saved to {directory})..."),
        "proton" => format!("Profiling with Proton (results will be saved under {directory})..."),
        other => format!("Profiling with {other} profiler ..."),
    }
}
