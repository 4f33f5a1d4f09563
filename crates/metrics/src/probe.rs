//! Health probes: small requests sent during the load.

use crate::Statistics;

tacho_core::record! {
    /// Latencies of the probes.
    #[derive(Debug, Clone, Copy, Default, PartialEq)]
    pub struct ProbeStatistics {
        /// Successful probes.
        pub completed: u64,
        /// Probes that failed.
        pub failed: u64,
        /// Median latency, ms.
        pub median_ms: f64,
        /// 99th percentile of the latency, ms.
        pub p99_ms: f64,
        /// Largest latency, ms.
        pub max_ms: f64,
    }
}

impl ProbeStatistics {
    /// From the latencies (seconds) of the successful probes and the number of failed ones.
    pub fn of(latencies: Vec<f64>, failed: u64) -> Self {
        let statistics = Statistics::of(latencies, &[99.0]);
        ProbeStatistics {
            completed: statistics.count as u64,
            failed,
            median_ms: statistics.median_ms,
            p99_ms: statistics.percentiles_ms[0].1,
            max_ms: statistics.max_ms,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_successes_and_failures() {
        let probes = ProbeStatistics::of(vec![0.25, 0.75], 3);
        assert_eq!((probes.completed, probes.failed, probes.median_ms, probes.max_ms), (2, 3, 500.0, 750.0));
        assert_eq!(ProbeStatistics::of(Vec::new(), 1).completed, 0);
    }
}
