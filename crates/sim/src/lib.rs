//! An OpenAI-compatible simulator of a continuous-batching engine: `engine` is a model that is stepped through given
//! times, `server` puts it behind HTTP on the real clock.

mod crowd;
pub mod engine;
mod error;
mod faults;
pub mod foresight;
mod machine;
pub mod metronome;
mod offline;
mod proxy;
mod reader;
mod server;
mod spec;
mod versions;

pub use engine::{CostModel, EngineSpec, Pace, Profile, Stats};
pub use error::Error;
pub use faults::FaultSpec;
pub use machine::{Front, Machine};
pub use metronome::{Metronome, MetronomeSpec};
pub use offline::{Drained, MediaTimes, Offline, StartUp, prompt_ids};
pub use proxy::{Proxy, ProxySpec};
pub use server::Server;
pub use spec::SimSpec;
