//! Experiments: commands run against servers, point by point (sweeps, SLO searches, suites, auto-tune). A plan
//! selects the points; this module measures and stores them, with parameter sets, commands, processes, servers and
//! files.

mod archive;
mod args;
mod capacity;
mod error;
mod grid;
pub(crate) mod layout;
mod level;
mod process;
mod server;
mod session;

pub use archive::{Archive, Bench, Host, Style, Tools};
pub(crate) use args::{UNLIMITED_RATE, spelled};
pub use args::{apply, option, split};
pub use capacity::Capacity;
pub use error::{Error, Failure};
pub use grid::{Links, ParamSet, parse_params};
pub(crate) use grid::{same, same_by};
pub(crate) use layout::{clean, directory, run_file, summary_file};
pub(crate) use level::{Level, explore, required, worst};
pub use process::{Processes, Supervised, program_exists};
pub use server::{Address, AfterBench, ProcessHost, ResetKind, Running, Slot, answers};
pub use session::Report;
pub(crate) use session::{Point, Session, Stop};
