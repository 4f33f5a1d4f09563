//! The command line: what was typed, typed. Grammar and messages are those of Python's argparse as `vllm bench` uses
//! it, which differ enough from any Rust crate's to be written out here.

mod command;
mod config;
pub(crate) mod convert;
mod error;
mod flag;
mod grammar;
mod help;
mod number;
mod repr;
pub(crate) mod serve;
pub(crate) mod sim;
mod tokens;

pub(crate) use command::{Invocation, parse};
pub(crate) use error::ArgError;

#[cfg(test)]
mod tests;
