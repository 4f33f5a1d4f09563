//! How a command line is declared, read and explained, by the rules of Python's argparse as `vllm bench` uses it, which
//! differ enough from any Rust crate's to be written out here. One row of a table is one flag: from it come the parser,
//! the typed field, help, completions, manual pages, and the names in files and variables. Nothing in here knows a flag
//! or a command by what it does.

pub mod command;
pub mod complete;
pub mod config;
mod entry;
mod error;
pub mod flag;
pub mod grammar;
pub mod help;
pub mod man;
pub mod near;
pub mod number;
pub mod reference;
pub mod repr;
pub mod shown;
mod tokens;
pub mod typed;
pub mod variables;

pub use error::{ConfigError, Error, OutOfBounds, UsageError};
pub use grammar::{Parsed, Values};
