//! `tacho compare`: results side by side. Tables of values and ratios per load level, the largest level within
//! latency limits, and for each metric whether the difference is significant.

pub mod ab_test;
pub mod forest;
mod gate;
mod join;
mod metric_table;
mod names;
mod page;
mod repeats;
pub(crate) mod settings;
mod side;
mod side_by_side;
mod terminal;
mod verdicts;
mod workbook;

pub use self::terminal::terminal;
pub use gate::GateView;
pub use join::{Comparison, Group};
pub use metric_table::MetricTable;
pub use names::by_difference;
pub use repeats::are_repeats;
pub use side::{Side, load, load_known, warnings};
pub use side_by_side::side_by_side;
pub use verdicts::{Verdicts, delivered, difference, verdicts};

use tacho_decide::compare::Confidence;

pub use self::settings::{settings, varied};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Latency {
    P99,
    Median,
}

#[derive(Debug, Clone, PartialEq)]
pub struct CompareSpec {
    /// The column of the load level.
    pub x: String,
    pub latency: Latency,
    /// TTFT limit, ms, and the percentage by which it may be exceeded.
    pub ttft: (f64, f64),
    /// TPOT limit, ms, and the percentage by which it may be exceeded.
    pub tpot: (f64, f64),
    pub confidence: Confidence,
    /// The fraction up to which a change does not matter.
    pub margin: f64,
    /// Run-to-run variation of metrics, as a fraction, if known.
    pub noise: Option<f64>,
    /// Whether the user set the latency limits; otherwise those of vLLM's script are not shown.
    pub limits_set: bool,
    /// Whether tables name the test behind each value.
    pub debug: bool,
    pub plots: bool,
    /// The metrics to compare; by default all that both sides have.
    pub keys: Option<Vec<String>>,
}

impl CompareSpec {
    /// The settings of `tacho compare` without flags.
    pub fn usual() -> Self {
        CompareSpec {
            x: "# of max concurrency.".into(),
            latency: Latency::P99,
            ttft: (3000.0, 5.0),
            tpot: (100.0, 5.0),
            confidence: Confidence::USUAL,
            margin: 0.02,
            noise: None,
            limits_set: false,
            debug: false,
            plots: true,
            keys: None,
        }
    }
}
