//! An OpenAI-compatible server around the model of `tacho-engine`, on the real clock.

mod error;
mod faults;
mod listener;
mod offline;
mod proxy;
mod recorder;
pub mod reference_server;
mod server;
mod spec;

pub use error::Error;
pub use faults::{Corruption, FaultSpec, OutputFault};
pub use listener::Serving;
pub use offline::{Drained, MediaTimes, Offline, StartUp};
pub use proxy::{ProxySpec, start_proxy};
pub use recorder::{Exchange, start_recorder};
pub use reference_server::{ReferenceServer, ReferenceSpec};
pub use server::Server;
pub use spec::{MediaSpec, SimSpec};
