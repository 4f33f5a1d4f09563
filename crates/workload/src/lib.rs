//! Workloads: a dataset's settings, a seed and a tokenizer in, the requests that `vllm bench` would make out.

pub mod align;
mod catalog;
mod chat;
mod datasets;
mod error;
mod fit;
mod lengths;
mod media;
mod saved;
mod selection;
mod slices;
mod sources;
mod spec;
mod stats;

pub use catalog::{DatasetEntry, catalog};
pub use datasets::burstgpt::BurstGptSpec;
pub use datasets::custom::CustomSpec;
pub use datasets::prefix_repetition::PrefixRepetitionSpec;
pub use datasets::random::RandomSpec;
pub use datasets::random_rerank::RandomRerankSpec;
pub use datasets::sharegpt::ShareGptSpec;
pub use datasets::sonnet::SonnetSpec;
pub use datasets::spec_bench::SpecBenchSpec;
pub use datasets::speed_bench::SpeedBenchSpec;
pub use datasets::timed_trace::TimedTraceSpec;
pub use error::Error;
pub use lengths::RangeRatio;
pub use saved::{read_jsonl, write_jsonl};
pub use selection::Selection;
pub use slices::{SlicesSpec, slices};
pub use spec::{Sampled, WorkloadSpec, sample};
pub use stats::{Histogram, LengthStats, WorkloadStats};
