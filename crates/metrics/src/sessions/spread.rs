//! Summary statistics of a list.

use crate::percentile::percentile;

tacho_core::record! {
    /// Mean, median and 99th percentile of a list; `None` for an empty one.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub struct Spread {
        /// Number of values.
        pub count: usize,
        /// Mean.
        pub mean: f64,
        /// Median.
        pub median: f64,
        /// 99th percentile.
        pub p99: f64,
    }
}

impl Spread {
    pub(super) fn of(mut values: Vec<f64>) -> Option<Self> {
        if values.is_empty() {
            return None;
        }
        values.sort_unstable_by(f64::total_cmp);
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        Some(Spread { count: values.len(), mean, median: percentile(&values, 50.0), p99: percentile(&values, 99.0) })
    }
}
