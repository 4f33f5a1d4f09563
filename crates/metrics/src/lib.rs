//! From what happened to what it means: samples, statistics, a summary in vLLM's definitions, tacho's own numbers
//! beside it, and the record that all reports are made from. Pure functions: no network, no environment, no clock.

pub mod bootstrap;
pub mod caveat;
pub mod compare;
pub mod concurrency;
pub mod diffusion;
pub mod error;
pub mod gate;
pub mod goodput;
pub mod latency;
pub mod metric;
pub mod offline;
pub mod per_token;
pub mod percentile;
pub mod probe;
mod prometheus;
pub mod record;
pub mod sample;
pub mod search;
pub mod server_metrics;
pub mod setup;
pub mod speculative;
pub mod statistics;
pub mod stored;
pub mod summary;
pub mod throughput;
pub mod trust;
mod truth;

pub use caveat::Caveat;
pub use diffusion::{DiffusionCounters, DiffusionStatistics};
pub use error::Error;
pub use goodput::GoodputLimits;
pub use metric::MetricKind;
pub use per_token::{PerToken, TokenSource};
pub use probe::ProbeStatistics;
pub use record::{Measured, RunRecord};
pub use sample::{Asked, Sample, TokenCounter};
pub use server_metrics::{SeriesKind, ServerMetrics};
pub use setup::{RampUp, RateChange, Setup, Task};
pub use speculative::{SpeculativeCounters, SpeculativeStatistics};
pub use statistics::Statistics;
pub use stored::StoredRun;
pub use summary::{GenerationSummary, PoolingSummary, Summary, TaskSummary};
pub use trust::{StampedBy, Trust, TrustVerdict, WorkerUse};
pub use truth::{Rates, Truth};
