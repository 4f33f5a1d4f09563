//! The parts of every experiment that runs commands against servers (sweeps, suites, auto-tune): parameter sets and
//! command words, processes and servers, and where results lie. What an experiment does with them is its own module's.

mod after;
mod archive;
mod capacity;
mod error;
mod grid;
pub(crate) mod layout;
mod process;
mod server;
mod slot;
mod words;

pub use after::AfterBench;
pub use archive::{Archive, Bench, Host, Running, Style};
pub use capacity::Capacity;
pub use error::{Error, Failure};
pub(crate) use grid::same;
pub use grid::{Links, ParamSet, parse_params};
pub(crate) use layout::{clean, directory, run_file, summary_file};
pub use process::{Supervised, program_exists};
pub use server::{Address, ProcessHost, ResetKind, Resident};
pub use slot::Slot;
pub(crate) use words::{UNLIMITED, load_value};
pub use words::{apply, option, split};
