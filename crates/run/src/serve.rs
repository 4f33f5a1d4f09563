//! `tacho serve` by phase: prepare requests and their times, warm up, drive the load, log rows, compute the record.

mod drive;
mod finish;
pub(crate) mod log;
mod outputs;
mod prepare;
mod ranks;
mod request_table;
mod run;
mod sessions;
mod simulate;
mod stops;
mod warmup;

pub use drive::row_command::{RowCommandPlan, WriteRow};
pub use drive::workers::default_workers;
pub(crate) use finish::record::worker_use;
pub(crate) use finish::samples::sample;
pub use log::{LogPlan, LogStart};
pub use outputs::{CheckPlan, GradePlan, GradeRule, KnownReferences, ReferenceSource, can_check};
pub(crate) use prepare::{BUILTIN, load_tokenizer};
pub use prepare::{Contact, Prepared, SAVED_VERSION, prepare, save_requests, save_workload, workload_digest};
pub(crate) use ranks::RankClosing;
pub use ranks::run_share;
pub use run::run;
pub use sessions::{SessionSource, SessionStart, SessionWorkload, SessionsPlan};
pub use simulate::predicted;
