//! The model of a continuous-batching engine: step costs, scheduling, and simulation in virtual time. Pure functions:
//! no sockets, no clock, no async.

mod cost;
mod error;
mod fifo_server;
mod flight;
mod job;
mod kv;
mod machine;
mod noise;
mod prefix_cache;
mod processor_sharing;
mod profile;
mod sample;
mod scheduler;
mod sequence;
pub mod simulation;
mod spec;
mod stats;
#[cfg(test)]
mod tests;
mod token_events;
mod tokens;

pub use cost::{BatchShape, CostModel};
pub use error::Error;
pub use fifo_server::FifoServer;
pub use job::{Finish, Job, Rejection, Work};
pub use machine::{Front, Machine, PROFILE_VERSION};
pub use noise::Slowdown;
pub use processor_sharing::ProcessorSharing;
pub use profile::Profile;
pub use sample::{Draw, Limits, LogprobDraws, Output, Vocabulary};
pub use scheduler::{Engine, Scheduled, Step};
pub use sequence::SeqId;
pub use spec::{EngineSpec, LIMITS, Limit, NamedLimit, Policy, Transfer};
pub use stats::{Histogram, Stats};
pub use token_events::TokenEvent;
pub use tokens::Tokens;
