//! One file per subcommand: arguments to plan, plan to run, record to reports.

pub(crate) mod auto_tune;
pub(crate) mod compare;
pub(crate) mod convert;
pub(crate) mod gate;
pub(crate) mod latency;
pub(crate) mod mm_processor;
mod offline;
mod platform;
pub(crate) mod report;
pub(crate) mod selfcheck;
pub(crate) mod serve;
pub(crate) mod sim;
pub(crate) mod startup;
pub(crate) mod suite;
pub(crate) mod supervise;
pub(crate) mod sweep;
pub(crate) mod throughput;
