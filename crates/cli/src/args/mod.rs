//! The command line: what was typed, typed. Grammar and messages are those of Python's argparse as `vllm bench` uses
//! it, which differ enough from any Rust crate's to be written out here.

pub(crate) mod auto_tune;
pub(crate) mod check;
pub(crate) mod command;
pub(crate) mod compare;
mod config;
pub(crate) mod convert;
mod engine;
pub(crate) mod error;
pub(crate) mod fit;
pub(crate) mod flag;
#[cfg(test)]
mod fuzz;
pub(crate) mod gate;
mod given;
pub(crate) mod grammar;
pub(crate) mod help;
pub(crate) mod live;
mod moving;
pub(crate) mod multi_turn;
pub(crate) mod near;
pub(crate) mod number;
pub(crate) mod offline;
pub(crate) mod output;
pub(crate) mod plan;
pub(crate) mod ranks;
pub(crate) mod report;
mod repr;
pub(crate) mod scenario;
pub(crate) mod scripts;
pub(crate) mod selfcheck;
pub(crate) mod serve;
pub(crate) mod shell;
mod shown;
pub(crate) mod sim;
pub(crate) mod suggest;
pub(crate) mod suite;
pub(crate) mod sweep;
mod tokens;
pub(crate) mod topics;
mod typed;
pub(crate) mod variables;

pub(crate) use error::ArgError;

#[cfg(test)]
mod tests;
