//! Statistics of each rank of a run: its requests, dispatch delay, load, and clock error bound.

use crate::Statistics;

/// Reported percentiles of lateness.
const PERCENTILES: [f64; 2] = [50.0, 99.0];

tacho_core::record! {
    /// One rank of a run.
    #[derive(Debug, Clone, Default, PartialEq)]
    pub struct RankUse {
        /// Its number.
        pub rank: u64,
        /// Host name.
        pub machine: String,
        /// Requests of its part.
        pub planned: u64,
        /// Requests of it that are in the result.
        pub requests: u64,
        /// Delay from the scheduled time to dispatch, median, ms; null without a schedule.
        pub p50_lateness_ms: Option<f64>,
        /// The same, p99, ms.
        pub p99_lateness_ms: Option<f64>,
        /// The same, maximum, ms.
        pub max_lateness_ms: Option<f64>,
        /// Fraction of time that its busiest worker was busy; null if not reported.
        pub busy: Option<f64>,
        /// Bound on the error of its times on rank 0's clock, ms; null for rank 0.
        pub clock_bound_ms: Option<f64>,
        /// Change of its clock's offset during the run, ms.
        pub clock_drift_ms: Option<f64>,
        /// Offset of its wall clock from rank 0's, ms.
        pub calendar_offset_ms: Option<f64>,
        /// Bound on the error of that offset, ms.
        pub calendar_bound_ms: Option<f64>,
        /// Why it was lost; null if it was not.
        pub lost: Option<String>,
    }
}

impl RankUse {
    /// The rank with the lateness of its requests, from seconds.
    #[must_use]
    pub fn with_lateness(mut self, seconds: Vec<f64>) -> Self {
        if !seconds.is_empty() {
            let statistics = Statistics::of(seconds, &PERCENTILES);
            let percentile = |percent| statistics.percentile_ms(percent);
            (self.p50_lateness_ms, self.p99_lateness_ms) = (percentile(50.0), percentile(99.0));
            self.max_lateness_ms = Some(statistics.max_ms);
        }
        self
    }
}

/// Bound on the difference between times of different ranks; `None` for one rank, or where a clock is unknown.
pub fn clock_bound_ms(ranks: &[RankUse]) -> Option<f64> {
    let others = ranks.iter().filter(|rank| rank.rank != 0 && rank.requests > 0);
    others.map(|rank| rank.clock_bound_ms).reduce(|max, bound| Some(max?.max(bound?))).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_clock_bound_counts() {
        let of = |rank, clock_bound_ms| RankUse { rank, requests: 9, clock_bound_ms, ..RankUse::default() };
        assert_eq!(clock_bound_ms(&[of(0, None), of(1, Some(0.02)), of(2, Some(0.01))]), Some(0.02));
        assert_eq!(clock_bound_ms(&[of(1, Some(0.02)), of(2, None)]), None);
        assert_eq!(clock_bound_ms(&[]), None);
        let late = RankUse::default().with_lateness(vec![0.001, 0.003]);
        assert_eq!([late.p50_lateness_ms, late.p99_lateness_ms, late.max_lateness_ms], [2.0, 2.98, 3.0].map(Some));
    }
}
