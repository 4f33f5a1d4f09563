//! Statistics of lists of values: percentiles, times, confidence intervals.

pub mod interval;
pub(crate) mod ordered;
pub mod percentile;
pub mod statistics;
