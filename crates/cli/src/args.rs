//! The command line: what was typed, typed. Grammar and messages are those of Python's argparse as `vllm bench` uses
//! it, which differ enough from any Rust crate's to be written out here.

pub(crate) mod auto_tune;
pub(crate) mod check;
pub(crate) mod compare;
pub(crate) mod convert;
mod engine;
pub(crate) mod error;
pub(crate) mod fit;
pub(crate) mod gate;
pub(crate) mod live;
pub(crate) mod machinery;
pub(crate) mod multi_turn;
pub(crate) mod offline;
pub(crate) mod output;
pub(crate) mod plan;
pub(crate) mod ranks;
pub(crate) mod report;
pub(crate) mod scenario;
pub(crate) mod selfcheck;
pub(crate) mod serve;
pub(crate) mod shell;
pub(crate) mod sim;
pub(crate) mod suite;
pub(crate) mod sweep;
pub(crate) mod topics;

pub(crate) use error::ArgError;

#[cfg(test)]
mod tests;
