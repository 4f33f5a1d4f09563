//! The untimed calls around a run: models, tokenizer, metrics, profiler, caches.

mod caches;
mod call;
mod models;
mod profiler;
mod prometheus;
mod server_info;
mod tokenize;

pub use caches::reset_caches;
pub use call::{Caller, Response};
pub use models::{ServedModel, first_model, models};
pub use profiler::{ProfilerCall, ProfilerResponse, profile};
pub use prometheus::metrics_page;
pub use server_info::{ServerInfo, server_info};
pub use tokenize::TokenizeServer;
