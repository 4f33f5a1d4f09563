//! `tacho auto-tune`: the server settings with the highest request throughput within a latency limit. For each pair
//! of batch limits a server is started, and the largest load within the limit is searched.

mod answer;
mod plan;
mod search;
mod tuner;

pub use answer::{Accepted, TuneReport};
pub use plan::{Candidate, Profiling, TunePlan};
pub use tuner::auto_tune;
