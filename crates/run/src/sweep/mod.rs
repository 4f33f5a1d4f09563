//! `tacho sweep`: commands run over parameter sets. A sweep is handed what is already stored and hands back each new
//! result as it comes; how commands run, where servers come from and how files are written is its caller's business.

mod archive;
mod combination;
mod error;
mod grid;
mod layout;
mod process;
mod serve;
mod server;
mod session;
mod sla;
mod slot;
mod startup;
mod startup_keys;
mod words;
mod workload;

pub use archive::{Archive, Bench, Host, Running, Style};
pub use error::{Error, Failure};
pub use grid::{Links, ParamSet, parse_params};
pub(crate) use layout::clean;
pub use process::{Supervised, program_exists};
pub use serve::serve;
pub use server::{Address, ProcessHost, ResetKind, Resident};
pub(crate) use session::command_text;
pub use session::{AfterBench, Report, SweepPlan};
pub use sla::{SlaPlan, parse_targets, sla};
pub use slot::Slot;
pub use startup::{StartupPlan, filter_params, startup};
pub use words::{apply, option, split};
pub use workload::{LoadVariable, WorkloadPlan, workload};
