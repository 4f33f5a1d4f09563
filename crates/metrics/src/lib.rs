//! From the requests of a run to its metrics: samples, statistics, a summary in vLLM's definitions and tacho's own metrics
//! next to it. Pure functions: no network, no environment, no clock.

#![warn(missing_docs)]

pub mod acceptance;
pub mod attribution;
pub mod caveat;
pub mod concurrency;
pub mod fluidity;
pub mod goodput;
pub mod latency;
pub mod long_run;
pub mod media;
pub mod metric;
pub mod multi_turn;
mod observed;
pub mod offline;
mod open_loop;
pub mod outputs;
pub mod probe;
pub mod ranks;
pub mod replicas;
pub mod samples;
pub mod sessions;
pub mod setup;
mod stats;
pub mod steady;
pub mod structured;
pub mod summary;
pub mod throughput;
pub mod trust;
mod workers;

pub use acceptance::{Acceptance, AcceptanceLength};
pub use attribution::Attribution;
pub use caveat::{Caveat, Severity};
pub use fluidity::Fluidity;
pub use long_run::LongRun;
pub use media::{AudioSummary, AudioTotals, MediaSummary};
pub use metric::MetricKind;
pub use observed::diffusion::{DiffusionCounters, DiffusionStatistics};
pub use observed::server_metrics::{SeriesKind, ServerMetrics};
pub use observed::speculative::{SpeculativeCounters, SpeculativeStatistics};
pub use observed::telemetry::Telemetry;
pub use observed::{dcgm, phase_energy, server_metrics, telemetry, vocabulary};
pub use open_loop::{OpenLoopMetrics, Rates};
pub use outputs::{OutputStatistics, ScoreStatistics, Share};
pub use probe::ProbeStatistics;
pub use ranks::RankUse;
pub use samples::gaps::Gaps;
pub use samples::media::{Audio, Media};
pub use samples::per_token::{PerToken, TokenSource};
pub use samples::rare::{BoxedRareFields, RareFields};
pub use samples::sample::{Sample, TokenCounter};
pub use samples::{Gather, Samples};
pub use setup::{GoodputLimits, MetricSettings, RampUp, RateChange, Setup, Task};
pub use stats::interval::Interval;
pub use stats::statistics::Statistics;
pub use stats::{interval, percentile, statistics};
pub use steady::{Steady, recovery, window};
pub use summary::{GenerationSummary, PoolingSummary, Summary, TaskSummary};
pub use trust::{Bound, TimestampedBy, Trust, TrustVerdict};
pub use window::{SteadyState, SteadyWindow, WindowRule};
pub use workers::WorkerUse;
