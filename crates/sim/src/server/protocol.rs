//! The endpoints, one protocol each.

pub(super) mod anthropic;
pub(super) mod audio;
pub(super) mod demo;
pub(super) mod images;
pub(super) mod info;
pub(super) mod listing;
pub(super) mod metrics;
pub(super) mod openai;
pub(super) mod pooling;
pub(super) mod realtime;
pub(super) mod responded;
pub(super) mod responses;
pub(super) mod sglang;
pub(super) mod speech;
pub(super) mod tgi;
pub(super) mod tokenize;
pub(super) mod triton;
