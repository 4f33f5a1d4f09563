//! Typed arguments of the commands. Each command declares its flags; `tacho_args` parses them and generates the help.

pub(crate) mod ab_test;
pub(crate) mod auto_tune;
pub(crate) mod backend;
pub(crate) mod bundle;
pub(crate) mod capacity;
pub(crate) mod check;
pub(crate) mod compare;
pub(crate) mod convert;
pub(crate) mod error;
pub(crate) mod explain;
pub(crate) mod fit;
#[cfg(test)]
mod fuzz;
pub(crate) mod gate;
pub(crate) mod help;
pub(crate) mod history;
pub(crate) mod multi_turn;
pub(crate) mod offline;
pub(crate) mod plan;
pub(crate) mod presets;
pub(crate) mod program;
pub(crate) mod record;
pub(crate) mod report;
pub(crate) mod scenario;
pub(crate) mod scripts;
pub(crate) mod selfcheck;
pub(crate) mod serve;
pub(crate) mod shared;
pub(crate) mod shell;
pub(crate) mod sim;
pub(crate) mod suite;
pub(crate) mod sweep;
pub(crate) mod what_if;

pub(crate) use error::ArgError;

#[cfg(test)]
mod tests;
