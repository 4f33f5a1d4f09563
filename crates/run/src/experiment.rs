//! Experiments: commands run against servers, point by point (sweeps, SLO searches, suites, auto-tune). A plan
//! selects the points; this module measures and stores them, with parameter sets, commands, processes, servers and
//! files.

mod after;
mod archive;
mod capacity;
mod error;
mod grid;
pub(crate) mod layout;
mod level;
mod process;
mod server;
mod session;
mod slot;
mod words;

pub use after::AfterBench;
pub use archive::{Archive, Bench, Host, Running, Style};
pub use capacity::Capacity;
pub use error::{Error, Failure};
pub(crate) use grid::same;
pub use grid::{Links, ParamSet, parse_params};
pub(crate) use layout::{clean, directory, run_file, summary_file};
pub(crate) use level::{Level, explore, required, worst};
pub use process::{Processes, Supervised, program_exists};
pub use server::{Address, ProcessHost, ResetKind, Resident};
pub(crate) use session::{Point, Session, Stop};
pub use session::{Report, Tools};
pub use slot::Slot;
pub(crate) use tacho_core::event::UNLIMITED;
pub(crate) use words::load_value;
pub use words::{apply, option, split};
