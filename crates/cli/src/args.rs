//! Typed arguments of the commands. Each command declares its flags; `tacho_args` parses them and generates the help.

pub(crate) mod auto_tune;
pub(crate) mod backend;
pub(crate) mod check;
pub(crate) mod compare;
pub(crate) mod convert;
mod engine;
pub(crate) mod error;
pub(crate) mod fit;
#[cfg(test)]
mod fuzz;
pub(crate) mod gate;
pub(crate) mod live;
pub(crate) mod media;
mod migrating;
pub(crate) mod multi_turn;
pub(crate) mod offline;
pub(crate) mod output;
pub(crate) mod plan;
pub(crate) mod program;
pub(crate) mod ranks;
pub(crate) mod report;
pub(crate) mod scenario;
pub(crate) mod scripts;
pub(crate) mod selfcheck;
pub(crate) mod serve;
pub(crate) mod shell;
pub(crate) mod sign_in;
pub(crate) mod sim;
pub(crate) mod suggest;
pub(crate) mod suite;
pub(crate) mod sweep;
pub(crate) mod topics;

pub(crate) use error::ArgError;

#[cfg(test)]
mod tests;
