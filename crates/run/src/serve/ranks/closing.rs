//! The closing message of a rank, which also ends its log.

use tacho_core::json::{Json, Value};
use tacho_fleet::ClockFit;
use tacho_loadgen::WorkerStats;

/// Most wake-up lags per worker that are sent to rank 0.
const MAX_LAGS: usize = 2048;

tacho_core::record! {
    #[derive(Debug, Clone, Default)]
    pub(crate) struct RankClosing {
        pub(crate) workers: Vec<WorkerStats> = Vec::new(),
        /// Its final clock estimate, in its log.
        pub(crate) clock: Option<ClockFit> = None,
        /// Number of its rows.
        pub(crate) rows: Option<u64> = None,
        /// Whether it ended early.
        pub(crate) ended: Option<bool> = None,
    }
}

impl RankClosing {
    /// The statistics of workers, with a sample of their lags.
    pub(crate) fn of(workers: &[WorkerStats]) -> Self {
        let sample = |nanos: &[u64]| nanos.iter().copied().step_by((nanos.len() / MAX_LAGS).max(1)).collect();
        let thinned = |stats: &WorkerStats| WorkerStats {
            wake_lags_ns: sample(&stats.wake_lags_ns),
            late_spans_ns: sample(&stats.late_spans_ns),
            ..stats.clone()
        };
        RankClosing { workers: workers.iter().map(thinned).collect(), ..RankClosing::default() }
    }

    /// A malformed message says nothing.
    pub(crate) fn read(message: &Value) -> Self {
        RankClosing::from_json(message).unwrap_or_default()
    }
}
