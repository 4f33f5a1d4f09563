//! One file per dataset.

pub(crate) mod burstgpt;
pub(crate) mod custom;
pub(crate) mod custom_audio;
pub(crate) mod custom_image;
pub(crate) mod hf;
pub(crate) mod mooncake;
pub(crate) mod openai;
pub(crate) mod prefix_repetition;
pub(crate) mod random;
pub(crate) mod random_mm;
pub(crate) mod random_rerank;
pub(crate) mod shared_prefix;
pub(crate) mod sharegpt;
pub(crate) mod sonnet;
pub(crate) mod spec_bench;
pub(crate) mod speed_bench;
pub(crate) mod timed_trace;
