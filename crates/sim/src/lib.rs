//! An OpenAI-compatible server around the model of `tacho-engine`, on the real clock.

mod error;
mod faults;
pub mod metronome;
mod offline;
mod proxy;
mod server;
mod spec;

pub use error::Error;
pub use faults::FaultSpec;
pub use metronome::{Metronome, MetronomeSpec};
pub use offline::{Drained, MediaTimes, Offline, StartUp};
pub use proxy::{Proxy, ProxySpec};
pub use server::Server;
pub use spec::SimSpec;
