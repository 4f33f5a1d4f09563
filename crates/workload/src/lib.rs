//! Workloads: a dataset's settings, a seed and a tokenizer in, the requests that `vllm bench` would make out.

pub mod align;
mod catalog;
mod datasets;
mod error;
mod fit;
mod lengths;
mod saved;
mod spec;
mod stats;

pub use catalog::{DatasetEntry, catalog};
pub use datasets::prefix_repetition::PrefixRepetitionSpec;
pub use datasets::random::RandomSpec;
pub use datasets::random_rerank::RandomRerankSpec;
pub use error::Error;
pub use lengths::RangeRatio;
pub use saved::{read_jsonl, write_jsonl};
pub use spec::{Sampled, WorkloadSpec, sample};
pub use stats::{Histogram, LengthStats, WorkloadStats};
