//! Notes of an engine inside this machine.

/// Notes of an engine inside this machine.
#[derive(Debug, Clone, PartialEq)]
pub enum OfflineNote {
    /// Unmeasured iterations come first.
    WarmingUp,
    /// A profile is made.
    Profiling {
        /// By which profiler.
        profiler: String,
        /// Where it is written.
        directory: String,
    },
    /// The engine starts inside its process, for the sake of its times.
    OneProcess,
    /// Starts with empty caches come next.
    ColdStarts,
    /// Starts that fill the caches come next.
    FillingStarts,
    /// Starts with full caches come next.
    WarmStarts,
    /// Requests with media are processed.
    Processing {
        /// How many.
        requests: u64,
        /// Whether they count.
        measured: bool,
    },
    /// The engine collected no times of stages.
    NoStageTimes,
    /// It gave no latencies by request.
    AverageLatencies,
}
