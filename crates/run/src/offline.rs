//! Offline engines: the interface of the four offline commands, and the driver of engines in Python.

mod batches;
mod driver;
mod engine;
mod error;
#[cfg(test)]
mod fuzz;
mod logged;
mod measured;
mod notebook;
mod process;
mod protocol;
mod spec;
mod worker;

pub(crate) use batches::check_lengths;
pub use batches::{Batches, OfflineWorkload, Sampler, Source};
pub use driver::{PythonEngine, find_python};
pub use engine::{Batch, Generated, Loaded, OfflineEngine, Sampling, Slot, StageTimes, Step};
pub use error::EngineError;
pub use logged::LoggedEngine;
pub use measured::Measured;
pub use notebook::{Notebook, OFFLINE};
pub use protocol::PROTOCOL;
pub use spec::{LogTap, PythonSpec, WorkerSource};
