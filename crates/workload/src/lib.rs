//! Workloads: from a dataset's settings, a seed and a tokenizer to the requests that `vllm bench` would generate.

#[macro_use]
mod error;

pub mod align;
mod datasets;
#[cfg(test)]
mod fuzz;
pub mod hub;
mod limits;
mod media;
mod parallel;
mod requests;
mod sampling;
pub mod scenarios;
pub mod sessions;
mod sources;

pub use datasets::kind::{DatasetKind, Offline, Rows, Times};
pub use datasets::names::{OFFLINE_NAMES, OFFLINE_NAMES_OF_VLLM, SERVE_NAMES, SERVE_NAMES_OF_VLLM, dataset};
pub use datasets::slices::{SlicesSpec, slices};
pub use datasets::*;
pub use error::{Error, ImageProblem};
pub use requests::Requests;
pub use requests::carrier::{Carrier, Need};
pub use requests::file::{each_saved, has_sessions, read_jsonl, read_settings, write_jsonl, write_settings};
pub use requests::prefix_sharing::{BLOCK, PrefixSharing};
pub use requests::stats::{Histogram, LengthStats, WorkloadStats, shared_text};
pub use sampling::buckets::{Bucket, Buckets};
pub use sampling::length_dist::{LengthDist, LengthPlan, RequestLengths};
pub use sampling::lengths::RangeRatio;
pub use sampling::sampled::Sampled;
pub use sampling::selection::Selection;
pub use sources::command::CommandSpec;
pub use sources::file_digest;
pub use sources::mapped::FieldMap;
pub use sources::order::StreamOrder;
