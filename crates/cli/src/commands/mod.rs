//! One file per subcommand: arguments to plan, plan to run, record to reports.

pub(crate) mod convert;
pub(crate) mod serve;
pub(crate) mod sim;
