//! Workloads: a dataset's settings, a seed and a tokenizer in, the requests that `vllm bench` would make out.

pub mod align;
mod buckets;
mod carrier;
mod chat;
mod datasets;
mod error;
mod fit;
#[cfg(test)]
mod fuzz;
mod http;
pub mod hub;
mod kind;
mod lengths;
mod limits;
mod literal;
mod media;
mod names;
mod requests;
mod reseed;
mod sampled;
mod saved;
pub mod scenarios;
mod selection;
pub mod sessions;
mod sharing;
mod slices;
mod sources;
mod stats;
mod timing;

pub use buckets::{Bucket, Buckets};
pub use carrier::{Carrier, Need};
pub use datasets::*;
pub use error::{Error, ImageProblem};
pub use kind::{DatasetKind, Offline, Rows, Times};
pub use lengths::RangeRatio;
pub use limits::MOST_TOKENS;
pub use names::{OFFLINE_NAMES, OFFLINE_NAMES_OF_VLLM, SERVE_NAMES, SERVE_NAMES_OF_VLLM, dataset};
pub use requests::{Requests, Shelf, nameless};
pub use sampled::Sampled;
pub use saved::{read_jsonl, write_jsonl};
pub use selection::Selection;
pub use sharing::{BLOCK, PrefixSharing};
pub use slices::{SlicesSpec, slices};
pub use sources::order::StreamOrder;
pub use stats::{Histogram, LengthStats, WorkloadStats, shared_text};
