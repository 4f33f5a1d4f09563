//! The model of a continuous-batching engine: a function of the times given to it. No sockets, no clock, no async.

mod cost;
mod flight;
mod job;
mod kv;
mod noise;
mod prefix_cache;
mod profile;
mod sample;
mod scheduler;
mod sequence;
mod spec;
mod stats;
mod telling;
mod tokens;

pub use cost::{BatchShape, CostModel};
pub use job::{Finish, Job, Refusal, Work};
pub use noise::Pace;
pub use profile::Profile;
pub use sample::{Draw, Limits, LogprobDraws, Output, Vocabulary};
pub use scheduler::{Engine, Step};
pub use sequence::SeqId;
pub use spec::{EngineSpec, Policy, Transfer};
pub use stats::{Histogram, Stats};
pub use telling::TokenEvent;
pub use tokens::Tokens;

#[cfg(test)]
mod ahead;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
