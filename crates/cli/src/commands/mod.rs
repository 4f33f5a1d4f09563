//! One file per subcommand: arguments to plan, plan to run, record to reports.

pub(crate) mod selfcheck;
pub(crate) mod serve;
pub(crate) mod sim;
