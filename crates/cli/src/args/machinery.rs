//! What all commands share: the parser, the tables' rows, help, suggestions and where values come from. Nothing in here
//! knows a flag by what it does.

pub(crate) mod command;
pub(super) mod config;
pub(crate) mod flag;
#[cfg(test)]
mod fuzz;
mod given;
pub(crate) mod grammar;
pub(crate) mod help;
pub(super) mod migrating;
pub(crate) mod near;
pub(crate) mod number;
pub(super) mod repr;
pub(crate) mod scripts;
pub(super) mod shown;
pub(crate) mod suggest;
mod tokens;
pub(super) mod typed;
pub(crate) mod variables;
